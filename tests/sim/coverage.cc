#include "tests/sim/coverage.h"

#include <cstdio>
#include <string>

namespace rallypoint::sim {
namespace {
constexpr const char* kNames[] = {"elections",
                                  "elections-by-leader-gone",
                                  "elections-by-transfer",
                                  "commits",
                                  "acknowledged",
                                  "rejected",
                                  "unknown-outcomes",
                                  "reads",
                                  "reads-at-followers",
                                  "reads-failed",
                                  "reads-above-floor",
                                  "crashes",
                                  "torn-writes",
                                  "restarts",
                                  "wipes",
                                  "members-returned",
                                  "pauses",
                                  "partitions",
                                  "one-way-cuts",
                                  "deposals",
                                  "slow-links",
                                  "dropped-messages",
                                  "duplicates",
                                  "reordered",
                                  "disk-stalls",
                                  "leader-gone-hints",
                                  "false-hints",
                                  "forged-appends",
                                  "wire-round-trips",
                                  "transfers-asked",
                                  "transfers-done",
                                  "step-downs-higher-term",
                                  "step-downs-quorum-lost",
                                  "step-downs-disk-stalled",
                                  "step-downs-removed",
                                  "log-truncations",
                                  "log-conflicts",
                                  "compactions",
                                  "snapshots-made",
                                  "snapshots-installed",
                                  "snapshot-pieces",
                                  "torn-installs",
                                  "fallbacks-to-flush",
                                  "membership-changes",
                                  "joint-changes",
                                  "learners-added",
                                  "promotions",
                                  "removals",
                                  "demotions",
                                  "membership-rollbacks",
                                  "wrong-directories",
                                  "real-log-runs",
                                  "real-log-recoveries",
                                  "batched-steps"};
static_assert(std::size(kNames) == static_cast<size_t>(Counter::kCount));
}  // namespace

const char* counter_name(Counter counter) {
  return kNames[static_cast<size_t>(counter)];
}

void Coverage::print() const {
  std::string zero;
  for (size_t i = 0; i < counts_.size(); ++i) {
    std::printf("  %-26s %12llu%s", kNames[i], static_cast<unsigned long long>(counts_[i]),
                i % 3 == 2 ? "\n" : "");
    if (counts_[i] == 0) zero += std::string(" ") + kNames[i];
  }
  std::printf("\n  never reached:%s\n", zero.empty() ? " nothing" : zero.c_str());
}

}  // namespace rallypoint::sim
