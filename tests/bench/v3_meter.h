// What a run of the load has to show: operations, their latencies, and the CPU time of the servers, all of one window.
//
// The window opens and closes at single moments of the load's own thread, while operations are under way; an operation
// counts if it ends inside. CPU time is read from the processes' own clocks (exact to the nanosecond), so it may include
// what other clients make them do: there should be none.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace rallypoint::bench {

using Clock = std::chrono::steady_clock;

/// Resident memory of a process in bytes.
uint64_t resident_bytes(pid_t pid);

class Meter {
 public:
  /// `pids`: of all servers.
  explicit Meter(std::vector<pid_t> pids) : pids_(std::move(pids)) {}

  void open();
  void close();
  [[nodiscard]] bool is_open() const { return open_; }

  /// One operation ended; `events` of them count, if the work counts something else than operations.
  void done(Clock::time_point began, Clock::time_point now, uint64_t events = 1) {
    if (!open_) return;
    latencies_us_.push_back(static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::microseconds>(now - began).count()));
    count_ += events;
  }
  /// Failures count whether the window is open or not. The first few are printed.
  void failed(const std::string& why);
  [[nodiscard]] uint64_t failures() const { return failures_; }

  /// One line for v3_table.py: FIGURES and a JSON object.
  void print() const;

 private:
  [[nodiscard]] double server_cpu_seconds() const;

  std::vector<pid_t> pids_;
  std::vector<uint32_t> latencies_us_;
  uint64_t count_ = 0;
  uint64_t failures_ = 0;
  bool open_ = false;
  Clock::time_point opened_;
  double seconds_ = 0;
  double cpu_at_open_ = 0;
  double cpu_seconds_ = 0;
  double own_cpu_at_open_ = 0;
  double own_cpu_seconds_ = 0;
};

}  // namespace rallypoint::bench
