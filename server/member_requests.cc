#include "server/member_requests.h"

#include "server/cluster_info.h"

namespace rallypoint::server {

void MemberRequests::take(ChangeMember request, Instant now) {
  Waiting waiting;
  waiting.call = request.call;
  waiting.deadline = now + limits_.timeout;
  waiting.unhealthy_at = now + limits_.unhealthy;
  waiting.due = now;
  waiting.change.set_kind(static_cast<uint32_t>(request.kind));
  waiting.change.set_id(request.id);
  for (std::string& url : request.peer_urls) waiting.change.add_peer_urls(std::move(url));
  waiting.change.set_learner(request.learner);
  waiting_.emplace(next_sequence_++, std::move(waiting));
}

std::vector<pb::MemberChange> MemberRequests::take_due(Instant now) {
  std::vector<pb::MemberChange> due;
  if (incarnation_ == 0) return due;
  for (auto& [sequence, waiting] : waiting_) {
    if (now < waiting.due) continue;
    pb::MemberChange& change = waiting.change;
    if (!change.has_by()) {
      change.mutable_by()->set_node(self_.value());
      change.mutable_by()->set_incarnation(incarnation_);
      change.mutable_by()->set_sequence(sequence);
      if (static_cast<ChangeMember::Kind>(change.kind()) == ChangeMember::Kind::kAdd) change.set_id(added_member_id(change).value());
    }
    waiting.due = now + limits_.retry;
    waiting.under_way = true;
    due.push_back(change);
  }
  return due;
}

void MemberRequests::send_again() {
  for (auto& [sequence, waiting] : waiting_) waiting.due = Instant();
}

void MemberRequests::answered(const pb::MemberChangeAnswer& answer, Instant now) {
  if (answer.by().node() != self_.value() || answer.by().incarnation() != incarnation_) return;
  auto it = waiting_.find(answer.by().sequence());
  if (it == waiting_.end()) return;
  Waiting& waiting = it->second;
  const bool removes_self = static_cast<ChangeMember::Kind>(waiting.change.kind()) == ChangeMember::Kind::kRemove &&
                            waiting.change.id() == self_.value();
  if (answer.code() == 0) {
    // The entry itself will come, and this node must have it before it answers; but a removed member gets none.
    if (removes_self) finish(it, Status::ok());
    return;
  }
  Status status(static_cast<Code>(answer.code()), answer.text());
  if (!answer.again()) return finish(it, std::move(status));
  waiting.refusal = std::move(status);
  waiting.under_way = false;
  waiting.due = now + limits_.again;
}

void MemberRequests::applied(const pb::ClusterInfo& info) {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const auto next = std::next(it);
    if (it->second.change.has_by() && has_taken_effect(info, it->second.change.by())) finish(it, Status::ok());
    it = next;
  }
}

void MemberRequests::removed_self() {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const auto next = std::next(it);
    const pb::MemberChange& change = it->second.change;
    if (static_cast<ChangeMember::Kind>(change.kind()) == ChangeMember::Kind::kRemove && change.id() == self_.value())
      finish(it, Status::ok());
    else
      finish(it, Status::outcome_unknown("this member was removed from the cluster; the change may still be made: look at the list of members"));
    it = next;
  }
}

void MemberRequests::tick(Instant now) {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const auto next = std::next(it);
    Waiting& waiting = it->second;
    const bool unhealthy = !waiting.under_way && waiting.refusal.message() == "etcdserver: unhealthy cluster";
    if (waiting.deadline < now || (unhealthy && waiting.unhealthy_at < now)) {
      if (waiting.under_way)
        finish(it, Status::outcome_unknown("the cluster did not answer in time; the change may still be made: look at the list of members"));
      else if (!waiting.refusal.is_ok())
        finish(it, waiting.refusal);
      else
        finish(it, Status::unavailable("etcdserver: no leader"));
    }
    it = next;
  }
}

void MemberRequests::finish(std::map<uint64_t, Waiting>::iterator it, Status status) {
  const Waiting& waiting = it->second;
  Reply reply;
  reply.etcd_index = waiting.change.id();
  if (status.is_ok() && static_cast<ChangeMember::Kind>(waiting.change.kind()) == ChangeMember::Kind::kAdd) {
    Member member;
    member.id = waiting.change.id();
    member.peer_urls = {waiting.change.peer_urls().begin(), waiting.change.peer_urls().end()};
    member.is_learner = waiting.change.learner();
    reply.body = std::move(member);
  } else {
    reply.body = std::move(status);
  }
  replies_.emplace_back(waiting.call, std::move(reply));
  waiting_.erase(it);
}

}  // namespace rallypoint::server
