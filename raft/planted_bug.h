// Planted bugs: known wrong versions of single rules, to prove that the tests would notice. Each is a switch
// at the line that it breaks; the simulation turns one on at a time and must fail.
//
// In a product build RALLY_PLANTED_BUG(...) is the constant false. With RALLY_PLANTED_BUGS=1 it reads one
// global that tests set before they run anything (not thread safe by design: the simulation has one thread).
#pragma once

#include <span>

namespace rallypoint::raft {

enum class PlantedBug : int {
  kNone = 0,
  kVoteTwiceInTerm,
  kVoteWithoutLogCheck,
  kVoteBeforePersisted,
  kElectOnMinority,
  kIgnoreDirectory,
  kBlankElectionByMajority,
  kPreVoteAdoptsTerm,
  kNoStickiness,
  kCommitOldTermByCounting,
  kCommitOnMinority,
  kAckBeforePersisted,
  kLeaderCountsUnpersisted,
  kPersistedIgnoresTruncation,
  kCommitBeyondMatch,
  kHeartbeatCommitUnbounded,
  kSkipPreviousCheck,
  kTruncateOnEveryAppend,
  kTruncateCommitted,
  kKeepConflictingTail,
  kReadWithoutRound,
  kReadWithStaleRound,
  kReadBeforeFirstCommit,
  kReadQuorumIsOne,
  kSnapshotOverNewerLog,
  kSnapshotAckBeforePersisted,
  kSnapshotForgetsMembership,
  kSnapshotIgnoresOffset,
  kJointUsesSingleQuorum,
  kMembershipCountsAtCommit,
  kMembershipNotRolledBack,
  kTwoMembershipChanges,
  kChangeBeforeFirstCommit,
  kLearnerCounts,
  kReturnedMemberStaysVoter,
  kRemovedLeaderStays,
  kNoCheckQuorum,
  kTransferKeepsProposing,
  kOldTermAccepted,
  kCompactBeyondApplied,
  kCount,
};

struct PlantedBugInfo {
  PlantedBug bug;
  const char* name;         ///< as on the simulator's command line, e.g. "vote-twice-in-term"
  const char* description;  ///< what the code then does wrong
  const char* caught_by;    ///< the property that must notice
};

/// All of them but kNone, in the order of the enum.
[[nodiscard]] std::span<const PlantedBugInfo> planted_bugs();

/// The bug that is switched on now; only read by the macro below, only set by tests.
extern PlantedBug active_planted_bug;

}  // namespace rallypoint::raft

#if defined(RALLY_PLANTED_BUGS) && RALLY_PLANTED_BUGS
#define RALLY_PLANTED_BUG(name) \
  (::rallypoint::raft::active_planted_bug == ::rallypoint::raft::PlantedBug::name)
#else
#define RALLY_PLANTED_BUG(name) false
#endif
