// Random: a small seeded generator (xoshiro256**, seeded through splitmix64). Cores get one handed in or seed
// their own from their configuration, so the same seed and the same events give the same run, byte for byte.
// Not for secrets.
#pragma once

#include <cstdint>

#include "raft/base/check.h"

namespace rallypoint {

class Random {
 public:
  explicit Random(uint64_t seed);

  uint64_t next();
  /// Uniform in [0, bound); bound > 0.
  uint64_t below(uint64_t bound);
  /// Uniform in [low, high], both included.
  uint64_t between(uint64_t low, uint64_t high) {
    RALLY_CHECK(low <= high, "low", low, "high", high);
    return high - low == UINT64_MAX ? next() : low + below(high - low + 1);
  }
  /// True with a probability of numerator / denominator.
  bool chance(uint64_t numerator, uint64_t denominator) { return below(denominator) < numerator; }

 private:
  uint64_t state_[4];
};

}  // namespace rallypoint
