#include "server/cluster_info.h"

#include <openssl/sha.h>

#include <algorithm>
#include <cstring>

namespace rallypoint::server {
namespace {

using Kind = ChangeMember::Kind;
/// As many requests as can be under way at once, by far: each waits for the one before.
constexpr int kRecentMax = 32;
/// etcd's default of --max-learners.
constexpr size_t kLearnersMax = 1;

Status not_found() { return Status::not_found("etcdserver: member not found"); }
Status not_enough_started() {
  return Status::failed_precondition("etcdserver: re-configuration failed due to not enough started members");
}

bool same(const pb::ChangeId& a, const pb::ChangeId& b) {
  return a.node() == b.node() && a.incarnation() == b.incarnation() && a.sequence() == b.sequence();
}

pb::ClusterInfo::Member* find(pb::ClusterInfo& info, uint64_t id) {
  for (auto& member : *info.mutable_members())
    if (member.id() == id) return &member;
  return nullptr;
}

/// Peer URLs belong to one member; `but` may keep its own.
bool urls_taken(const pb::ClusterInfo& info, const pb::MemberChange& change, uint64_t but) {
  for (const auto& member : info.members())
    for (const std::string& url : member.peer_urls())
      if (member.id() != but && std::find(change.peer_urls().begin(), change.peer_urls().end(), url) != change.peer_urls().end()) return true;
  return false;
}

/// Those that vote or will without anybody's doing.
std::vector<NodeId> voting(const raft::Membership& membership) {
  std::vector<NodeId> ids;
  for (const raft::Member& voter : membership.voters) ids.push_back(voter.id);
  ids.insert(ids.end(), membership.returning.begin(), membership.returning.end());
  return ids;
}

Status may_add_voter(const raft::Membership& current, const std::function<bool(NodeId)>& is_started) {
  const std::vector<NodeId> members = voting(current);
  const size_t started = static_cast<size_t>(std::count_if(members.begin(), members.end(), is_started));
  const size_t after = members.size() + 1;
  // etcd: a cluster of one may always grow.
  if (started == 1 && after == 2) return Status::ok();
  return started < after / 2 + 1 ? not_enough_started() : Status::ok();
}

Status may_remove_voter(NodeId id, const raft::Membership& current, const std::function<bool(NodeId)>& is_started) {
  std::vector<NodeId> members = voting(current);
  std::erase(members, id);
  const size_t started = static_cast<size_t>(std::count_if(members.begin(), members.end(), is_started));
  return members.empty() || started < members.size() / 2 + 1 ? not_enough_started() : Status::ok();
}

}  // namespace

uint64_t hash_of(const std::string& text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  uint64_t value;
  std::memcpy(&value, digest, sizeof value);
  return value == 0 ? 1 : value;
}

pb::ClusterInfo cluster_info_of(const raft::Membership& membership) {
  pb::ClusterInfo info;
  if (!info.ParseFromArray(membership.context.data(), static_cast<int>(membership.context.size()))) info.Clear();
  return info;
}

Bytes encode(const pb::ClusterInfo& info) { return Bytes(info.SerializeAsString()); }

bool was_removed(const pb::ClusterInfo& info, NodeId id) {
  return std::find(info.removed().begin(), info.removed().end(), id.value()) != info.removed().end();
}

bool has_taken_effect(const pb::ClusterInfo& info, const pb::ChangeId& by) {
  return std::any_of(info.recent().begin(), info.recent().end(), [&](const pb::ChangeId& known) { return same(known, by); });
}

NodeId added_member_id(const pb::MemberChange& change) {
  std::string text = "added";
  for (const std::string& url : change.peer_urls()) text += " " + url;
  for (uint64_t part : {change.by().node(), change.by().incarnation(), change.by().sequence()}) text += " " + std::to_string(part);
  return NodeId(hash_of(text));
}

bool will_vote(const raft::Membership& membership, NodeId id) {
  return std::find(membership.returning.begin(), membership.returning.end(), id) != membership.returning.end();
}

bool is_learner_by_choice(const raft::Membership& membership, NodeId id) {
  return raft::find_in(membership.learners, id) != nullptr && !will_vote(membership, id);
}

Result<raft::ChangeMembership> plan_change(const pb::MemberChange& change, const raft::Membership& current,
                                           const std::function<bool(NodeId)>& is_started) {
  pb::ClusterInfo info = cluster_info_of(current);
  const NodeId id(change.id());
  raft::ChangeMembership plan;
  plan.set_context = true;
  const auto kind = static_cast<Kind>(change.kind());
  if (kind == Kind::kAdd) {
    if (change.peer_urls().empty()) return Status::invalid_argument("etcdserver: given member URLs are invalid");
    if (urls_taken(info, change, 0)) return Status::failed_precondition("etcdserver: Peer URLs already exists");
    if (id.is_zero() || raft::find_member(current, id) != nullptr || was_removed(info, id))
      return Status::failed_precondition("etcdserver: member ID already exist");
    if (change.learner()) {
      if (current.learners.size() - current.returning.size() >= kLearnersMax)
        return Status::failed_precondition("etcdserver: too many learner members in cluster");
    } else {
      RALLY_RETURN_IF_ERROR(may_add_voter(current, is_started));
    }
    plan.changes.push_back({change.learner() ? raft::ChangeMembership::Kind::kAddLearner : raft::ChangeMembership::Kind::kAddVoter, id, {}});
    auto* member = info.add_members();
    member->set_id(change.id());
    *member->mutable_peer_urls() = change.peer_urls();
  } else {
    const raft::Member* known = raft::find_member(current, id);
    if (known == nullptr) return not_found();
    switch (kind) {
      case Kind::kUpdate: {
        if (change.peer_urls().empty()) return Status::invalid_argument("etcdserver: given member URLs are invalid");
        if (urls_taken(info, change, change.id())) return Status::failed_precondition("etcdserver: Peer URLs already exists");
        if (auto* member = find(info, change.id())) *member->mutable_peer_urls() = change.peer_urls();
        plan.changes.push_back({raft::ChangeMembership::Kind::kSetContext, id, {}});
        break;
      }
      case Kind::kRemove: {
        if (!is_learner_by_choice(current, id)) RALLY_RETURN_IF_ERROR(may_remove_voter(id, current, is_started));
        auto* members = info.mutable_members();
        members->erase(std::remove_if(members->begin(), members->end(), [&](const auto& member) { return member.id() == change.id(); }),
                       members->end());
        info.add_removed(change.id());
        plan.changes.push_back({raft::ChangeMembership::Kind::kRemove, id, {}});
        break;
      }
      case Kind::kPromote:
        if (raft::find_in(current.learners, id) == nullptr)
          return Status::failed_precondition("etcdserver: can only promote a learner member");
        plan.changes.push_back({raft::ChangeMembership::Kind::kPromote, id, {}});
        break;
      default: return Status::invalid_argument("unknown kind of member change " + std::to_string(change.kind()));
    }
  }
  while (info.recent_size() >= kRecentMax) info.mutable_recent()->erase(info.recent().begin());
  *info.add_recent() = change.by();
  plan.context = encode(info);
  return plan;
}

}  // namespace rallypoint::server
