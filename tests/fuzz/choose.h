// Choose: a fuzzer's bytes as decisions, so that what is generated is nearly right and wrong in interesting places. At the
// end of the bytes every decision is the first one.
#pragma once

#include <google/protobuf/message.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace rallypoint {

class Choose {
 public:
  Choose(const uint8_t* data, size_t size) : left_(reinterpret_cast<const char*>(data), size) {}

  [[nodiscard]] bool more() const { return !left_.empty(); }
  uint8_t byte() {
    if (left_.empty()) return 0;
    const auto value = static_cast<uint8_t>(left_.front());
    left_.remove_prefix(1);
    return value;
  }
  size_t below(size_t count) { return count == 0 ? 0 : byte() % count; }
  bool often() { return byte() < 192; }
  bool seldom() { return byte() >= 240; }
  std::string_view raw(size_t size) {
    const std::string_view part = left_.substr(0, size);
    left_.remove_prefix(part.size());
    return part;
  }
  /// Small ones, the ends of the range, and the neighbours of limits.
  int64_t number() {
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max(), kMin = std::numeric_limits<int64_t>::min();
    constexpr int64_t kNumbers[] = {kMax, kMin, kMax - 1, kMin + 1, -1, -2, int64_t{1} << 32, (int64_t{1} << 31) - 1, -(int64_t{1} << 31), 9'000'000'000, 9'000'000'001};
    const uint8_t choice = byte();
    if (choice < 200) return choice % 16;
    if (choice < 210) return 1000 + byte();
    return kNumbers[choice % std::size(kNumbers)];
  }
  /// A key, a prefix's end, or anything.
  std::string text() {
    constexpr std::string_view kTexts[] = {"a", "b", "c", "ab", "", std::string_view("\0", 1), "\xff", "z", std::string_view("a\0", 2), "lock/"};
    const uint8_t choice = byte();
    if (choice < 240) return std::string(kTexts[choice % std::size(kTexts)]);
    return std::string(raw(byte()));
  }

  /// Fills what the message may have: fields left out, unions empty, enums out of range, nesting.
  void fill(google::protobuf::Message& message, int depth = 0) {
    using Field = google::protobuf::FieldDescriptor;
    const auto* type = message.GetDescriptor();
    const auto* reflection = message.GetReflection();
    for (int i = 0; i < type->field_count(); ++i) {
      const Field* field = type->field(i);
      // Of a union one member, or none.
      if (field->containing_oneof() != nullptr && reflection->HasOneof(message, field->containing_oneof())) continue;
      if (!often()) continue;
      const size_t times = field->is_repeated() ? below(4) : 1;
      for (size_t n = 0; n < times; ++n) {
        const bool add = field->is_repeated();
        switch (field->cpp_type()) {
          case Field::CPPTYPE_INT64: add ? reflection->AddInt64(&message, field, number()) : reflection->SetInt64(&message, field, number()); break;
          case Field::CPPTYPE_UINT64:
            add ? reflection->AddUInt64(&message, field, static_cast<uint64_t>(number())) : reflection->SetUInt64(&message, field, static_cast<uint64_t>(number()));
            break;
          case Field::CPPTYPE_BOOL: add ? reflection->AddBool(&message, field, byte() % 2) : reflection->SetBool(&message, field, byte() % 2); break;
          case Field::CPPTYPE_STRING: {
            // Text must be UTF-8, or it isn't encoded as the client meant it.
            std::string value = field->type() == Field::TYPE_STRING ? std::string(1 + below(3), 'n') : text();
            add ? reflection->AddString(&message, field, std::move(value)) : reflection->SetString(&message, field, std::move(value));
            break;
          }
          case Field::CPPTYPE_ENUM: {
            const int value = seldom() ? 77 : static_cast<int>(below(static_cast<size_t>(field->enum_type()->value_count())));
            add ? reflection->AddEnumValue(&message, field, value) : reflection->SetEnumValue(&message, field, value);
            break;
          }
          case Field::CPPTYPE_MESSAGE: {
            auto* part = add ? reflection->AddMessage(&message, field) : reflection->MutableMessage(&message, field);
            if (depth < 6) fill(*part, depth + 1);
            break;
          }
          default: break;
        }
      }
    }
  }

 private:
  std::string_view left_;
};

}  // namespace rallypoint
