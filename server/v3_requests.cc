#include "server/v3_requests.h"

#include "server/state/command.pb.h"

namespace rallypoint::server {
namespace {

/// How often a node asks for an alarm that has not come yet.
constexpr Duration kAlarmAgain = Duration::seconds(1);
/// Quota in use below which an automatic alarm is cleared, in percent: not at 100, or it would come and go.
constexpr int64_t kClearPercent = 95;

template <class Message>
const Message& as(const std::unique_ptr<google::protobuf::Message>& message) {
  return static_cast<const Message&>(*message);
}

}  // namespace

V3Requests::V3Requests(NodeId self, const Settings& settings, Proposals& proposals, Replies& replies)
    : self_(self), settings_(settings), proposals_(proposals), replies_(replies), hub_(settings.watch) {}

/// A little before the caller's own end, so that it hears our reason and not its own.
Instant V3Requests::deadline(Duration caller_waits, Instant now) const {
  if (caller_waits.us <= 0) return now + settings_.timeout;
  const Duration margin = std::clamp(Duration::micros(caller_waits.us / 5), Duration::millis(1), Duration::millis(100));
  return now + Duration::micros(std::max<int64_t>(0, caller_waits.us - margin.us));
}

void V3Requests::write(V3Write&& request, const StateMachine& machine, Instant now, const RaftPosition& at) {
  const bool stores = request.kind == V3WriteKind::kPut || request.kind == V3WriteKind::kTxn || request.kind == V3WriteKind::kLeaseGrant;
  if (stores && machine.v3().keyspace().live_bytes() + static_cast<int64_t>(request.message.size()) > settings_.quota_bytes) {
    bool grows = true;
    if (request.kind == V3WriteKind::kTxn) {
      etcdserverpb::TxnRequest txn;
      grows = txn.ParseFromArray(request.message.data(), static_cast<int>(request.message.size())) && V3State::puts_something(txn);
    }
    if (grows) {
      if (!machine.v3().has_alarm(etcdserverpb::NOSPACE) && alarm_proposed_at_ + kAlarmAgain < now) {
        alarm_proposed_at_ = now;
        propose_alarm(true, now);
      }
      return replies_.fail(request.call, Status::resource_exhausted("etcdserver: mvcc: database space exceeded"), at);
    }
  }
  pb::Command command;
  auto* write = command.mutable_v3_write();
  write->set_kind(static_cast<uint32_t>(request.kind));
  write->set_request(request.message.data(), request.message.size());
  if (!request.idempotency_key.empty()) write->set_idempotency_key(std::move(request.idempotency_key));
  proposals_.add(request.call, Proposals::Kind::kV3, command.SerializeAsString(), deadline(request.timeout, now));
}

void V3Requests::propose_alarm(bool activate, Instant now) {
  etcdserverpb::AlarmRequest alarm;
  alarm.set_action(activate ? etcdserverpb::AlarmRequest::ACTIVATE : etcdserverpb::AlarmRequest::DEACTIVATE);
  alarm.set_alarm(etcdserverpb::NOSPACE);
  if (activate) alarm.set_memberid(self_.value());
  pb::Command command;
  command.mutable_v3_write()->set_kind(static_cast<uint32_t>(V3WriteKind::kAlarm));
  command.mutable_v3_write()->set_request(alarm.SerializeAsString());
  command.mutable_v3_write()->set_automatic(true);
  proposals_.add({}, Proposals::Kind::kInternal, command.SerializeAsString(), now + settings_.timeout);
}

void V3Requests::clear_quota_alarm(const StateMachine& machine, Instant now) {
  bool automatic = false;
  for (const auto& [alarm, by_quota] : machine.v3().alarms()) automatic |= by_quota;
  if (!automatic || alarm_proposed_at_ + kAlarmAgain > now) return;
  if (machine.v3().keyspace().live_bytes() > settings_.quota_bytes / 100 * kClearPercent) return;
  alarm_proposed_at_ = now;
  propose_alarm(false, now);
}

void V3Requests::answer(Call call, mvcc::Outcome outcome, const RaftPosition& at) {
  if (outcome.status.is_ok()) replies_.add(call, Bytes(std::move(outcome.response)));
  else replies_.fail(call, std::move(outcome.status), at);
}

/// The state can't be read. The client hears that it was us; the node stops at the next write, which meets the same disk.
void V3Requests::fail_engine(Call call, const Status& status, const RaftPosition& at) {
  replies_.fail(call, Status::data_loss("the state of this member can't be read: " + status.message()), at);
}

void V3Requests::read(const V3Read& request, StateMachine& machine, const RaftPosition& at) {
  const Call call = request.call;
  V3State& state = machine.v3();
  const int64_t revision = state.keyspace().revision();
  if (state.has_alarm(etcdserverpb::CORRUPT) && (request.kind == V3Read::Kind::kRange || request.kind == V3Read::Kind::kTxn))
    return replies_.fail(call, Status::data_loss("etcdserver: corrupt cluster"), at);
  switch (request.kind) {
    case V3Read::Kind::kRange: {
      auto outcome = state.keyspace().range(as<etcdserverpb::RangeRequest>(request.message), header(at));
      return outcome.is_ok() ? answer(call, std::move(*outcome), at) : fail_engine(call, outcome.status(), at);
    }
    case V3Read::Kind::kRangeStream: return range(call, as<etcdserverpb::RangeRequest>(request.message), machine, at);
    case V3Read::Kind::kTxn: {
      auto outcome = state.keyspace().read_txn(as<etcdserverpb::TxnRequest>(request.message), header(at));
      return outcome.is_ok() ? answer(call, std::move(*outcome), at) : fail_engine(call, outcome.status(), at);
    }
    case V3Read::Kind::kLeaseTimeToLive: RALLY_CHECK(false, "asked at the lease desk", 0);
    case V3Read::Kind::kLeaseLeases: {
      etcdserverpb::LeaseLeasesResponse response;
      fill_header(*response.mutable_header(), header(at), revision);
      for (int64_t id : state.lessor().leases()) response.add_leases()->set_id(id);
      return replies_.add(call, Bytes(response.SerializeAsString()));
    }
    case V3Read::Kind::kHash:
    case V3Read::Kind::kHashKv: {
      const int64_t wanted = request.kind == V3Read::Kind::kHash ? 0 : as<etcdserverpb::HashKVRequest>(request.message).revision();
      if (Status status = state.keyspace().check_hash_revision(wanted); !status.is_ok()) return replies_.fail(call, status, at);
      auto hash = state.keyspace().hash_kv(wanted);
      if (!hash.is_ok()) return fail_engine(call, hash.status(), at);
      if (request.kind == V3Read::Kind::kHash) {
        etcdserverpb::HashResponse response;
        fill_header(*response.mutable_header(), header(at), revision);
        response.set_hash(hash->hash);
        return replies_.add(call, Bytes(response.SerializeAsString()));
      }
      etcdserverpb::HashKVResponse response;
      fill_header(*response.mutable_header(), header(at), revision);
      response.set_hash(hash->hash);
      response.set_compact_revision(hash->compacted);
      response.set_hash_revision(hash->revision);
      return replies_.add(call, Bytes(response.SerializeAsString()));
    }
    case V3Read::Kind::kAlarms: {
      etcdserverpb::AlarmResponse response;
      fill_header(*response.mutable_header(), header(at), revision);
      const int wanted = request.message ? as<etcdserverpb::AlarmRequest>(request.message).alarm() : 0;
      for (const auto& [alarm, automatic] : state.alarms()) {
        if (wanted != etcdserverpb::NONE && wanted != alarm.second) continue;
        auto* member = response.add_alarms();
        member->set_memberid(alarm.first);
        member->set_alarm(static_cast<etcdserverpb::AlarmType>(alarm.second));
      }
      return replies_.add(call, Bytes(response.SerializeAsString()));
    }
    case V3Read::Kind::kMemberList:
    case V3Read::Kind::kStatus: {
      // The handler makes the answer from the view; what it needs of the state is the header.
      etcdserverpb::ResponseHeader response;
      fill_header(response, header(at), revision);
      return replies_.add(call, Bytes(response.SerializeAsString()));
    }
  }
}

void V3Requests::range(Call call, const etcdserverpb::RangeRequest& request, const StateMachine& machine, const RaftPosition& at) {
  auto cursor = machine.v3().keyspace().open_cursor(request);
  if (!cursor.is_ok()) return replies_.fail(call, cursor.status(), at);
  cursors_[key_of(call)] = std::move(*cursor);
  next_range_part(call, at);
}

void V3Requests::next_range_part(Call call, const RaftPosition& at) {
  auto it = cursors_.find(key_of(call));
  if (it == cursors_.end()) return;
  std::vector<Bytes> pairs;
  auto more = it->second->next(settings_.part_bytes, pairs);
  if (!more.is_ok()) {
    cursors_.erase(it);
    return fail_engine(call, more.status(), at);
  }
  etcdserverpb::RangeStreamResponse response;
  auto* part = response.mutable_range_response();
  if (!*more) {
    fill_header(*part->mutable_header(), header(at), it->second->revision());
    part->set_more(it->second->more());
    part->set_count(it->second->count());
  }
  for (const Bytes& pair : pairs) part->add_kvs()->ParseFromArray(pair.data(), static_cast<int>(pair.size()));
  if (!*more) cursors_.erase(it);
  replies_.add(call, Bytes(response.SerializeAsString()), !*more);
}

void V3Requests::snapshot(const V3Snapshot& request) {
  snapshot_of_call_[key_of(request.call)] = next_snapshot_;
  call_of_snapshot_[next_snapshot_] = request.call;
  snapshot_jobs_.push_back({next_snapshot_++, SnapshotJob::What::kStart});
}

void V3Requests::more(const V3More& request, const RaftPosition& at) {
  next_range_part(request.call, at);
  if (auto it = snapshot_of_call_.find(key_of(request.call)); it != snapshot_of_call_.end())
    snapshot_jobs_.push_back({it->second, SnapshotJob::What::kNext});
}

void V3Requests::snapshot_part(SnapshotPart&& part, const StateMachine& machine, const RaftPosition& at) {
  auto it = call_of_snapshot_.find(part.id);
  if (it == call_of_snapshot_.end()) return;
  const Call call = it->second;
  const bool final = part.is_last || !part.status.is_ok();
  if (final) {
    call_of_snapshot_.erase(it);
    snapshot_of_call_.erase(key_of(call));
  }
  if (!part.status.is_ok()) return replies_.fail(call, std::move(part.status), at);
  etcdserverpb::SnapshotResponse response;
  fill_header(*response.mutable_header(), header(at), machine.v3().keyspace().revision());
  response.set_remaining_bytes(part.remaining_bytes);
  response.set_blob(std::move(part.bytes));
  response.set_version("3.6.0");
  replies_.add(call, Bytes(response.SerializeAsString()), final);
}

void V3Requests::watch(const V3WatchMessage& request, const StateMachine& machine, Instant now, const RaftPosition& at) {
  auto [it, is_new] = stream_of_call_.try_emplace(key_of(request.call), next_stream_);
  if (is_new) call_of_stream_[next_stream_++] = request.call;
  hub_.handle(it->second, as<etcdserverpb::WatchRequest>(request.message), machine.v3().keyspace(), header(at), now);
}

void V3Requests::flow(const V3WatchFlow& request) {
  if (auto it = stream_of_call_.find(key_of(request.call)); it != stream_of_call_.end()) hub_.set_flow(it->second, request.open);
}

void V3Requests::cancel(Call call) {
  cursors_.erase(key_of(call));
  if (auto it = snapshot_of_call_.find(key_of(call)); it != snapshot_of_call_.end()) {
    snapshot_jobs_.push_back({it->second, SnapshotJob::What::kEnd});
    call_of_snapshot_.erase(it->second);
    snapshot_of_call_.erase(it);
  }
  auto it = stream_of_call_.find(key_of(call));
  if (it == stream_of_call_.end()) return;
  hub_.close(it->second);
  call_of_stream_.erase(it->second);
  stream_of_call_.erase(it);
}

void V3Requests::applied(const Effects& effects, const StateMachine& machine, Instant now, const RaftPosition& at) {
  const mvcc::Keyspace& keyspace = machine.v3().keyspace();
  if (!effects.v3_events.empty()) hub_.publish(effects.v3_events, keyspace, header(at), now);
  if (effects.compacted > 0) hub_.compacting(effects.compacted, keyspace, header(at), now);
}

void V3Requests::state_replaced(const StateMachine& machine, Instant now, const RaftPosition& at) {
  // Cursors read what is gone; their clients ask again.
  for (const auto& [key, cursor] : cursors_) replies_.fail({key.first, key.second}, Status::unavailable("etcdserver: the state was replaced by a snapshot; try again"), at);
  cursors_.clear();
  hub_.state_replaced(machine.v3().keyspace(), header(at), now);
}

Result<bool> V3Requests::catch_up(const StateMachine& machine, Instant now, const RaftPosition& at) {
  return hub_.catch_up(machine.v3().keyspace(), header(at), now);
}

void V3Requests::tick(const StateMachine& machine, Instant now, const RaftPosition& at) {
  hub_.tick(now, machine.v3().keyspace(), header(at));
}

void V3Requests::collect() {
  for (watch::StreamOutput& output : hub_.take_output()) {
    auto it = call_of_stream_.find(output.stream);
    if (it == call_of_stream_.end()) continue;
    WatchParts parts;
    parts.parts.reserve(output.parts.size());
    for (watch::Part& part : output.parts) parts.parts.push_back({part.watch_id, std::move(part.response)});
    Reply reply;
    reply.body = std::move(parts);
    reply.final = false;
    replies_.add(it->second, std::move(reply));
  }
}

}  // namespace rallypoint::server
