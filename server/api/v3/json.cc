#include "server/api/v3/json.h"

#include <google/protobuf/descriptor.h>
#include <openssl/evp.h>

#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "server/api/v2_json.h"

namespace rallypoint::server::v3 {
namespace {

namespace json = boost::json;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kDepthMax = 200;  // more than a transaction that can be read needs
constexpr std::string_view kSpace = " \t\r\n";

Status wrong(const FieldDescriptor& field, std::string_view what) {
  return Status::invalid_argument("json: " + field.full_name() + " " + std::string(what));
}

// ---- in -----------------------------------------------------------------------------------------------------

/// nullopt = no number of that type.
template <class Int>
std::optional<Int> to_integer(const json::value& value) {
  if (const auto* text = value.if_string()) {
    Int number{};
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
    if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
    return number;
  }
  if (const auto* number = value.if_int64())
    return std::in_range<Int>(*number) ? std::optional<Int>(static_cast<Int>(*number)) : std::nullopt;
  if (const auto* number = value.if_uint64())
    return std::in_range<Int>(*number) ? std::optional<Int>(static_cast<Int>(*number)) : std::nullopt;
  if (const auto* number = value.if_double()) {  // 1e3 is a whole number too
    constexpr double kExact = 9007199254740992;  // beyond 2^53 it may be another one than was meant
    if (std::trunc(*number) != *number || std::fabs(*number) > kExact) return std::nullopt;
    const auto whole = static_cast<int64_t>(*number);
    return std::in_range<Int>(whole) ? std::optional<Int>(static_cast<Int>(whole)) : std::nullopt;
  }
  return std::nullopt;
}

int digit_of_base64(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+' || c == '-') return 62;  // '-' and '_': the alphabet for URLs
  if (c == '/' || c == '_') return 63;
  return -1;
}

/// Padded or not.
std::optional<std::string> from_base64(std::string_view text) {
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int digit = digit_of_base64(c);
    if (digit < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count);
    }
  }
  return bytes;
}

Status parse_object(const json::object& object, Message& message);

/// Sets the field, or adds to it if it is repeated.
template <class T>
void put(Message& message, const FieldDescriptor& field, T value, void (Reflection::*set)(Message*, const FieldDescriptor*, T) const,
         void (Reflection::*add)(Message*, const FieldDescriptor*, T) const) {
  (message.GetReflection()->*(field.is_repeated() ? add : set))(&message, &field, std::move(value));
}

template <class Int>
Status put_integer(Message& message, const FieldDescriptor& field, const json::value& value,
                   void (Reflection::*set)(Message*, const FieldDescriptor*, Int) const,
                   void (Reflection::*add)(Message*, const FieldDescriptor*, Int) const) {
  const auto number = to_integer<Int>(value);
  if (!number) return wrong(field, "is no whole number in its range");
  put<Int>(message, field, *number, set, add);
  return Status::ok();
}

Status parse_value(const json::value& value, Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: return put_integer<int32_t>(message, field, value, &Reflection::SetInt32, &Reflection::AddInt32);
    case FieldDescriptor::CPPTYPE_INT64: return put_integer<int64_t>(message, field, value, &Reflection::SetInt64, &Reflection::AddInt64);
    case FieldDescriptor::CPPTYPE_UINT32: return put_integer<uint32_t>(message, field, value, &Reflection::SetUInt32, &Reflection::AddUInt32);
    case FieldDescriptor::CPPTYPE_UINT64: return put_integer<uint64_t>(message, field, value, &Reflection::SetUInt64, &Reflection::AddUInt64);
    case FieldDescriptor::CPPTYPE_BOOL:
      if (!value.is_bool()) return wrong(field, "is neither true nor false");
      put<bool>(message, field, value.get_bool(), &Reflection::SetBool, &Reflection::AddBool);
      return Status::ok();
    case FieldDescriptor::CPPTYPE_ENUM: {
      if (const auto* name = value.if_string()) {
        const EnumValueDescriptor* known = field.enum_type()->FindValueByName(std::string(name->data(), name->size()));
        if (known == nullptr) return wrong(field, "has no value of that name");
        put<int>(message, field, known->number(), &Reflection::SetEnumValue, &Reflection::AddEnumValue);
        return Status::ok();
      }
      const auto number = to_integer<int32_t>(value);
      if (!number) return wrong(field, "is neither a name nor a number");
      put<int>(message, field, *number, &Reflection::SetEnumValue, &Reflection::AddEnumValue);
      return Status::ok();
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      const auto* text = value.if_string();
      if (text == nullptr) return wrong(field, "is no string");
      std::string bytes(text->data(), text->size());
      if (field.type() == FieldDescriptor::TYPE_BYTES) {
        auto decoded = from_base64(bytes);
        if (!decoded) return wrong(field, "is not in base64");
        bytes = std::move(*decoded);
      }
      put<std::string>(message, field, std::move(bytes), &Reflection::SetString, &Reflection::AddString);
      return Status::ok();
    }
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      const auto* object = value.if_object();
      if (object == nullptr) return wrong(field, "is no object");
      return parse_object(*object, field.is_repeated() ? *reflection.AddMessage(&message, &field) : *reflection.MutableMessage(&message, &field));
    }
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE: break;  // no message of ours has any
  }
  return wrong(field, "can't be read from JSON");
}

