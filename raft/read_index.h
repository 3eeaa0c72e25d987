// Read index (thesis 6.4): linearizable reads without a log entry.
//
//   client     leader                      followers
//     | read     |                             |
//     |--------->| index = commit              |
//     |          | round r begins ------------>|   only after the read came; a round that was already under
//     way |          |<------------ answer to r ---|   proves nothing about this read
//     |<---------| a majority answered r: still the leader when the read came, so `index` covers every write
//
// The leader holds reads back until it has committed an entry of its own term, because before that its commit
// index may be behind (thesis 6.4 step 1). All reads between two hand-overs share one round.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "raft/base/random.h"
#include "raft/types.h"

namespace rallypoint::raft {

/// A read on its way through the leader.
struct LeaderRead {
  NodeId from;         ///< who asked: this node or a follower
  uint64_t id = 0;     ///< the asker's name for it
  Index index;         ///< set when the read is admitted
  uint64_t round = 0;  ///< the first round that can confirm it
};

/// The leader's reads. Owned by a leader's state, gone with it (take_all() gives them back to be refused).
class ReadIndexQueue {
 public:
  static constexpr size_t kReadsMax = 16384;  ///< askers gather reads themselves, so more is a runaway

  [[nodiscard]] bool full() const { return early_.size() + waiting_.size() >= kReadsMax; }
  /// No entry of the own term is committed yet: the read waits for admit_early().
  void add_early(NodeId from, uint64_t id) { early_.push_back({from, id}); }
  void add(NodeId from, uint64_t id, Index commit);
  /// The first entry of the own term is committed.
  void admit_early(Index commit);

  /// The round that heartbeats carry; starts the next one if a read waits for it.
  [[nodiscard]] uint64_t round() const { return round_; }
  [[nodiscard]] bool wants_round() const { return !waiting_.empty() && waiting_.back().round > round_; }
  void begin_round() { ++round_; }

  /// Removes the reads that `confirmed` (a round that a quorum answered) proves, in order.
  std::vector<LeaderRead> take_confirmed(uint64_t confirmed);
  std::vector<LeaderRead> take_all();

 private:
  std::vector<LeaderRead> early_;
  std::deque<LeaderRead> waiting_;  ///< rounds ascend
  uint64_t round_ = 1;
};

/// A follower's reads, forwarded to the leader. The ids on the wire begin at a random number and never
/// repeat: an answer that was meant for an earlier life of this process cannot answer a read of this one.
class ForwardedReads {
 public:
  explicit ForwardedReads(uint64_t first_wire_id) : next_wire_id_(first_wire_id) {}

  /// Returns the id to send.
  uint64_t add(uint64_t id);
  /// The own id of that read if it still waits; it is removed.
  std::optional<uint64_t> take(uint64_t wire_id);
  std::vector<uint64_t> take_all();
  /// Ages all by a tick and removes those that waited `ticks_max`.
  std::vector<uint64_t> tick(Ticks ticks_max);

 private:
  struct Waiting {
    uint64_t id = 0;
    Ticks age = 0;
  };
  std::map<uint64_t, Waiting> waiting_;  ///< by wire id
  uint64_t next_wire_id_;
};

}  // namespace rallypoint::raft
