// Violation: what the simulator throws when a property is broken; it ends the run and names the property.
// Test code only (the product passes Status values and never throws).
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

#include "raft/base/check.h"

namespace rallypoint::sim {

class Violation : public std::runtime_error {
 public:
  Violation(std::string property, const std::string& details)
      : std::runtime_error(property + ": " + details), property_(std::move(property)) {}
  /// One of the short names below and in planted_bugs.md, e.g. "election safety".
  [[nodiscard]] const std::string& property() const { return property_; }

 private:
  std::string property_;
};

/// The properties, by the words of the paper where it has one.
namespace property {
inline constexpr const char* kElectionSafety = "election safety";
inline constexpr const char* kVotes = "votes are single and durable";
inline constexpr const char* kElectorate = "a leader has a quorum of bound directories";
inline constexpr const char* kAcks = "acks are durable";
inline constexpr const char* kAckedStay = "acked entries stay";
inline constexpr const char* kLogMatching = "log matching";
inline constexpr const char* kLeaderCompleteness = "leader completeness";
inline constexpr const char* kCommitRule = "only own-term entries on a durable quorum commit";
inline constexpr const char* kCommitMonotonic = "commit never falls";
inline constexpr const char* kStateMachine = "state-machine safety";
inline constexpr const char* kDurableApply = "only durable entries are applied";
inline constexpr const char* kReads = "linearizable reads";
inline constexpr const char* kProposals = "proposals are applied once or refused";
inline constexpr const char* kConfig = "config safety";
inline constexpr const char* kSnapshot = "snapshots equal the log";
inline constexpr const char* kDiskContract = "writes make a valid log";
inline constexpr const char* kCompaction = "the log holds all that is not applied";
inline constexpr const char* kStickiness = "followers of a live leader grant no votes";
inline constexpr const char* kPreVote = "a pre-vote changes no term";
inline constexpr const char* kOldTerm = "messages of older terms change nothing";
inline constexpr const char* kCheckQuorum = "a leader without a quorum steps down";
inline constexpr const char* kRemovedLeader = "a removed leader steps down";
inline constexpr const char* kTransfer = "no proposals during a transfer";
inline constexpr const char* kForgery = "committed entries survive a forged append";
inline constexpr const char* kRecovery = "recovery keeps all that was synced";
inline constexpr const char* kLiveness = "progress after healing";
inline constexpr const char* kCoreInvariant = "core invariants";
inline constexpr const char* kCoreCheck = "core check";
}  // namespace property

namespace detail {
template <class... Pairs>
[[noreturn, gnu::noinline, gnu::cold]] void violate(const char* property, const Pairs&... pairs) {
  std::ostringstream out;
  check_detail::append_pairs(out, pairs...);
  throw Violation(property, out.str());
}
}  // namespace detail
}  // namespace rallypoint::sim

/// SIM_REQUIRE(condition, property::kX, "name", value, ...): throws a Violation unless the condition holds.
#define SIM_REQUIRE(condition, property, ...)                                                          \
  do {                                                                                                 \
    if (!(condition)) [[unlikely]]                                                                     \
      ::rallypoint::sim::detail::violate(property, "expected", #condition __VA_OPT__(, ) __VA_ARGS__); \
  } while (false)
