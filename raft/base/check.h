// RALLY_CHECK: an invariant of ours, on in every build. A broken one means that we (or the disk) broke a promise,
// so the process stops with a message instead of serving doubtful data. Never used on input from a peer or a
// client: bad input is a Status.
//
//   RALLY_CHECK(commit <= last, "node", id, "commit", commit, "last", last);
#pragma once

#include <sstream>
#include <string>

namespace rallypoint {

/// Prints the message to stderr and aborts. A test or the server may set a hook that is told first (it must not
/// return control to the failed code in any way but by ending the process or throwing).
[[noreturn]] void check_failed(const char* expression, const char* file, int line, const std::string& details);

/// Called with the complete message before the process ends; nullptr = none. Set once, before threads start.
void set_check_failure_hook(void (*hook)(const std::string& message));

namespace check_detail {
inline void append_pairs(std::ostringstream&) {}
template <class Name, class Value, class... Rest>
void append_pairs(std::ostringstream& out, const Name& name, const Value& value, const Rest&... rest) {
  out << ' ' << name << '=' << value;
  append_pairs(out, rest...);
}
template <class... Pairs>
[[noreturn, gnu::noinline, gnu::cold]] void fail(const char* expression, const char* file, int line,
                                                 const Pairs&... pairs) {
  std::ostringstream out;
  append_pairs(out, pairs...);
  check_failed(expression, file, line, out.str());
}
}  // namespace check_detail
}  // namespace rallypoint

/// RALLY_CHECK(condition, "name", value, ...): pairs of a name and a streamable value explain the failure.
#define RALLY_CHECK(condition, ...)                                                                         \
  do {                                                                                                      \
    if (!(condition)) [[unlikely]]                                                                          \
      ::rallypoint::check_detail::fail(#condition, __FILE__, __LINE__ __VA_OPT__(, ) __VA_ARGS__);          \
  } while (false)
