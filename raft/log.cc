#include "raft/log.h"

#include <algorithm>

#include "raft/planted_bug.h"

namespace rallypoint::raft {

void Log::restore(EntryId base, std::vector<Entry> entries) {
  *this = Log();
  base_ = base;
  for (Entry& entry : entries) append(std::move(entry));
  commit_ = base.index;
  durable_ = written_ = last_index();
}

std::optional<Term> Log::term_at(Index index) const {
  if (index == base_.index) return base_.term;
  if (index < base_.index || last_index() < index) return std::nullopt;
  return entries_[index - first_index()].term;
}

const Entry& Log::at(Index index) const {
  RALLY_CHECK(first_index() <= index && index <= last_index(), "index", index, "first", first_index(), "last",
              last_index());
  return entries_[index - first_index()];
}

std::vector<Entry> Log::copy(Index from, Index to) const {
  if (to < from) return {};
  RALLY_CHECK(first_index() <= from && to <= last_index(), "from", from, "to", to, "first", first_index(),
              "last", last_index());
  const auto begin = entries_.begin() + static_cast<ptrdiff_t>(from - first_index());
  return {begin, begin + static_cast<ptrdiff_t>(to - from + 1)};
}

EntryId Log::last_not_after(Index index, Term term) const {
  // Terms never fall along the log, so the place is found by halving.
  Index low = base_.index, high = std::clamp(index, base_.index, last_index());
  while (low < high) {
    const Index middle = high - (high - low) / 2;
    if (*term_at(middle) <= term)
      low = middle;
    else
      high = middle - 1;
  }
  return {*term_at(low), low};
}

void Log::append(Entry entry) {
  RALLY_CHECK(entry.index == last_index() + 1, "index", entry.index, "last", last_index());
  RALLY_CHECK(last_id().term <= entry.term, "index", entry.index, "term", entry.term, "before",
              last_id().term);
  entries_.push_back(std::move(entry));
}

void Log::truncate_from(Index from) {
  RALLY_CHECK(commit_ < from || RALLY_PLANTED_BUG(kTruncateCommitted), "from", from, "commit", commit_);
  RALLY_CHECK(base_.index < from, "from", from, "base", base_.index);
  if (last_index() < from) return;
  entries_.resize(from - first_index());
  commit_ = std::min(commit_, from - 1);
  durable_ = std::min(durable_, from - 1);
  written_ = std::min(written_, from - 1);
  ++rewrites_;
}

bool Log::commit_to(Index index) {
  RALLY_CHECK(index <= last_index(), "index", index, "last", last_index());
  if (index <= commit_) return false;
  commit_ = index;
  return true;
}

void Log::durable_to(Index index) {
  durable_ = std::max(durable_, std::min(index, last_index()));
}

void Log::compact_to(Index index) {
  RALLY_CHECK(index <= commit_, "index", index, "commit", commit_);
  if (index <= base_.index) return;
  const EntryId base{*term_at(index), index};
  entries_.erase(entries_.begin(), entries_.begin() + static_cast<ptrdiff_t>(index - base_.index));
  base_ = base;
}

void Log::reset(EntryId base) {
  entries_.clear();
  base_ = base;
  commit_ = durable_ = written_ = base.index;
  ++rewrites_;
}

std::vector<Entry> Log::take_unwritten() {
  std::vector<Entry> entries = copy(written_ + 1, last_index());
  written_ = last_index();
  return entries;
}

}  // namespace rallypoint::raft
