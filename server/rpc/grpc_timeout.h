// The caller's deadline as gRPC writes it: header grpc-timeout over HTTP/2, Grpc-Timeout in the JSON gateway.
#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "raft/base/units.h"

namespace rallypoint::server {

inline constexpr std::string_view kMalformedTimeout = "grpc: malformed grpc-timeout: up to eight digits and one of H, M, S, m, u, n";

/// "100m" and the like; nullopt = malformed. More than eight digits are not allowed. No time at all is a microsecond: 0
/// stands for a caller that set no deadline.
inline std::optional<Duration> parse_grpc_timeout(std::string_view text) {
  if (text.size() < 2 || text.size() > 9) return std::nullopt;
  int64_t number = 0;
  const char* unit = text.data() + text.size() - 1;
  const auto [stop, error] = std::from_chars(text.data(), unit, number);
  if (error != std::errc() || stop != unit || number < 0) return std::nullopt;
  switch (*unit) {
    case 'H': return Duration::micros(std::max<int64_t>(1, number * 3'600'000'000));
    case 'M': return Duration::micros(std::max<int64_t>(1, number * 60'000'000));
    case 'S': return Duration::micros(std::max<int64_t>(1, number * 1'000'000));
    case 'm': return Duration::micros(std::max<int64_t>(1, number * 1000));
    case 'u': return Duration::micros(std::max<int64_t>(1, number));
    case 'n': return Duration::micros(std::max<int64_t>(1, number / 1000));
    default: return std::nullopt;
  }
}

}  // namespace rallypoint::server
