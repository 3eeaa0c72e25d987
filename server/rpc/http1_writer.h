// The bytes of an HTTP/1.1 response head, appended to a buffer. Pure; no allocation but the buffer's growth.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace rallypoint::server::http1 {

/// "HTTP/1.1 404 Not Found\r\n"
void append_status_line(std::string& out, int status);

/// "Name: value\r\n". A line break in the value (it may come from a request) ends the value: no response splitting.
inline void append_field(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  out += ": ";
  out += value.substr(0, value.find_first_of("\r\n"));
  out += "\r\n";
}

inline void append_number_field(std::string& out, std::string_view name, uint64_t number) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  append_field(out, name, {digits, static_cast<size_t>(end - digits)});
}

}  // namespace rallypoint::server::http1
