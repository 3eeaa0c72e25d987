#include "server/requests.h"

#include <algorithm>

#include "server/api/v2_json.h"
#include "server/state/command.pb.h"
#include "server/state/v2_command.h"

namespace rallypoint::server {

void Requests::take(std::vector<Request>&& batch, StateMachine& machine, Instant now, const v2::Clock& clock,
                    const RaftPosition& at) {
  const Instant deadline = now + limits_.request_timeout;
  for (Request& request : batch) {
    if (auto* write = std::get_if<V2Write>(&request)) {
      // A compare that is lost here and now costs no log entry: it is answered like a linearizable read.
      if (machine.tree().would_fail(write->request)) {
        new_reads_.push_back({write->call, std::move(write->request), deadline});
      } else {
        start_write(write->call, std::move(write->request), deadline);
      }
    } else if (auto* read = std::get_if<V2Read>(&request)) {
      if (read->linearizable) new_reads_.push_back({read->call, std::move(read->request), deadline});
      else read_now(read->call, read->request, machine, clock, at);
    } else if (auto* watched = std::get_if<V2Watch>(&request)) {
      watch(*watched, machine, at);
    } else if (auto* gone = std::get_if<CancelWatch>(&request)) {
      cancel(gone->call);
    } else if (auto* change = std::get_if<ChangeMember>(&request)) {
      fail(change->call, Status::unimplemented("members can't be changed at run time yet"), at);
    }
  }
}

void Requests::start_write(Call call, v2::WriteRequest request, Instant deadline) {
  const uint64_t sequence = next_sequence_++;
  writes_.emplace(sequence, Write{call, std::move(request), {}, deadline, {}});
  to_propose_.push_back(sequence);
}

std::vector<Bytes> Requests::take_proposals(Instant now) {
  std::vector<Bytes> commands;
  if (incarnation_ == 0) return commands;
  commands.reserve(to_propose_.size());
  for (uint64_t sequence : to_propose_) {
    auto it = writes_.find(sequence);
    if (it == writes_.end()) continue;
    Write& write = it->second;
    if (write.command.empty()) {
      pb::Command command;
      command.set_node(self_.value());
      command.set_incarnation(incarnation_);
      command.set_sequence(sequence);
      command.set_low_water(writes_.begin()->first);
      to_proto(write.request, *command.mutable_v2_write());
      write.command = Bytes(command.SerializeAsString());
      write.request = {};
    }
    write.proposed = now;
    commands.push_back(write.command);
  }
  to_propose_.clear();
  return commands;
}

void Requests::propose_again() {
  to_propose_.clear();
  for (const auto& [sequence, write] : writes_) to_propose_.push_back(sequence);
}

uint64_t Requests::take_read(Instant now) {
  if (new_reads_.empty()) return 0;
  const uint64_t id = next_read_++;
  rounds_.emplace(id, Round{std::move(new_reads_), now, {}, false});
  new_reads_.clear();
  return id;
}

void Requests::read_confirmed(uint64_t id, Index index) {
  auto it = rounds_.find(id);
  if (it == rounds_.end()) return;
  it->second.index = index;
  it->second.confirmed = true;
}

void Requests::read_failed(uint64_t id) {
  auto it = rounds_.find(id);
  if (it == rounds_.end()) return;
  std::move(it->second.readings.begin(), it->second.readings.end(), std::back_inserter(new_reads_));
  rounds_.erase(it);
}

void Requests::serve_reads(StateMachine& machine, const v2::Clock& clock, const RaftPosition& at) {
  for (auto it = rounds_.begin(); it != rounds_.end();) {
    Round& round = it->second;
    if (!round.confirmed || at.applied < round.index) {
      ++it;
      continue;
    }
    for (Reading& reading : round.readings) {
      if (auto* read = std::get_if<v2::ReadRequest>(&reading.what)) {
        read_now(reading.call, *read, machine, clock, at);
        continue;
      }
      auto& write = std::get<v2::WriteRequest>(reading.what);
      if (auto error = machine.tree().would_fail(write)) answer(reading.call, *error, error->index, at);
      else start_write(reading.call, std::move(write), reading.deadline);  // it would win by now
    }
    it = rounds_.erase(it);
  }
}

void Requests::read_now(Call call, const v2::ReadRequest& request, StateMachine& machine, const v2::Clock& clock,
                        const RaftPosition& at) {
  answer(call, machine.tree().read(request, clock), machine.tree().index(), at);
}

void Requests::applied(const Effects& effects, const v2::Tree& tree, const RaftPosition& at) {
  for (const Effects::Answer& done : effects.answers) {
    if (done.node != self_ || done.incarnation != incarnation_) continue;
    auto it = writes_.find(done.sequence);
    if (it == writes_.end()) continue;
    answer(it->second.call, done.outcome, tree.index(), at);
    writes_.erase(it);
  }
  if (hub_.size() == 0) return;
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
      reply(watching.call, {0, event, watching.etcd_index, at.applied.value(), at.term.value(), false, delivery.last, encoded});
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
  reply(request.call, {0, std::monostate{}, index, at.applied.value(), at.term.value(), true, false, {}});
  for (size_t i = 0; i < started.events.size(); ++i) {
    const bool final = !started.registered && i + 1 == started.events.size();
    reply(request.call, {0, started.events[i], index, at.applied.value(), at.term.value(), false, final, {}});
  }
  if (!started.registered) return;
  watching_[token] = {request.call, index};
  watch_of_call_[{request.call.sink, request.call.token}] = token;
}

void Requests::cancel(Call call) {
  auto it = watch_of_call_.find({call.sink, call.token});
  if (it == watch_of_call_.end()) return;
  hub_.cancel(it->second);
  watching_.erase(it->second);
  watch_of_call_.erase(it);
}

void Requests::state_replaced(const StateMachine& machine, const RaftPosition& at) {
  const uint64_t index = machine.tree().index();
  for (uint64_t token : hub_.end_all()) {
    auto it = watching_.find(token);
    if (it == watching_.end()) continue;
    answer(it->second.call, v2::WatcherHub::cleared_by_recovery(index), index, at);
  }
  watching_.clear();
  watch_of_call_.clear();
  for (auto it = writes_.begin(); it != writes_.end();) {
    if (!machine.sessions().was_applied(self_, incarnation_, it->first)) {
      ++it;
      continue;
    }
    fail(it->second.call, Status::outcome_unknown("the write was applied, but its answer was lost with a snapshot; read the key again"), at);
    it = writes_.erase(it);
  }
}

void Requests::tick(Instant now, const RaftPosition& at) {
  for (auto it = writes_.begin(); it != writes_.end();) {
    Write& write = it->second;
    if (write.deadline < now) {
      fail(write.call, write.proposed.us == 0
                           ? Status::unavailable("no leader took the write; it has not been executed")
                           : Status::outcome_unknown("the cluster did not answer in time; the write may still be executed"), at);
      it = writes_.erase(it);
      continue;
    }
    if (write.proposed.us != 0 && write.proposed + limits_.retry_after < now) {
      write.proposed = now;
      to_propose_.push_back(it->first);
    }
    ++it;
  }
  std::vector<uint64_t> lost;
  for (auto& [id, round] : rounds_)
    if (!round.confirmed && round.asked + limits_.retry_after < now) lost.push_back(id);
  for (uint64_t id : lost) read_failed(id);
  std::erase_if(new_reads_, [&](const Reading& reading) {
    if (now < reading.deadline) return false;
    fail(reading.call, Status::unavailable("no leader answered in time; nothing was changed"), at);
    return true;
  });
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
  reply(call, std::move(out));
}

void Requests::fail(Call call, Status status, const RaftPosition& at) {
  ++failed_;
  Reply out;
  out.body = std::move(status);
  out.raft_index = at.applied.value();
  out.raft_term = at.term.value();
  reply(call, std::move(out));
}

void Requests::reply(Call call, Reply reply) {
  reply.token = call.token;
  replies_[call.sink].push_back(std::move(reply));
}

void Requests::flush() {
  for (auto& [sink, replies] : replies_) {
    if (replies.empty()) continue;
    sink->deliver(std::exchange(replies, {}));
  }
}

}  // namespace rallypoint::server
