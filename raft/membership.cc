#include "raft/membership.h"

#include <algorithm>

#include "raft/raft.pb.h"

namespace rallypoint::raft {
namespace {

using Members = google::protobuf::RepeatedPtrField<pb::Member>;

void encode_members(const std::vector<Member>& members, Members* out) {
  for (const Member& member : members) {
    pb::Member* item = out->Add();
    item->set_id(member.id.value());
    item->set_directory(member.directory.value());
  }
}

std::vector<Member> decode_members(const Members& in) {
  std::vector<Member> members;
  members.reserve(static_cast<size_t>(in.size()));
  for (const pb::Member& item : in) members.push_back({NodeId(item.id()), DirectoryId(item.directory())});
  return members;
}

auto position(const std::vector<Member>& members, NodeId id) {
  return std::lower_bound(members.begin(), members.end(), id,
                          [](const Member& member, NodeId wanted) { return member.id < wanted; });
}

Status validate_list(const char* name, const std::vector<Member>& members) {
  NodeId before;
  for (const Member& member : members) {
    if (member.id <= before)
      return Status::invalid_argument(std::string("membership: ") + name +
                                      " must be sorted by id, without 0 or doubles");
    before = member.id;
  }
  return Status::ok();
}

}  // namespace

Bytes encode_membership(const Membership& membership) {
  pb::Membership out;
  encode_members(membership.voters, out.mutable_voters());
  encode_members(membership.outgoing, out.mutable_outgoing());
  encode_members(membership.learners, out.mutable_learners());
  encode_members(membership.learners_next, out.mutable_learners_next());
  out.set_context(membership.context.data(), membership.context.size());
  for (NodeId id : membership.returning) out.add_returning(id.value());
  return Bytes(out.SerializeAsString());
}

Result<Membership> decode_membership(const Bytes& payload) {
  pb::Membership in;
  if (!in.ParseFromArray(payload.data(), static_cast<int>(payload.size())))
    return Status::data_loss("membership: " + std::to_string(payload.size()) + " bytes do not decode");
  Membership membership;
  membership.voters = decode_members(in.voters());
  membership.outgoing = decode_members(in.outgoing());
  membership.learners = decode_members(in.learners());
  membership.learners_next = decode_members(in.learners_next());
  membership.context = Bytes::copy_of(in.context());
  for (uint64_t id : in.returning()) membership.returning.push_back(NodeId(id));
  RALLY_RETURN_IF_ERROR(validate_membership(membership));
  return membership;
}

Status validate_membership(const Membership& m) {
  RALLY_RETURN_IF_ERROR(validate_list("voters", m.voters));
  RALLY_RETURN_IF_ERROR(validate_list("outgoing", m.outgoing));
  RALLY_RETURN_IF_ERROR(validate_list("learners", m.learners));
  RALLY_RETURN_IF_ERROR(validate_list("learners_next", m.learners_next));
  for (const Member& learner : m.learners)
    if (is_voter(m, learner.id)) return Status::invalid_argument("membership: a learner also votes");
  for (const Member& next : m.learners_next) {
    const Member* leaving = find_in(m.outgoing, next.id);
    if (leaving == nullptr || *leaving != next || find_in(m.voters, next.id) != nullptr)
      return Status::invalid_argument("membership: learners_next must be outgoing voters that do not stay");
  }
  for (const Member& leaving : m.outgoing) {
    const Member* staying = find_in(m.voters, leaving.id);
    if (staying != nullptr && *staying != leaving)
      return Status::invalid_argument("membership: a voter changes its directory within a joint phase");
  }
  if (m.voters.empty() && !m.outgoing.empty())
    return Status::invalid_argument("membership: nobody votes after joint");
  for (NodeId id : m.returning)
    if (find_in(m.learners, id) == nullptr)
      return Status::invalid_argument("membership: returning must be a learner");
  return Status::ok();
}

const Member* find_in(const std::vector<Member>& members, NodeId id) {
  auto it = position(members, id);
  return it != members.end() && it->id == id ? &*it : nullptr;
}

const Member* find_member(const Membership& m, NodeId id) {
  if (const Member* found = find_in(m.voters, id)) return found;
  if (const Member* found = find_in(m.outgoing, id)) return found;
  return find_in(m.learners, id);
}

void put_in(std::vector<Member>& members, Member member) {
  auto it = members.begin() + (position(members, member.id) - members.cbegin());
  if (it != members.end() && it->id == member.id)
    *it = member;
  else
    members.insert(it, member);
}

void drop_from(std::vector<Member>& members, NodeId id) {
  std::erase_if(members, [id](const Member& member) { return member.id == id; });
}

const Membership& MembershipHistory::at(Index index) const {
  RALLY_CHECK(items_.front().index <= index, "index", index, "start", items_.front().index);
  auto it = std::upper_bound(items_.begin(), items_.end(), index,
                             [](Index wanted, const Item& item) { return wanted < item.index; });
  return std::prev(it)->membership;
}

void MembershipHistory::append(Index index, Membership membership) {
  RALLY_CHECK(current_index() < index, "index", index, "current", current_index());
  items_.push_back({index, std::move(membership)});
}

bool MembershipHistory::truncate_from(Index from) {
  const size_t before = items_.size();
  while (items_.size() > 1 && from <= items_.back().index) items_.pop_back();
  return items_.size() != before;
}

void MembershipHistory::compact_to(Index index) {
  size_t keep = 0;
  while (keep + 1 < items_.size() && items_[keep + 1].index <= index) ++keep;
  items_.erase(items_.begin(), items_.begin() + static_cast<ptrdiff_t>(keep));
}

void MembershipHistory::reset(Index base, Membership at_base) {
  items_.clear();
  items_.push_back({base, std::move(at_base)});
}

}  // namespace rallypoint::raft
