// CoreState: everything a node's Raft knows, as plain parts, and the few operations that all handlers share.
// The handlers (election, replication, following, snapshotting, membership_change, transfer) are functions
// over it, one file per kind of event; core.cc sends each event to its handler and applies the term rules.
//
// Owned by Core. Readable by tests and by invariants.h; written by the handlers only.
#pragma once

#include <optional>
#include <vector>

#include "raft/base/random.h"
#include "raft/core.h"
#include "raft/log.h"
#include "raft/membership.h"
#include "raft/output.h"
#include "raft/planted_bug.h"
#include "raft/progress.h"
#include "raft/read_index.h"

namespace rallypoint::raft {

/// The ballot that a (pre-)candidate holds and the clock that every follower watches.
struct ElectionState {
  struct Ballot {
    NodeId voter;
    DirectoryId directory;
    bool granted = false;
    bool blank = false;
  };
  Ticks elapsed = 0;      ///< since the leader was heard or a vote was given
  Ticks timeout = 0;      ///< when to campaign; drawn anew each time
  Ticks first_tries = 0;  ///< at the first election, by the node that goes first
  /// After the leader's process was seen to end: so many more tries come in quick succession, since the first may
  /// meet a voter that has not seen it yet, or one whose log is newer. 0 once there is a leader.
  Ticks hasty_tries = 0;
  trace::ElectionReason reason = trace::ElectionReason::kTimeout;
  bool blank = false;      ///< this is the first election of a blank cluster
  bool transfer = false;   ///< the leader asked for it
  WriteNumber vote_after;  ///< candidate: the own vote counts and goes out once this is durable; 0 = done
  std::vector<Ballot> ballots;
};

/// What only a leader has; made anew with each leadership.
struct Leadership {
  struct Change {
    std::optional<uint64_t> tag;  ///< who asked; empty = this core's own idea
    Index index;                  ///< the entry that decides
  };
  struct Transfer {
    NodeId to;
    Ticks elapsed = 0;
    bool told = false;  ///< TimeoutNow is out
  };
  struct Stranger {  ///< a member that answered from a disk that is not its own
    NodeId id;
    DirectoryId directory;
    Ticks age = 0;  ///< since it was last heard
  };
  std::vector<Progress> followers;  ///< all members but this one, by id
  Index first_of_term;              ///< this leader's first entry
  size_t uncommitted_bytes = 0;     ///< payloads after commit
  Ticks heartbeat_elapsed = 0;
  Ticks quorum_elapsed = 0;
  ReadIndexQueue reads;
  std::optional<Change> change;
  std::optional<Transfer> transfer;
  std::vector<Stranger> strangers;
};

/// Snapshots on their way in and out.
struct SnapshotState {
  struct Incoming {
    EntryId id;
    NodeId from;
    Term term;
    uint64_t next_offset = 0;  ///< handed to the log loop up to here
  };
  std::optional<Incoming> incoming;
  bool installing = false;             ///< the last piece is with the log loop; the log will begin anew
  std::optional<SnapshotChunk> chunk;  ///< for the next write
  bool compact_dirty = false;          ///< the next write tells the log's new start
  Index compact_wanted;                ///< asked for, held back by a transfer
  struct Ready {
    SnapshotMeta meta;
    uint64_t size = 0;
  };
  std::optional<Ready> ready;  ///< the newest one that the driver made
  bool wanted = false;         ///< the driver was asked and has not answered
};

class CoreState {
 public:
  CoreState(Config config, uint64_t seed, Observer* observer);

  const Config config;
  Observer* const observer;
  Random random;
  uint64_t now = 0;  ///< ticks since construction

  // Durable (once written).
  Term term;
  NodeId vote;
  Log log;
  MembershipHistory memberships;

  // Volatile.
  Role role = Role::kFollower;
  NodeId leader;
  Index applied;    ///< the state machine's own word
  Index delivered;  ///< handed out for applying
  Index matched;    ///< the log equals that of this term's leader up to here, as far as known
  bool hard_state_dirty = false;
  ElectionState election;
  std::optional<Leadership> leading;  ///< exactly while role is kLeader
  SnapshotState snapshots;
  ForwardedReads forwarded;
  WriteTracker writes;
  Output output;
  SoftState soft_told;  ///< the last soft state that went out

  [[nodiscard]] const Membership& membership() const;
  /// No entry was ever in this log: the directory may take part in a first election.
  [[nodiscard]] bool is_blank() const { return log.last_index().is_zero(); }
  /// A vote or ack of `id` that comes from `directory` counts.
  [[nodiscard]] static bool counts(const Member& member, DirectoryId directory) {
    return (member.directory == directory && !directory.is_zero()) || RALLY_PLANTED_BUG(kIgnoreDirectory);
  }
  /// This directory is bound to this member, in any role.
  [[nodiscard]] bool is_bound() const;
  /// This directory votes.
  [[nodiscard]] bool is_bound_voter() const;
  [[nodiscard]] bool disk_stalled() const {
    return config.disk_stall_ticks != 0 && writes.oldest_age(now) >= config.disk_stall_ticks;
  }
  [[nodiscard]] Progress* find_follower(NodeId id);

  template <class Event>
  void trace(Event event) const {
    if (observer != nullptr) observer->on_event(std::move(event));
  }

  /// Sends in the current term; `term_override` for pre-votes.
  void send(NodeId to, Message::Body body) { send_in(term, to, std::move(body)); }
  void send_in(Term message_term, NodeId to, Message::Body body);
  /// Sends once everything that is true in memory now is durable.
  void send_when_durable(NodeId to, Message::Body body);
  /// The write that covers everything decided so far.
  [[nodiscard]] WriteNumber barrier() const;

  /// Enters `new_term` (if newer) as a follower of `new_leader` (0 = unknown), leaving whatever role there
  /// was.
  void become_follower(Term new_term, NodeId new_leader);
  void set_leader(NodeId new_leader);
  void set_vote(Term new_term, NodeId new_vote);

  /// Puts an entry at the log's end; a membership entry is in force from now on.
  void append(Entry entry, std::optional<Membership> membership);
  /// Cuts the log at `from`, and whatever was in force through what is cut.
  void truncate_from(Index from);

 private:
  void leave_leadership();
};

}  // namespace rallypoint::raft