Status parse_object(const json::object& object, Message& message) {
  for (const auto& [key, value] : object) {
    const std::string name(key.data(), key.size());
    const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
    if (field == nullptr) field = message.GetDescriptor()->FindFieldByCamelcaseName(name);
    if (field == nullptr || value.is_null()) continue;
    if (!field->is_repeated()) {
      RALLY_RETURN_IF_ERROR(parse_value(value, message, *field));
      continue;
    }
    const auto* array = value.if_array();
    if (array == nullptr) return wrong(*field, "is no array");
    for (const json::value& item : *array) RALLY_RETURN_IF_ERROR(parse_value(item, message, *field));
  }
  return Status::ok();
}

// ---- out ----------------------------------------------------------------------------------------------------

void append_base64(std::string& out, std::string_view bytes) {
  const size_t before = out.size();
  out.resize(before + (bytes.size() + 2) / 3 * 4 + 1);  // it ends its output with a zero
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data() + before),
                                     reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  out.resize(before + static_cast<size_t>(length));
}

template <class Int>
void append_number(std::string& out, Int number) {
  constexpr bool kQuoted = sizeof(Int) == 8;  // what JavaScript can't hold is a string
  std::array<char, 24> digits;
  char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  if (kQuoted) out += '"';
  out.append(digits.data(), end);
  if (kQuoted) out += '"';
}

/// `index` < 0: the field itself, otherwise that one of its values.
void append_value(std::string& out, const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& r = *message.GetReflection();
  const FieldDescriptor* f = &field;
  const bool one = index < 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: return append_number(out, one ? r.GetInt32(message, f) : r.GetRepeatedInt32(message, f, index));
    case FieldDescriptor::CPPTYPE_INT64: return append_number(out, one ? r.GetInt64(message, f) : r.GetRepeatedInt64(message, f, index));
    case FieldDescriptor::CPPTYPE_UINT32: return append_number(out, one ? r.GetUInt32(message, f) : r.GetRepeatedUInt32(message, f, index));
    case FieldDescriptor::CPPTYPE_UINT64: return append_number(out, one ? r.GetUInt64(message, f) : r.GetRepeatedUInt64(message, f, index));
    case FieldDescriptor::CPPTYPE_BOOL: out += (one ? r.GetBool(message, f) : r.GetRepeatedBool(message, f, index)) ? "true" : "false"; return;
    case FieldDescriptor::CPPTYPE_ENUM: {
      const int number = one ? r.GetEnumValue(message, f) : r.GetRepeatedEnumValue(message, f, index);
      const EnumValueDescriptor* known = field.enum_type()->FindValueByNumber(number);
      if (known == nullptr) return append_number(out, number);
      return append_json_string(out, known->name());
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      std::string space;
      const std::string& text = one ? r.GetStringReference(message, f, &space) : r.GetRepeatedStringReference(message, f, index, &space);
      if (field.type() != FieldDescriptor::TYPE_BYTES) return append_json_string(out, text);
      out += '"';
      append_base64(out, text);
      out += '"';
      return;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE: return append_json(out, one ? r.GetMessage(message, f) : r.GetRepeatedMessage(message, f, index));
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE: out += "null"; return;  // no message of ours has any
  }
}

}  // namespace

Status parse_json(std::string_view text, Message& message) {
  if (text.find_first_not_of(kSpace) == std::string_view::npos) return Status::ok();
  json::parse_options options;
  options.max_depth = kDepthMax;
  boost::system::error_code error;
  const json::value value = json::parse({text.data(), text.size()}, error, {}, options);
  if (error) return Status::invalid_argument("json: " + error.message());
  const auto* object = value.if_object();
  if (object == nullptr) return Status::invalid_argument("json: the request is no object");
  return parse_object(*object, message);
}

void append_json(std::string& out, const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  out += '{';
  for (size_t i = 0; i < fields.size(); ++i) {
    if (i != 0) out += ',';
    out += '"' + fields[i]->name() + "\":";
    if (!fields[i]->is_repeated()) {
      append_value(out, message, *fields[i], -1);
      continue;
    }
    out += '[';
    const int size = message.GetReflection()->FieldSize(message, fields[i]);
    for (int k = 0; k < size; ++k) {
      if (k != 0) out += ',';
      append_value(out, message, *fields[i], k);
    }
    out += ']';
  }
  out += '}';
}

Result<std::string_view> cut_json_value(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(kSpace), rest.size()));
  if (rest.empty()) return rest;
  json::parse_options options;
  options.max_depth = kDepthMax;
  json::stream_parser parser({}, options);
  boost::system::error_code error;
  size_t used = parser.write_some(rest.data(), rest.size(), error);
  if (!error && !parser.done()) parser.finish(error);
  if (error) return Status::invalid_argument("json: " + error.message());
  const std::string_view value = rest.substr(0, used);
  rest.remove_prefix(used);
  return value;
}

}  // namespace rallypoint::server::v3
