// Keys of the state machine's own rows in the engine. Each table has a prefix; v2 rows begin with '2' (v2_tree.h),
// the keyspace's with 'k', leases' with 'l'.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rallypoint::server::rows {

inline constexpr std::string_view kMeta = "0meta";     ///< one row: pb::StateMeta
inline constexpr std::string_view kMember = "1m";      ///< + id: pb::MemberAttributes
inline constexpr std::string_view kSession = "1s";     ///< + id: pb::Session
inline constexpr std::string_view kAlarm = "1a";       ///< + member id + type: "a" raised by the quota, "m" by hand
inline constexpr std::string_view kKeptAnswer = "1i";  ///< + serial number: pb::KeptAnswer

/// The prefix with a big-endian number behind it, so that rows lie in the order of the number.
inline std::string numbered(std::string_view prefix, uint64_t number) {
  std::string key(prefix);
  for (int shift = 56; shift >= 0; shift -= 8) key.push_back(static_cast<char>(number >> shift));
  return key;
}
inline uint64_t number_of(std::string_view key) {
  uint64_t number = 0;
  for (char c : key.substr(key.size() - 8)) number = number << 8 | static_cast<uint8_t>(c);
  return number;
}
inline std::string end_of(std::string_view prefix) {
  std::string end(prefix);
  ++end.back();
  return end;
}

}  // namespace rallypoint::server::rows
