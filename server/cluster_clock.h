// ClusterClock: the time that drives every deadline in the state. Microseconds that leaders counted on their monotonic
// clocks, carried on from the state's value at each election; never wall time, and time without a leader does not
// count. A jump (the process was stopped) counts as kJumpMax: nobody could renew anything meanwhile.
//
// Pure: the owner hands the monotonic clock in. What a follower reads here is an estimate for display only.
#pragma once

#include <algorithm>

#include "raft/base/units.h"

namespace rallypoint::server {

class ClusterClock {
 public:
  static constexpr Duration kJumpMax = Duration::millis(500);

  /// Time passed on the monotonic clock; `counts` = there is a leader.
  void advance(Instant monotonic, bool counts) {
    const Duration passed = std::clamp(monotonic - last_, Duration{0}, kJumpMax);
    last_ = monotonic;
    if (counts) now_ = now_ + passed;
  }
  /// The state's value after an apply: never behind it.
  void at_least(Instant state) { now_ = std::max(now_, state); }
  /// A new leader starts from the state.
  void restart_from(Instant state) { now_ = state; }
  [[nodiscard]] Instant now() const { return now_; }

 private:
  Instant now_;
  Instant last_;
};

}  // namespace rallypoint::server
