#include "server/lease_desk.h"

#include <algorithm>

#include "server/state/command.pb.h"

namespace rallypoint::server {
namespace {
constexpr size_t kPerProposal = 1000;  // leases in one command: etcd's pace of expiry, and a bound on the entry
constexpr Duration kHandOutAgain = Duration::seconds(10);
constexpr Duration kForGood = Duration::seconds(1'000'000'000);  // the leader's own proposals end when they are applied
}  // namespace

void LeaseDesk::ask(Call call, int64_t lease, What what, Instant deadline) {
  earliest_ = std::min(earliest_, deadline);
  asked_.emplace(next_id_, Asked{call, lease, what, deadline, {}, false});
  new_.push_back(next_id_++);
}

void LeaseDesk::cancel(Call call) {
  std::erase_if(asked_, [&](const auto& entry) { return entry.second.call.sink == call.sink && entry.second.call.token == call.token; });
}

Bytes LeaseDesk::take_forward(Instant now, Duration retry_after) {
  new_.clear();
  pb::LeaseQuestions message;
  for (auto& [id, asked] : asked_) {
    if (asked.sent.us != 0 && now < asked.sent + retry_after) continue;
    asked.sent = now;
    asked.pending = false;
    auto* question = message.add_questions();
    question->set_id(id);
    question->set_lease(asked.lease);
    question->set_renew(asked.what == What::kRenew);
  }
  return message.questions_size() == 0 ? Bytes() : Bytes(message.SerializeAsString());
}

std::vector<LeaseDesk::Pending> LeaseDesk::take_pending() {
  std::vector<Pending> pending = std::exchange(from_others_, {});
  for (uint64_t id : new_) {
    auto it = asked_.find(id);
    if (it == asked_.end() || it->second.pending) continue;
    it->second.pending = true;
    pending.push_back({NodeId(), id, it->second.lease, it->second.what == What::kRenew});
  }
  new_.clear();
  return pending;
}

void LeaseDesk::leader_changed() {
  new_.clear();
  for (auto& [id, asked] : asked_) {
    asked.sent = Instant();
    asked.pending = false;
    new_.push_back(id);
  }
  from_others_.clear();
  held_.clear();
  answers_.clear();
}

void LeaseDesk::on_questions(NodeId from, const Bytes& message) {
  pb::LeaseQuestions questions;
  if (!questions.ParseFromArray(message.data(), static_cast<int>(message.size()))) return;
  for (const auto& question : questions.questions()) from_others_.push_back({from, question.id(), question.lease(), question.renew()});
}

void LeaseDesk::on_answers(const Bytes& message, const StateMachine& machine, const RaftPosition& at) {
  pb::LeaseAnswers answers;
  if (!answers.ParseFromArray(message.data(), static_cast<int>(message.size()))) return;
  for (const auto& answer : answers.answers()) finish(answer.id(), answer.ttl_s(), machine, at);
}

void LeaseDesk::confirmed(const Pending& pending, StateMachine& machine, Instant now, const RaftPosition& at) {
  lease::Lessor& lessor = machine.v3().lessor();
  if (!lessor.is_promoted()) {  // not the leader any more: whoever asked asks the next one
    if (auto it = asked_.find(pending.id); pending.from.is_zero() && it != asked_.end()) it->second.pending = false, it->second.sent = Instant(), new_.push_back(pending.id);
    return;
  }
  if (!pending.renew) return answer(pending, lessor.time_left_s(pending.lease, now).value_or(-1), machine, at);
  const auto renewed = lessor.renew(pending.lease, now);
  if (!renewed) return answer(pending, 0, machine, at);
  if (!renewed->had_checkpoint) return answer(pending, renewed->ttl_s, machine, at);
  if (!held_.contains(pending.lease)) {
    pb::Command command;
    command.mutable_lease_checkpoints()->set_term(at.term.value());
    command.mutable_lease_checkpoints()->add_ids(pending.lease);
    command.mutable_lease_checkpoints()->add_grants(renewed->grant);
    command.mutable_lease_checkpoints()->add_remaining_s(0);
    proposals_.add({}, Proposals::Kind::kInternal, command.SerializeAsString(), now + kForGood);
  }
  held_.emplace(pending.lease, Held{pending, renewed->ttl_s});
}

void LeaseDesk::applied(StateMachine& machine, const RaftPosition& at) {
  for (auto it = held_.begin(); it != held_.end();) {
    const auto info = machine.v3().lessor().find(it->first);
    if (machine.v3().lessor().awaits_removal(it->first)) {
      ++it;
      continue;
    }
    answer(it->second.pending, info ? it->second.ttl_s : 0, machine, at);
    it = held_.erase(it);
  }
}

void LeaseDesk::answer(const Pending& pending, int64_t ttl_s, const StateMachine& machine, const RaftPosition& at) {
  if (pending.from.is_zero()) finish(pending.id, ttl_s, machine, at);
  else answers_[pending.from].emplace_back(pending.id, ttl_s);
}

std::vector<std::pair<NodeId, Bytes>> LeaseDesk::take_answers() {
  std::vector<std::pair<NodeId, Bytes>> messages;
  for (const auto& [to, answers] : answers_) {
    pb::LeaseAnswers message;
    for (const auto& [id, ttl_s] : answers) {
      auto* answer = message.add_answers();
      answer->set_id(id);
      answer->set_ttl_s(ttl_s);
    }
    messages.emplace_back(to, Bytes(message.SerializeAsString()));
  }
  answers_.clear();
  return messages;
}

void LeaseDesk::finish(uint64_t id, int64_t ttl_s, const StateMachine& machine, const RaftPosition& at) {
  auto it = asked_.find(id);
  if (it == asked_.end()) return;
  const Asked asked = it->second;
  asked_.erase(it);
  const mvcc::HeaderInfo header{cluster_id_, self_.value(), at.term.value()};
  const int64_t revision = machine.v3().keyspace().revision();
  if (asked.what == What::kRenew) {
    etcdserverpb::LeaseKeepAliveResponse response;
    fill_header(*response.mutable_header(), header, revision);
    response.set_id(asked.lease);
    response.set_ttl(ttl_s);
    return replies_.add(asked.call, Bytes(response.SerializeAsString()));
  }
  etcdserverpb::LeaseTimeToLiveResponse response;
  fill_header(*response.mutable_header(), header, revision);
  response.set_id(asked.lease);
  response.set_ttl(ttl_s);
  if (const auto info = machine.v3().lessor().find(asked.lease); info && ttl_s >= 0) {
    response.set_grantedttl(info->granted_s);
    if (asked.what == What::kTimeLeftAndKeys)
      for (std::string& key : machine.v3().lessor().keys(asked.lease)) response.add_keys(std::move(key));
  }
  replies_.add(asked.call, Bytes(response.SerializeAsString()));
}

void LeaseDesk::tick(StateMachine& machine, Instant now, Term term) {
  lease::Lessor& lessor = machine.v3().lessor();
  if (const auto next = lessor.next_event(); !next || now < *next) return;
  if (const auto due = lessor.take_due(now, kPerProposal, kHandOutAgain); !due.empty()) {
    pb::Command command;
    command.mutable_lease_expiry()->set_term(term.value());
    for (const auto& [id, grant] : due) {
      command.mutable_lease_expiry()->add_ids(id);
      command.mutable_lease_expiry()->add_grants(grant);
    }
    proposals_.add({}, Proposals::Kind::kInternal, command.SerializeAsString(), now + kForGood);
  }
  if (const auto checkpoints = lessor.take_checkpoints(now, kPerProposal); !checkpoints.empty()) {
    pb::Command command;
    command.mutable_lease_checkpoints()->set_term(term.value());
    for (const auto& checkpoint : checkpoints) {
      command.mutable_lease_checkpoints()->add_ids(checkpoint.id);
      command.mutable_lease_checkpoints()->add_grants(checkpoint.grant);
      command.mutable_lease_checkpoints()->add_remaining_s(checkpoint.remaining_s);
    }
    proposals_.add({}, Proposals::Kind::kInternal, command.SerializeAsString(), now + kForGood);
  }
}

void LeaseDesk::expire(Instant now, const RaftPosition& at) {
  if (now < earliest_) return;
  earliest_ = kNever;
  for (auto it = asked_.begin(); it != asked_.end();) {
    if (now < it->second.deadline) {
      earliest_ = std::min(earliest_, it->second.deadline);
      ++it;
      continue;
    }
    replies_.fail(it->second.call, Status::unavailable("etcdserver: request timed out"), at);
    it = asked_.erase(it);
  }
}

}  // namespace rallypoint::server
