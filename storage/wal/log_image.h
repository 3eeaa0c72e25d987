// LogImage: what the log says once all its records have been taken in order: hard state, start, and the term
// of each entry, but not the payloads. The same code runs while appending and while replaying, so the two
// cannot disagree. Pure. The methods check their input and change nothing when they refuse it.
#pragma once

#include <optional>
#include <vector>

#include "raft/base/status.h"
#include "raft/types.h"

namespace rallypoint::storage {

class LogImage {
 public:
  LogImage() = default;
  /// A log of which everything up to `last` is told only by a segment's first record.
  LogImage(raft::HardState hard_state, raft::SnapshotMeta start, raft::EntryId last);

  [[nodiscard]] const raft::HardState& hard_state() const { return hard_state_; }
  [[nodiscard]] const raft::SnapshotMeta& start() const { return start_; }
  [[nodiscard]] raft::EntryId last() const { return last_; }
  /// Entries at or below are not in the records seen (they were in segments that are gone). At the end of a
  /// replay this must not be above start().index, or entries are missing.
  [[nodiscard]] Index unseen() const { return unseen_; }
  /// The term of the entry, if the log holds it or starts with it, and it was seen.
  [[nodiscard]] std::optional<Term> term_at(Index index) const;

  void set_hard_state(const raft::HardState& state) { hard_state_ = state; }
  /// Appends the entry; one at or below the last index cuts the log there first. Refused: a gap, at or below
  /// the start, a term below that of the entry before.
  Status append(raft::EntryId id);
  /// The log starts after `start`, which must not be before the present start. keep_entries: it must be an
  /// entry held (or unseen); what follows it stays. Otherwise all entries go.
  Status set_start(raft::SnapshotMeta start, bool keep_entries);

 private:
  /// From `first` on, up to the next run or the last index, entries have `term`.
  struct Run {
    Index first;
    Term term;
  };
  raft::HardState hard_state_;
  raft::SnapshotMeta start_;
  raft::EntryId last_;
  Index unseen_;
  std::vector<Run> runs_;  ///< covers (max(start, unseen), last]; first and term ascend
};

}  // namespace rallypoint::storage
