// LogModel: what a log says after some writes, in the plainest form. Each directory has two: `issued`, all
// that the core handed over, and `durable`, what a crash would leave. Written against raft/types.h alone, so
// that it can judge the core and the real log.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "raft/types.h"

namespace rallypoint::sim {

/// For people: "voters [1/abc 2/def] learners [3/unbound]", directories shortened.
std::string membership_text(const raft::Membership& membership);

/// Decodes the payload of a kMembership entry; a Violation if it is not one.
raft::Membership parse_membership(const Bytes& payload);

class LogModel {
 public:
  LogModel() = default;
  LogModel(raft::HardState hard_state, raft::SnapshotMeta start, const std::vector<raft::Entry>& entries);

  raft::HardState hard_state;

  [[nodiscard]] const raft::SnapshotMeta& start() const { return start_; }
  [[nodiscard]] const std::deque<raft::Entry>& entries() const { return entries_; }
  [[nodiscard]] Index last_index() const { return start_.index + entries_.size(); }
  [[nodiscard]] Term last_term() const { return entries_.empty() ? start_.term : entries_.back().term; }
  /// The term of the entry at `index`; none if it lies outside (start.index itself is known).
  [[nodiscard]] std::optional<Term> term_at(Index index) const;
  /// The entry at `index`, which must lie inside.
  [[nodiscard]] const raft::Entry& at(Index index) const { return entries_[index - start_.index - 1]; }
  /// True if `id` is in this log or covered by its snapshot.
  [[nodiscard]] bool holds(raft::EntryId id) const;
  /// The membership in force at the end of the log, and the index of its entry (start.index: from the
  /// snapshot).
  [[nodiscard]] const raft::Membership& membership() const {
    return memberships_.empty() ? start_.membership : memberships_.back().second;
  }
  [[nodiscard]] Index membership_index() const {
    return memberships_.empty() ? start_.index : memberships_.back().first;
  }
  /// Those of entries, oldest first.
  [[nodiscard]] const std::vector<std::pair<Index, raft::Membership>>& memberships() const {
    return memberships_;
  }

  /// Equal in all that counts; the membership before the first entry is the operator's word and not in the
  /// log.
  [[nodiscard]] bool says_the_same_as(const LogModel& other) const;

  /// Appends; an entry at or below the last index cuts the log there first. A Violation if it leaves a gap.
  void append(const raft::Entry& entry);
  /// Drops entries up to `meta`, which must lie inside.
  void compact(const raft::SnapshotMeta& meta);
  /// The log starts after `meta`; entries stay only if the log holds meta's entry.
  void restart_at(const raft::SnapshotMeta& meta);

 private:
  void drop_front(Index upto);

  raft::SnapshotMeta start_;
  std::deque<raft::Entry> entries_;
  std::vector<std::pair<Index, raft::Membership>> memberships_;
};

}  // namespace rallypoint::sim
