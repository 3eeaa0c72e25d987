// Coverage: how often the rare things happened, summed over runs. A counter that stays 0 says that the
// simulation never went there, so its silence about it means nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace rallypoint::sim {

enum class Counter : int {
  kElections,
  kElectionsByLeaderGone,
  kElectionsByTransfer,
  kCommits,
  kAcknowledged,
  kRejected,
  kUnknownOutcomes,
  kReads,
  kReadsAtFollowers,
  kReadsFailed,
  kReadsAboveFloor,
  kCrashes,
  kTornWrites,
  kRestarts,
  kWipes,
  kMembersReturned,
  kPauses,
  kPartitions,
  kOneWayCuts,
  kDeposals,
  kSlowLinks,
  kDroppedMessages,
  kDuplicates,
  kReordered,
  kDiskStalls,
  kLeaderGoneHints,
  kFalseHints,
  kForgedAppends,
  kWireRoundTrips,
  kTransfersAsked,
  kTransfersDone,
  kStepDownsHigherTerm,
  kStepDownsQuorumLost,
  kStepDownsDiskStalled,
  kStepDownsRemoved,
  kLogTruncations,
  kLogConflicts,
  kCompactions,
  kSnapshotsMade,
  kSnapshotsInstalled,
  kSnapshotPieces,
  kTornInstalls,
  kFallbacksToFlush,
  kMembershipChanges,
  kJointChanges,
  kLearnersAdded,
  kPromotions,
  kRemovals,
  kDemotions,
  kMembershipRollbacks,
  kWrongDirectories,
  kRealLogRuns,
  kRealLogRecoveries,
  kBatchedSteps,
  kCount,
};

[[nodiscard]] const char* counter_name(Counter counter);

class Coverage {
 public:
  void add(Counter counter, uint64_t n = 1) { counts_[static_cast<size_t>(counter)] += n; }
  [[nodiscard]] uint64_t get(Counter counter) const { return counts_[static_cast<size_t>(counter)]; }
  void merge(const Coverage& other) {
    for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  }
  /// Prints all counters in columns and, last, the names of those that stayed 0.
  void print() const;

 private:
  std::array<uint64_t, static_cast<size_t>(Counter::kCount)> counts_{};
};

}  // namespace rallypoint::sim
