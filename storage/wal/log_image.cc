#include "storage/wal/log_image.h"

#include <algorithm>
#include <string>

namespace rallypoint::storage {
namespace {

std::string text(Term term, Index index) {
  return "(term " + std::to_string(term.value()) + ", index " + std::to_string(index.value()) + ")";
}

}  // namespace

LogImage::LogImage(raft::HardState hard_state, raft::SnapshotMeta start, raft::EntryId last)
    : hard_state_(hard_state), start_(std::move(start)), last_(last), unseen_(last.index) {}

std::optional<Term> LogImage::term_at(Index index) const {
  if (index == start_.index) return start_.term;
  if (index == last_.index) return last_.term;
  if (index < start_.index || index <= unseen_ || index > last_.index) return std::nullopt;
  const auto above = std::upper_bound(runs_.begin(), runs_.end(), index,
                                      [](Index wanted, const Run& run) { return wanted < run.first; });
  if (above == runs_.begin()) return std::nullopt;
  return std::prev(above)->term;
}

Status LogImage::append(raft::EntryId id) {
  if (id.index <= start_.index || id.index > last_.index + 1) {
    return Status::invalid_argument(
        "entry " + text(id.term, id.index) + " does not fit into a log that starts after " +
        text(start_.term, start_.index) + " and ends with " + text(last_.term, last_.index));
  }
  if (const auto before = term_at(id.index - 1); before && *before > id.term) {
    return Status::invalid_argument("entry " + text(id.term, id.index) + " follows one of the later term " +
                                    std::to_string(before->value()));
  }
  if (id.index <= last_.index) {
    while (!runs_.empty() && runs_.back().first >= id.index) runs_.pop_back();
    if (id.index <= unseen_) unseen_ = id.index - 1;
  }
  if (runs_.empty() || runs_.back().term != id.term) runs_.push_back({id.index, id.term});
  last_ = id;
  return Status::ok();
}

Status LogImage::set_start(raft::SnapshotMeta start, bool keep_entries) {
  if (start.index < start_.index || (start.index == start_.index && start.term != start_.term)) {
    return Status::invalid_argument("the log starts after " + text(start_.term, start_.index) +
                                    " and can't start at " + text(start.term, start.index));
  }
  if (!keep_entries) {
    runs_.clear();
    unseen_ = Index();
    last_ = {start.term, start.index};
    start_ = std::move(start);
    return Status::ok();
  }
  const auto held = term_at(start.index);
  if (held ? *held != start.term : start.index > unseen_) {
    return Status::invalid_argument("can't cut the log at " + text(start.term, start.index) +
                                    ": it does not hold that entry");
  }
  start_ = std::move(start);
  while (runs_.size() > 1 && runs_[1].first <= start_.index + 1) runs_.erase(runs_.begin());
  if (start_.index == last_.index) {
    runs_.clear();
  } else if (!runs_.empty() && runs_[0].first <= start_.index) {
    runs_[0].first = start_.index + 1;
  }
  return Status::ok();
}

}  // namespace rallypoint::storage
