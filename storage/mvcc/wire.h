// The few bits of protobuf's wire format with which answers are put together from rows as they lie, without parsing and
// encoding them again (protobuf's encoding guide: varints, tags, length-delimited fields).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rallypoint::mvcc::wire {

inline void append_varint(std::string& out, uint64_t number) {
  char bytes[10];
  size_t count = 0;
  while (number >= 0x80) {
    bytes[count++] = static_cast<char>(number | 0x80);
    number >>= 7;
  }
  bytes[count++] = static_cast<char>(number);
  out.append(bytes, count);
}
/// A varint field; zero is the default and is left out, as proto3 has it.
inline void append_number(std::string& out, uint32_t field, int64_t number) {
  if (number == 0) return;
  append_varint(out, field << 3);
  append_varint(out, static_cast<uint64_t>(number));
}
inline void append_bool(std::string& out, uint32_t field, bool value) {
  if (value) append_number(out, field, 1);
}
/// A bytes or message field, also if it is empty.
inline void append_message(std::string& out, uint32_t field, std::string_view message) {
  append_varint(out, field << 3 | 2);
  append_varint(out, message.size());
  out.append(message);
}
/// A bytes field; an empty one is left out.
inline void append_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  if (!bytes.empty()) append_message(out, field, bytes);
}

}  // namespace rallypoint::mvcc::wire
