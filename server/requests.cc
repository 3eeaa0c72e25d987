#include "server/requests.h"

#include <algorithm>

#include "server/api/v2_json.h"
#include "server/state/command.pb.h"
#include "server/state/v2_command.h"

namespace rallypoint::server {

Requests::Requests(NodeId self, const Limits& limits)
    : self_(self), limits_(limits), proposals_(self), desk_(self, limits.v3.cluster_id, proposals_, replies_), v3_(self, limits.v3, proposals_, replies_) {}

void Requests::take(std::vector<Request>&& batch, StateMachine& machine, Instant now, const v2::Clock& clock,
                    const RaftPosition& at) {
  const Instant deadline = now + limits_.request_timeout;
  for (Request& request : batch) {
    if (auto* write = std::get_if<V3Write>(&request)) {
      v3_.write(std::move(*write), machine, now, at);
    } else if (auto* read = std::get_if<V3Read>(&request)) {
      take_v3_read(std::move(*read), machine, now, at);
    } else if (auto* write = std::get_if<V2Write>(&request)) {
      // A compare that is lost here and now costs no log entry: it is answered like a linearizable read.
      if (machine.tree().would_fail(write->request)) rounds_.add({write->call, std::move(write->request), deadline});
      else start_write(write->call, write->request, deadline);
    } else if (auto* read = std::get_if<V2Read>(&request)) {
      if (read->linearizable) rounds_.add({read->call, std::move(read->request), deadline});
      else read_now(read->call, read->request, machine, clock, at);
    } else if (auto* watched = std::get_if<V2Watch>(&request)) {
      watch(*watched, machine, at);
    } else if (auto* gone = std::get_if<CancelWatch>(&request)) {
      cancel_v2(gone->call);
    } else if (auto* gone = std::get_if<CancelCall>(&request)) {
      cancel_v3(gone->call);
    } else if (auto* renewal = std::get_if<V3KeepAlive>(&request)) {
      desk_.ask(renewal->call, renewal->lease, LeaseDesk::What::kRenew, v3_.deadline({}, now));
    } else if (auto* message = std::get_if<V3WatchMessage>(&request)) {
      v3_.watch(*message, machine, now, at);
    } else if (auto* flow = std::get_if<V3WatchFlow>(&request)) {
      v3_.flow(*flow);
    } else if (auto* more = std::get_if<V3More>(&request)) {
      v3_.more(*more, at);
    } else if (auto* snapshot = std::get_if<V3Snapshot>(&request)) {
      v3_.snapshot(*snapshot);
    } else if (auto* change = std::get_if<ChangeMember>(&request)) {
      replies_.fail(change->call, Status::unimplemented("members can't be changed at run time yet"), at);
    } else {
      RALLY_CHECK(false, "the node loop takes this request itself", request.index());
    }
  }
}

void Requests::take_v3_read(V3Read&& read, StateMachine& machine, Instant now, const RaftPosition& at) {
  const Instant deadline = v3_.deadline(read.timeout, now);
  if (read.kind == V3Read::Kind::kLeaseTimeToLive) {
    const auto& request = static_cast<const etcdserverpb::LeaseTimeToLiveRequest&>(*read.message);
    return desk_.ask(read.call, request.id(), request.keys() ? LeaseDesk::What::kTimeLeftAndKeys : LeaseDesk::What::kTimeLeft, deadline);
  }
  if (!read.linearizable) return v3_.read(read, machine, at);
  const Call call = read.call;
  rounds_.add({call, std::move(read), deadline});
}

void Requests::start_write(Call call, const v2::WriteRequest& request, Instant deadline) {
  pb::Command command;
  to_proto(request, *command.mutable_v2_write());
  proposals_.add(call, Proposals::Kind::kV2, command.SerializeAsString(), deadline);
}

void Requests::propose_again() {
  proposals_.again();
  desk_.leader_changed();
}

void Requests::take_lease_questions_here(Instant now) {
  for (LeaseDesk::Pending& pending : desk_.take_pending()) rounds_.add({{}, std::move(pending), now + limits_.request_timeout});
}

void Requests::serve_reads(StateMachine& machine, Instant now, const v2::Clock& clock, const RaftPosition& at) {
  for (Reading& reading : rounds_.take_ready(at.applied)) {
    if (auto* read = std::get_if<V3Read>(&reading.what)) {
      v3_.read(*read, machine, at);
    } else if (auto* pending = std::get_if<LeaseDesk::Pending>(&reading.what)) {
      desk_.confirmed(*pending, machine, now, at);
    } else if (auto* read = std::get_if<v2::ReadRequest>(&reading.what)) {
      read_now(reading.call, *read, machine, clock, at);
    } else {
      auto& write = std::get<v2::WriteRequest>(reading.what);
      if (auto error = machine.tree().would_fail(write)) answer(reading.call, *error, error->index, at);
      else start_write(reading.call, write, reading.deadline);  // it would win by now
    }
  }
}

void Requests::read_now(Call call, const v2::ReadRequest& request, StateMachine& machine, const v2::Clock& clock,
                        const RaftPosition& at) {
  answer(call, machine.tree().read(request, clock), machine.tree().index(), at);
}

void Requests::applied(Effects& effects, StateMachine& machine, Instant now, const RaftPosition& at) {
  for (Effects::Answer& done : effects.answers) {
    if (done.node != self_ || done.incarnation != incarnation()) continue;
    const auto waiter = proposals_.finish(done.sequence);
    if (!waiter || waiter->kind == Proposals::Kind::kInternal) continue;
    if (auto* outcome = std::get_if<v2::Outcome>(&done.outcome)) answer(waiter->call, std::move(*outcome), machine.tree().index(), at);
    else v3_.answer(waiter->call, std::move(std::get<mvcc::Outcome>(done.outcome)), at);
  }
  if (effects.leases_changed) desk_.applied(machine, at);
  v3_.applied(effects, machine, now, at);
  if (hub_.size() != 0) tell_v2_watchers(effects, at);
}

void Requests::tell_v2_watchers(const Effects& effects, const RaftPosition& at) {
  std::vector<v2::WatcherHub::Delivery> deliveries;
  for (const v2::EventPtr& event : effects.events) {
    deliveries.clear();
    hub_.match(event, deliveries);
    Bytes encoded;  // once for all of them
    if (deliveries.size() > 1) encoded = Bytes(encode_event(*event));
    for (const auto& delivery : deliveries) {
      auto it = watching_.find(delivery.token);
      if (it == watching_.end()) continue;
      const Watching watching = it->second;
      replies_.add(watching.call, Reply{0, event, watching.etcd_index, at.applied.value(), at.term.value(), false, delivery.last, encoded});
      if (delivery.last) {
        watch_of_call_.erase({watching.call.sink, watching.call.token});
        watching_.erase(it);
      }
    }
  }
}

void Requests::watch(const V2Watch& request, StateMachine& machine, const RaftPosition& at) {
  const uint64_t token = next_watch_++;
  const uint64_t index = machine.tree().index();
  auto added = hub_.add(token, request.request, machine.tree().history(), index);
  if (auto* error = std::get_if<v2::Error>(&added)) return answer(request.call, *error, index, at);
  auto& started = std::get<v2::WatcherHub::Started>(added);
  replies_.add(request.call, Reply{0, std::monostate{}, index, at.applied.value(), at.term.value(), true, false, {}});
  for (size_t i = 0; i < started.events.size(); ++i) {
    const bool final = !started.registered && i + 1 == started.events.size();
    replies_.add(request.call, Reply{0, started.events[i], index, at.applied.value(), at.term.value(), false, final, {}});
  }
  if (!started.registered) return;
  watching_[token] = {request.call, index};
  watch_of_call_[{request.call.sink, request.call.token}] = token;
}

void Requests::cancel_v2(Call call) {
  auto it = watch_of_call_.find({call.sink, call.token});
  if (it == watch_of_call_.end()) return;
  hub_.cancel(it->second);
  watching_.erase(it->second);
  watch_of_call_.erase(it);
}

void Requests::cancel_v3(Call call) {
  v3_.cancel(call);
  desk_.cancel(call);
  rounds_.erase_if([&](const Reading& reading) {
    return reading.call.sink == call.sink && reading.call.token == call.token && std::holds_alternative<V3Read>(reading.what);
  });
}

void Requests::state_replaced(const StateMachine& machine, Instant now, const RaftPosition& at) {
  const uint64_t index = machine.tree().index();
  for (uint64_t token : hub_.end_all()) {
    auto it = watching_.find(token);
    if (it == watching_.end()) continue;
    answer(it->second.call, v2::WatcherHub::cleared_by_recovery(index), index, at);
  }
  watching_.clear();
  watch_of_call_.clear();
  v3_.state_replaced(machine, now, at);
  proposals_.finish_if([&](uint64_t sequence) { return machine.sessions().was_applied(self_, incarnation(), sequence); },
                       [&](const Proposals::Waiter& waiter) {
                         if (waiter.kind == Proposals::Kind::kInternal) return;
                         replies_.fail(waiter.call, Status::outcome_unknown("the write was applied, but its answer was lost with a snapshot; read the key again"), at);
                       });
}

void Requests::expire(Instant now, const RaftPosition& at) {
  proposals_.expire(now, [&](const Proposals::Waiter& waiter, bool proposed) {
    if (waiter.kind == Proposals::Kind::kInternal) return;
    if (waiter.kind == Proposals::Kind::kV3) {
      // Not executed for certain: a client may try again. Else it may still be (etcd's own text for both).
      replies_.fail(waiter.call, proposed ? Status::outcome_unknown("etcdserver: request timed out") : Status::unavailable("etcdserver: request timed out"), at);
      return;
    }
    replies_.fail(waiter.call, proposed ? Status::outcome_unknown("the cluster did not answer in time; the write may still be executed")
                                        : Status::unavailable("no leader took the write; it has not been executed"), at);
  });
  for (Reading& reading : rounds_.take_expired(now)) {
    if (std::holds_alternative<LeaseDesk::Pending>(reading.what)) continue;  // the desk has its own deadline
    const bool v3 = std::holds_alternative<V3Read>(reading.what);
    replies_.fail(reading.call, Status::unavailable(v3 ? "etcdserver: request timed out" : "no leader answered in time; nothing was changed"), at);
  }
  desk_.expire(now, at);
}

void Requests::tick(const StateMachine& machine, Instant now, const RaftPosition& at) {
  expire(now, at);
  proposals_.retry(now, limits_.retry_after);
  rounds_.retry(now, limits_.retry_after);
  v3_.tick(machine, now, at);
}

void Requests::answer(Call call, v2::Outcome outcome, uint64_t fallback_index, const RaftPosition& at) {
  Reply out;
  if (auto* event = std::get_if<v2::EventPtr>(&outcome)) {
    out.etcd_index = (*event)->etcd_index != 0 ? (*event)->etcd_index : fallback_index;
    out.body = std::move(*event);
  } else {
    out.etcd_index = std::get<v2::Error>(outcome).index;
    out.body = std::move(std::get<v2::Error>(outcome));
  }
  out.raft_index = at.applied.value();
  out.raft_term = at.term.value();
  replies_.add(call, std::move(out));
}

void Requests::flush() {
  v3_.collect();
  replies_.flush();
}

}  // namespace rallypoint::server
