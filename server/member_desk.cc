#include "server/member_desk.h"

#include "server/cluster_info.h"

namespace rallypoint::server {
namespace {

/// Whether the core's refusal holds only for now: another change is under way, leadership moves, members are silent.
bool is_for_now(const Status& status) {
  return status.code() == Code::kUnavailable ||
         (status.code() == Code::kFailedPrecondition && !status.message().starts_with("etcdserver: "));
}

}  // namespace

void MemberDesk::on_answer(const Bytes& frame, Instant now) {
  pb::MemberChangeAnswer answer;
  if (answer.ParseFromArray(frame.data(), static_cast<int>(frame.size()))) requests_.answered(answer, now);
}

std::optional<pb::MemberChange> MemberDesk::decode(NodeId from, const Bytes& frame) {
  pb::MemberChange change;
  if (!change.ParseFromArray(frame.data(), static_cast<int>(frame.size())) || change.by().node() != from.value()) return std::nullopt;
  return change;
}

std::optional<raft::Event> MemberDesk::ask(const pb::MemberChange& change, const raft::Core& core, const StateMachine& machine, bool settled) {
  const raft::Membership& current = machine.applied().membership;
  if (has_taken_effect(cluster_info_of(current), change.by())) {
    answer(change.by(), Status::ok(), false);
    return std::nullopt;
  }
  // The rules look at what is decided; while another change is under way nothing can be said.
  if (!settled || core.membership() != current) {
    answer(change.by(), Status::unavailable("another membership change is under way; try again"), true);
    return std::nullopt;
  }
  auto plan = plan_change(change, current, [&](NodeId id) { return machine.attributes().contains(id); });
  if (!plan.is_ok()) {
    answer(change.by(), plan.status(), false);
    return std::nullopt;
  }
  const bool leaves = static_cast<ChangeMember::Kind>(change.kind()) == ChangeMember::Kind::kRemove && change.id() == self_.value();
  if (leaves && handed_over_for_ != change.by().sequence()) {
    // Its successor makes the change: nobody waits for an election then. If there is none it is tried without.
    handed_over_for_ = change.by().sequence();
    answer(change.by(), Status::unavailable("leadership is being handed over"), true);
    return raft::TransferLeadership{NodeId()};
  }
  plan->tag = next_tag_++;
  asked_.emplace(plan->tag, change.by());
  return std::move(*plan);
}

void MemberDesk::decided(const raft::MembershipResult& result) {
  auto it = asked_.find(result.tag);
  if (it == asked_.end()) return;
  const pb::ChangeId by = std::move(it->second);
  asked_.erase(it);
  // The next leader will be asked, and knows.
  if (result.status.code() == Code::kOutcomeUnknown) return;
  answer(by, result.status, is_for_now(result.status));
}

void MemberDesk::answer(const pb::ChangeId& to, const Status& status, bool again) {
  pb::MemberChangeAnswer out;
  *out.mutable_by() = to;
  out.set_code(static_cast<uint32_t>(status.code()));
  out.set_text(status.message());
  out.set_again(again);
  answers_.push_back(std::move(out));
}

std::vector<std::pair<NodeId, Bytes>> MemberDesk::take_answers(Instant now) {
  std::vector<std::pair<NodeId, Bytes>> frames;
  for (pb::MemberChangeAnswer& out : std::exchange(answers_, {})) {
    const NodeId to(out.by().node());
    if (to == self_) requests_.answered(out, now);
    else frames.emplace_back(to, Bytes(out.SerializeAsString()));
  }
  return frames;
}

}  // namespace rallypoint::server
