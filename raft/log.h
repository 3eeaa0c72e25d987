// Log: the entries since the last compaction, all in memory, and the three marks on them:
//
//        base      delivered..     commit        durable       written      last
//   ------|------------------------|-------------|-------------|------------|
//   gone  | in memory              | on a quorum | on our disk | handed to  | only here
//                                                                the log loop
//
// commit and durable are independent (a follower may know an entry committed before its own write is done);
// only min(commit, durable) may be applied. Copying an entry copies no payload.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "raft/types.h"

namespace rallypoint::raft {

class Log {
 public:
  /// Everything given is durable. `entries` follow `base` without a gap.
  void restore(EntryId base, std::vector<Entry> entries);

  [[nodiscard]] EntryId base() const { return base_; }
  [[nodiscard]] Index first_index() const { return base_.index + 1; }
  [[nodiscard]] Index last_index() const { return base_.index + entries_.size(); }
  [[nodiscard]] EntryId last_id() const {
    return entries_.empty() ? base_ : EntryId{entries_.back().term, entries_.back().index};
  }
  [[nodiscard]] Index commit() const { return commit_; }
  [[nodiscard]] Index durable() const { return durable_; }
  /// What the state machine may see.
  [[nodiscard]] Index deliverable() const { return commit_ < durable_ ? commit_ : durable_; }

  /// Empty if the index is not here; known for base().index as well.
  [[nodiscard]] std::optional<Term> term_at(Index index) const;
  [[nodiscard]] bool matches(EntryId id) const { return term_at(id.index) == id.term; }
  /// Requires first_index() <= index <= last_index().
  [[nodiscard]] const Entry& at(Index index) const;
  /// Copies [from, to], which must be here.
  [[nodiscard]] std::vector<Entry> copy(Index from, Index to) const;
  /// The last entry at or below `index` whose term is at most `term`: where two logs may still agree.
  [[nodiscard]] EntryId last_not_after(Index index, Term term) const;

  /// Requires entry.index == last_index() + 1 and a term that does not fall.
  void append(Entry entry);
  /// Drops `from` and all after it; requires commit() < from.
  void truncate_from(Index from);
  /// True if it moved. Requires index <= last_index().
  bool commit_to(Index index);
  void durable_to(Index index);
  /// Requires index <= commit().
  void compact_to(Index index);
  /// Forgets everything; an installed snapshot ends at `base`.
  void reset(EntryId base);

  [[nodiscard]] bool has_unwritten() const { return written_ < last_index(); }
  /// The entries that the log loop has not got yet; they count as handed over now.
  [[nodiscard]] std::vector<Entry> take_unwritten();

  /// Grows when entries are cut or replaced as a whole, for observers that follow the log.
  [[nodiscard]] uint64_t rewrites() const { return rewrites_; }

 private:
  EntryId base_;
  std::deque<Entry> entries_;
  Index commit_;
  Index durable_;
  Index written_;
  uint64_t rewrites_ = 0;
};

}  // namespace rallypoint::raft
