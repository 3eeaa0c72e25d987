// Logging: one fact a line, `key=value`, from any thread, never blocking the caller.
//
//   2026-12-01T08:00:00.123Z info  "ready to serve client requests" node=default urls=http://127.0.0.1:2379
//
// Lines go to a bounded queue (spdlog); when it is full the oldest is dropped and counted. One thread writes them. It
// never waits long for a pipe that nobody reads, it drops instead, so a forgotten stderr=PIPE can't stall the node or
// its exit. Values and secrets of clients are not logged; per request nothing above debug.
// The cores do not log; only the shells (server/) do.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "raft/base/status.h"

namespace rallypoint::server {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };

/// A key and its value, formatted.
struct LogField {
  std::string_view key;
  std::string value;
  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(v) {}
  LogField(std::string_view k, std::string v) : key(k), value(std::move(v)) {}
  LogField(std::string_view k, bool v) : key(k), value(v ? "true" : "false") {}
  template <class Number>
    requires(std::integral<Number> || std::floating_point<Number>)
  LogField(std::string_view k, Number v) : key(k), value(std::to_string(v)) {}
  LogField(std::string_view k, const Status& v) : key(k), value(v.to_string()) {}
};

/// Before it is called, and after shutdown_logging(), lines are written to stderr as they come.
/// `outputs`: "stderr", "stdout" or paths of files, which are appended to. `node` stands in every line.
Status init_logging(std::string_view level, const std::vector<std::string>& outputs, std::string_view node);
/// The Raft term that every line states from now on; 0 = none known.
void set_log_term(uint64_t term);
/// Lets the queue run dry, for at most 50 ms; then the rest is lost. Call before main ends.
void shutdown_logging();

[[nodiscard]] bool log_enabled(LogLevel level);
void log(LogLevel level, std::string_view fact, std::initializer_list<LogField> fields = {});

inline void log_debug(std::string_view fact, std::initializer_list<LogField> fields = {}) {
  if (log_enabled(LogLevel::kDebug)) log(LogLevel::kDebug, fact, fields);
}
inline void log_info(std::string_view fact, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::kInfo, fact, fields);
}
inline void log_warning(std::string_view fact, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::kWarning, fact, fields);
}
/// An error line says what the operator can do.
inline void log_error(std::string_view fact, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::kError, fact, fields);
}

}  // namespace rallypoint::server
