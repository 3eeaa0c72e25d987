// Message: what one node says to another; one struct per RPC of the paper and its answer (the answers are
// messages too: nothing waits for a reply). Plain values, no behaviour.
//
// Every message carries the sender's term and the id of the sender's data directory: a vote or an ack belongs
// to a disk, not to a name (see membership.h). Anything read from here is a peer's claim and may be late,
// doubled or wrong; the core checks it before it acts.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "raft/base/bytes.h"
#include "raft/types.h"

namespace rallypoint::raft {

/// Asks for a vote (paper 5.2, thesis 9.6). In a pre-vote `Message::term` is the term that the sender would
/// start; the receiver must not adopt it.
struct VoteRequest {
  EntryId last;  ///< the candidate's last log entry
  bool pre_vote = false;
  bool transfer = false;           ///< the leader itself asked for this election: stickiness does not apply
  bool blank = false;              ///< the candidate's log has never held an entry (first election)
  DirectoryId expected_directory;  ///< the directory the candidate has on record for the receiver; 0 = none
  friend bool operator==(const VoteRequest&, const VoteRequest&) = default;
};

/// Answers VoteRequest. A granted pre-vote repeats the asked term in `Message::term`; a refusal carries the
/// own.
struct VoteReply {
  bool pre_vote = false;
  bool granted = false;
  bool blank = false;  ///< the voter's log has never held an entry
  friend bool operator==(const VoteReply&, const VoteReply&) = default;
};

/// Log entries for a follower (paper 5.3); also a probe when empty. Heartbeats are a message of their own.
struct AppendRequest {
  EntryId previous;            ///< the entry right before `entries`
  Index commit;                ///< the leader's commit index
  std::vector<Entry> entries;  ///< contiguous from previous.index + 1
  friend bool operator==(const AppendRequest&, const AppendRequest&) = default;
};

/// Answers AppendRequest. Accepted: the log equals the leader's up to `match`, durably. Refused:
/// `request_previous` was not found; `hint` is the last entry at or below it whose term may still agree with
/// the leader's log.
struct AppendReply {
  bool accepted = false;
  Index match;
  Index request_previous;
  EntryId hint;
  bool blank = false;  ///< no membership that the follower knows binds its directory
  friend bool operator==(const AppendReply&, const AppendReply&) = default;
};

/// The leader lives (paper 5.2); also one round of a read-index confirmation (thesis 6.4).
struct Heartbeat {
  Index commit;        ///< min(leader's commit, what the receiver is known to hold)
  uint64_t round = 0;  ///< given back in the reply; only grows within a term; 0 = wants no reply
  friend bool operator==(const Heartbeat&, const Heartbeat&) = default;
};
struct HeartbeatReply {
  uint64_t round = 0;
  Index last;  ///< the follower's durable last index, to notice lost appends
  bool blank = false;
  friend bool operator==(const HeartbeatReply&, const HeartbeatReply&) = default;
};

/// One piece of a snapshot (paper 7).
struct InstallSnapshot {
  SnapshotMeta meta;
  uint64_t offset = 0;
  Bytes data;
  bool last = false;
  friend bool operator==(const InstallSnapshot&, const InstallSnapshot&) = default;
};
/// Answers InstallSnapshot: `next_offset` bytes are durable; or the snapshot is installed (or was not
/// needed).
struct InstallSnapshotReply {
  EntryId snapshot;          ///< which snapshot this is about
  uint64_t next_offset = 0;  ///< where the follower wants to go on
  bool installed = false;    ///< the log now reaches at least snapshot.index
  bool blank = false;
  friend bool operator==(const InstallSnapshotReply&, const InstallSnapshotReply&) = default;
};

/// A follower asks for a linearizable read point; the leader answers with the index (thesis 6.4).
struct ReadIndexRequest {
  uint64_t id = 0;
  friend bool operator==(const ReadIndexRequest&, const ReadIndexRequest&) = default;
};
struct ReadIndexReply {
  uint64_t id = 0;
  bool ok = false;  ///< false: not the leader (any more), or not able yet; ask again
  Index index;
  friend bool operator==(const ReadIndexReply&, const ReadIndexReply&) = default;
};

/// The leader hands over: campaign at once (thesis 3.10).
struct TimeoutNow {
  friend bool operator==(const TimeoutNow&, const TimeoutNow&) = default;
};

struct Message {
  using Body =
      std::variant<VoteRequest, VoteReply, AppendRequest, AppendReply, Heartbeat, HeartbeatReply,
                   InstallSnapshot, InstallSnapshotReply, ReadIndexRequest, ReadIndexReply, TimeoutNow>;
  NodeId from;
  NodeId to;
  Term term;
  DirectoryId from_directory;
  Body body;
  friend bool operator==(const Message&, const Message&) = default;
};

/// True for all that must never queue behind bulk: everything but appends that carry entries and snapshot
/// pieces.
[[nodiscard]] inline bool is_urgent(const Message& message) {
  if (const auto* append = std::get_if<AppendRequest>(&message.body)) return append->entries.empty();
  return !std::holds_alternative<InstallSnapshot>(message.body);
}

/// The body's name as in this file, e.g. "AppendRequest".
[[nodiscard]] const char* message_name(const Message& message);

}  // namespace rallypoint::raft
