// Observer: the one seam through which the core tells what it did. Log lines, metrics and golden traces are
// made from these typed events; the core itself never logs.
//
// Called from inside Core::step() and Core::tick() on the core's thread: return soon, never call back into
// the core. Per-entry work emits nothing; an event costs nothing when no observer is set.
#pragma once

#include <cstdint>
#include <variant>

#include "raft/base/units.h"
#include "raft/types.h"

namespace rallypoint::raft::trace {

enum class ElectionReason : uint8_t { kTimeout, kLeaderGone, kTransfer, kFirstElection, kSingleVoter };
enum class StepDownReason : uint8_t { kHigherTerm, kQuorumLost, kDiskStalled, kRemoved };
enum class RefusalReason : uint8_t {
  kOldTerm,
  kVotedAlready,
  kLogBehind,
  kLeaderAlive,
  kWrongDirectory,
  kNotAVoter,
  kNotBlank,
};

struct PreVoteStarted {
  Term term;
  ElectionReason reason;
};
struct ElectionStarted {
  Term term;
  ElectionReason reason;
};
struct VoteGranted {
  NodeId candidate;
  Term term;
  bool pre_vote;
};
struct VoteRefused {
  NodeId candidate;
  Term term;
  bool pre_vote;
  RefusalReason reason;
};
struct BecameLeader {
  Term term;
  Index last;
};
struct BecameFollower {
  Term term;
  NodeId leader;
};
struct SteppedDown {
  Term term;
  StepDownReason reason;
};
struct LeaderForgotten {
  NodeId leader;
  Term term;
};
struct CommitAdvanced {
  Index commit;
};
struct LogTruncated {
  Index from;
  Index old_last;
};
struct LogConflict {
  NodeId follower;
  Index refused;
  EntryId hint;
};
struct ProgressChanged {
  NodeId follower;
  const char* state;
  Index next;
};
struct MembershipApplied {
  Index index;
  Membership membership;
};
struct MembershipRolledBack {
  Index index;
  Membership membership;
};
struct SnapshotWanted {
  NodeId follower;
  Index first;
};
struct SnapshotSendStarted {
  NodeId follower;
  EntryId snapshot;
};
struct SnapshotSendEnded {
  NodeId follower;
  EntryId snapshot;
  bool installed;
};
struct SnapshotInstalled {
  EntryId snapshot;
};
struct LogCompacted {
  Index to;
};
struct TransferStarted {
  NodeId to;
};
struct TransferEnded {
  NodeId to;
  bool done;
};
struct WrongDirectory {
  NodeId node;
  DirectoryId expected;
  DirectoryId got;
};
struct DirectoriesBound {
  Index index;
};
struct MemberReturned {
  NodeId node;
  DirectoryId directory;
};

}  // namespace rallypoint::raft::trace

namespace rallypoint::raft {

using TraceEvent =
    std::variant<trace::PreVoteStarted, trace::ElectionStarted, trace::VoteGranted, trace::VoteRefused,
                 trace::BecameLeader, trace::BecameFollower, trace::SteppedDown, trace::LeaderForgotten,
                 trace::CommitAdvanced, trace::LogTruncated, trace::LogConflict, trace::ProgressChanged,
                 trace::MembershipApplied, trace::MembershipRolledBack, trace::SnapshotWanted,
                 trace::SnapshotSendStarted, trace::SnapshotSendEnded, trace::SnapshotInstalled,
                 trace::LogCompacted, trace::TransferStarted, trace::TransferEnded, trace::WrongDirectory,
                 trace::DirectoriesBound, trace::MemberReturned>;

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_event(const TraceEvent& event) = 0;
};

}  // namespace rallypoint::raft
