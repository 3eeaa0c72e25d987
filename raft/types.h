// The vocabulary of the Raft core: entries, hard state, membership, and the writes that it hands to the log.
// Plain values; equality is by content.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "raft/base/bytes.h"
#include "raft/base/units.h"

namespace rallypoint::raft {

/// What an entry's payload is. The core reads only kMembership; the rest is the state machine's.
enum class EntryKind : uint8_t {
  kNoop = 0,        ///< a leader's first entry of its term (thesis 6.4)
  kCommand = 1,     ///< opaque bytes for the state machine
  kMembership = 2,  ///< an encoded Membership, in force from the moment it is in the log (thesis 4.1)
};

struct Entry {
  Term term;
  Index index;
  EntryKind kind = EntryKind::kNoop;
  Bytes payload;
  friend bool operator==(const Entry&, const Entry&) = default;
};

/// Names an entry for ever: two logs that hold the same id hold the same entry and the same past (Log
/// Matching).
struct EntryId {
  Term term;
  Index index;
  auto operator<=>(const EntryId&) const = default;
};

/// What a node must remember over a restart before it answers (paper, figure 2).
struct HardState {
  Term term;
  NodeId vote;   ///< whom this directory voted for in `term`; 0 = nobody
  Index commit;  ///< a hint: never above what is known committed; may lag
  friend bool operator==(const HardState&, const HardState&) = default;
};

/// One member, bound to the directory that its votes and acks must come from. Directory 0 = not bound yet,
/// which only happens before the very first election.
struct Member {
  NodeId id;
  DirectoryId directory;
  auto operator<=>(const Member&) const = default;
};

/// Who decides. Sorted by id, no id twice within a list. `outgoing` is non-empty only in joint consensus
/// (thesis 4.3): then a decision needs a majority of `voters` and a majority of `outgoing`.
struct Membership {
  std::vector<Member> voters;
  std::vector<Member> outgoing;
  std::vector<Member> learners;
  /// Members of `outgoing` that become learners when the joint phase is left.
  std::vector<Member> learners_next;
  /// Opaque to Raft: names, URLs and spent ids of the members, kept by the server's cluster_info.
  Bytes context;
  /// Learners that are to vote: voters that lost their disk, and members added as voters. The leader promotes
  /// them by itself once they caught up.
  std::vector<NodeId> returning;
  friend bool operator==(const Membership&, const Membership&) = default;
};

/// The point up to which the log is gone: the last entry dropped, and the membership in force there.
struct SnapshotMeta {
  Term term;
  Index index;
  Membership membership;
  friend bool operator==(const SnapshotMeta&, const SnapshotMeta&) = default;
};

/// Serial number of a hand-over to the log loop; never repeats in a process. 0 = none.
using WriteNumber = StrongNumber<struct WriteNumberTag>;

/// A piece of a snapshot on its way to this node's disk.
struct SnapshotChunk {
  SnapshotMeta meta;
  uint64_t offset = 0;  ///< bytes before this piece
  Bytes data;
  bool last = false;  ///< after it the snapshot is complete, to be verified and installed
};

/// One hand-over to the log loop. The parts take effect in the order of the fields, all or a prefix of them;
/// the write is durable when everything in it is. Writes become durable in the order of their numbers.
struct Write {
  WriteNumber number;
  std::optional<HardState> hard_state;
  /// Contiguous. If the first is at or below the log's last index, the log is cut there first.
  std::vector<Entry> entries;
  /// Entries up to and including this point may be forgotten (the state machine has them durably).
  std::optional<SnapshotMeta> compact_to;
  /// Stage a chunk. When `chunk->last`: verify the whole snapshot, replace the state machine by it, and only
  /// then make the log start right after it (all entries are dropped if the log does not hold chunk->meta's
  /// entry).
  std::optional<SnapshotChunk> chunk;
};

}  // namespace rallypoint::raft
