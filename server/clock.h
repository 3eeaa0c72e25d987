// Clock: the two clocks of a node, handed in, so that a simulator can drive whole nodes in virtual time. Everything
// that decides runs on the monotonic one; the wall clock is only shown.
//
// Called from any thread.
#pragma once

#include <chrono>

#include "raft/base/units.h"

namespace rallypoint::server {

class Clock {
 public:
  virtual ~Clock() = default;
  /// Never runs backwards; comparable within a process only.
  [[nodiscard]] virtual Instant monotonic() const = 0;
  /// For display; may jump.
  [[nodiscard]] virtual int64_t wall_unix_ns() const = 0;
};

/// The machine's. Instants are those of std::chrono::steady_clock, in microseconds.
class SystemClock final : public Clock {
 public:
  [[nodiscard]] Instant monotonic() const override {
    return {std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch()).count()};
  }
  [[nodiscard]] int64_t wall_unix_ns() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  }
};

}  // namespace rallypoint::server
