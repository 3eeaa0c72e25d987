#include "tests/sim/log_model.h"

#include "raft/raft.pb.h"
#include "tests/sim/violation.h"

namespace rallypoint::sim {
namespace {

std::vector<raft::Member> members_of(const google::protobuf::RepeatedPtrField<raft::pb::Member>& list) {
  std::vector<raft::Member> members;
  for (const auto& member : list) members.push_back({NodeId(member.id()), DirectoryId(member.directory())});
  return members;
}

std::string list_text(const std::vector<raft::Member>& list) {
  std::string text;
  for (const raft::Member& member : list) {
    text += (text.empty() ? "" : " ") + std::to_string(member.id.value());
    text +=
        member.directory.is_zero() ? "/unbound" : "/" + std::to_string(member.directory.value() & 0xffffff);
  }
  return "[" + text + "]";
}

}  // namespace

std::string membership_text(const raft::Membership& membership) {
  std::string text = "voters " + list_text(membership.voters);
  if (!membership.outgoing.empty()) text += " outgoing " + list_text(membership.outgoing);
  if (!membership.learners.empty()) text += " learners " + list_text(membership.learners);
  if (!membership.learners_next.empty()) text += " next learners " + list_text(membership.learners_next);
  for (const NodeId id : membership.returning) text += " returning " + std::to_string(id.value());
  return text;
}

raft::Membership parse_membership(const Bytes& payload) {
  raft::pb::Membership parsed;
  SIM_REQUIRE(parsed.ParseFromArray(payload.data(), static_cast<int>(payload.size())), property::kConfig,
              "membership bytes", payload.size());
  raft::Membership membership;
  membership.voters = members_of(parsed.voters());
  membership.outgoing = members_of(parsed.outgoing());
  membership.learners = members_of(parsed.learners());
  membership.learners_next = members_of(parsed.learners_next());
  for (const uint64_t id : parsed.returning()) membership.returning.push_back(NodeId(id));
  membership.context = Bytes::copy_of(parsed.context());
  return membership;
}

LogModel::LogModel(raft::HardState hard_state, raft::SnapshotMeta start,
                   const std::vector<raft::Entry>& entries)
    : hard_state(hard_state), start_(std::move(start)) {
  for (const raft::Entry& entry : entries) append(entry);
}

std::optional<Term> LogModel::term_at(Index index) const {
  if (index == start_.index) return start_.term;
  if (index < start_.index || index > last_index()) return std::nullopt;
  return at(index).term;
}

bool LogModel::holds(raft::EntryId id) const {
  if (id.index < start_.index) return true;  // the snapshot is judged when it is made and installed
  const auto term = term_at(id.index);
  return term.has_value() && *term == id.term;
}

bool LogModel::says_the_same_as(const LogModel& other) const {
  return hard_state == other.hard_state && last_index() == other.last_index() &&
         start_.index == other.start_.index && (start_.index.is_zero() || start_ == other.start_) &&
         entries_ == other.entries_;
}

void LogModel::append(const raft::Entry& entry) {
  SIM_REQUIRE(entry.index > start_.index && entry.index <= last_index() + 1, property::kDiskContract, "index",
              entry.index, "start", start_.index, "last", last_index());
  if (entry.index <= last_index()) {
    entries_.resize(entry.index - start_.index - 1);
    while (!memberships_.empty() && memberships_.back().first >= entry.index) memberships_.pop_back();
  }
  SIM_REQUIRE(entry.term >= last_term(), property::kDiskContract, "term", entry.term, "before it",
              last_term());
  entries_.push_back(entry);
  if (entry.kind == raft::EntryKind::kMembership) {
    memberships_.emplace_back(entry.index, parse_membership(entry.payload));
  }
}

void LogModel::drop_front(Index upto) {
  while (!entries_.empty() && entries_.front().index <= upto) entries_.pop_front();
  size_t gone = 0;
  while (gone < memberships_.size() && memberships_[gone].first <= upto) ++gone;
  memberships_.erase(memberships_.begin(), memberships_.begin() + static_cast<ptrdiff_t>(gone));
}

void LogModel::compact(const raft::SnapshotMeta& meta) {
  SIM_REQUIRE(meta.index >= start_.index && meta.index <= last_index(), property::kDiskContract, "compact to",
              meta.index, "start", start_.index, "last", last_index());
  SIM_REQUIRE(term_at(meta.index) == meta.term, property::kDiskContract, "compact to", meta.index, "term",
              meta.term);
  drop_front(meta.index);
  start_ = meta;
}

void LogModel::restart_at(const raft::SnapshotMeta& meta) {
  if (meta.index <= start_.index) return;
  if (term_at(meta.index) == meta.term) {
    drop_front(meta.index);
  } else {
    entries_.clear();
    memberships_.clear();
  }
  start_ = meta;
}

}  // namespace rallypoint::sim
