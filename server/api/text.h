// Small text forms that the pages of the client port share. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rallypoint::server {

/// Lower case, without leading zeros: how etcd writes ids.
std::string to_hex(uint64_t id);
/// The whole of `text` as a hexadecimal id; false if it is none.
bool parse_hex(std::string_view text, uint64_t& id);
/// "2026-12-01T08:00:00.123456789Z"
std::string to_rfc3339(int64_t unix_ns);
/// "1h2m3.5s", as Go prints durations.
std::string to_go_duration(int64_t ns);
/// Nanoseconds since 1970 on the wall clock; for display only.
int64_t wall_time_unix_ns();
/// `["a","b"]`
void append_json_strings(std::string& out, const std::vector<std::string>& texts);
/// With &, <, > and quotes as entities.
std::string escape_html(std::string_view text);

}  // namespace rallypoint::server
