#include "server/api/text.h"

#include <charconv>
#include <cstdio>
#include <ctime>

#include "server/api/v2_json.h"

namespace rallypoint::server {
namespace {
constexpr int64_t kSecond = 1'000'000'000;
}

std::string to_hex(uint64_t id) {
  char digits[16];
  return {digits, std::to_chars(digits, digits + sizeof digits, id, 16).ptr};
}

bool parse_hex(std::string_view text, uint64_t& id) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, id, 16);
  return !text.empty() && error == std::errc() && stop == end;
}

std::string to_rfc3339(int64_t unix_ns) {
  const std::time_t seconds = unix_ns / kSecond;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[48];
  const size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  char fraction[16];
  std::snprintf(fraction, sizeof fraction, ".%09lldZ", static_cast<long long>(unix_ns % kSecond));
  return std::string(text, size) + fraction;
}

std::string to_go_duration(int64_t ns) {
  std::string out;
  const int64_t hours = ns / (3600 * kSecond), minutes = ns / (60 * kSecond) % 60;
  if (hours > 0) out += std::to_string(hours) + "h";
  if (hours > 0 || minutes > 0) out += std::to_string(minutes) + "m";
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3fs", static_cast<double>(ns % (60 * kSecond)) / kSecond);
  return out + seconds;
}

int64_t wall_time_unix_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

void append_json_strings(std::string& out, const std::vector<std::string>& texts) {
  out += '[';
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i != 0) out += ',';
    append_json_string(out, texts[i]);
  }
  out += ']';
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace rallypoint::server
