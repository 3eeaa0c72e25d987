#include "server/state/v3_state.h"

#include "server/state/v3_kinds.h"
#include "server/state/rows.h"

namespace rallypoint::server {
namespace {

using mvcc::HeaderInfo;
using mvcc::Outcome;

Status malformed() { return Status::invalid_argument("etcdserver: malformed request"); }
Status no_space() { return Status::resource_exhausted("etcdserver: mvcc: database space exceeded"); }

template <class Message>
bool parse(Message& message, std::string_view bytes) {
  return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

std::string alarm_row(const V3State::Alarm& alarm) {
  std::string key = rows::numbered(rows::kAlarm, alarm.first);
  key.push_back(static_cast<char>(alarm.second));
  return key;
}

}  // namespace

void fill_header(etcdserverpb::ResponseHeader& out, const HeaderInfo& info, int64_t revision) {
  out.set_cluster_id(info.cluster_id);
  out.set_member_id(info.member_id);
  out.set_raft_term(info.raft_term);
  out.set_revision(revision);
}

Result<std::unique_ptr<V3State>> V3State::open(std::shared_ptr<storage::Engine> engine, const Settings& settings) {
  std::unique_ptr<V3State> state(new V3State(settings));
  RALLY_RETURN_IF_ERROR(state->lessor_.load(*engine));
  auto keyspace = mvcc::Keyspace::open(engine, settings.keyspace, state->lessor_);
  if (!keyspace.is_ok()) return keyspace.status();
  state->keyspace_ = std::move(*keyspace);
  RALLY_RETURN_IF_ERROR(state->kept_answers_.load(*engine));
  Status damage;
  RALLY_RETURN_IF_ERROR(engine->scan(rows::kAlarm, rows::end_of(rows::kAlarm), [&](auto key, auto value) {
    if (key.size() != rows::kAlarm.size() + 9) return damage = Status::data_loss("an alarm row of the state is malformed"), false;
    state->alarms_[{rows::number_of(key.substr(0, key.size() - 1)), key.back()}] = value == "a";
    return true;
  }));
  RALLY_RETURN_IF_ERROR(damage);
  return state;
}

Result<Outcome> V3State::apply(const pb::V3Write& write, const HeaderInfo& header, bool wanted, Instant now) {
  if (write.idempotency_key().empty()) return execute(write, wanted ? &header : nullptr);
  const uint64_t hash = KeptAnswers::hash_of(write.request()) + write.kind();
  if (const Outcome* kept = kept_answers_.find(write.idempotency_key(), hash)) return *kept;
  auto outcome = execute(write, &header);
  if (outcome.is_ok()) kept_answers_.keep(write.idempotency_key(), hash, *outcome, now);
  return outcome;
}

Result<Outcome> V3State::execute(const pb::V3Write& write, const HeaderInfo* header) {
  const auto kind = static_cast<V3WriteKind>(write.kind());
  if (kind != V3WriteKind::kAlarm && has_alarm(etcdserverpb::CORRUPT)) return Outcome{Status::data_loss("etcdserver: corrupt cluster"), {}};
  const bool full = has_alarm(etcdserverpb::NOSPACE);
  switch (kind) {
    case V3WriteKind::kPut: {
      etcdserverpb::PutRequest request;
      if (!parse(request, write.request())) return Outcome{malformed(), {}};
      if (full) return Outcome{no_space(), {}};
      return keyspace_->put(request, header);
    }
    case V3WriteKind::kDeleteRange: {
      etcdserverpb::DeleteRangeRequest request;
      if (!parse(request, write.request())) return Outcome{malformed(), {}};
      return keyspace_->delete_range(request, header);
    }
    case V3WriteKind::kTxn: {
      etcdserverpb::TxnRequest request;
      if (!parse(request, write.request())) return Outcome{malformed(), {}};
      if (full && puts_something(request)) return Outcome{no_space(), {}};
      return keyspace_->txn(request, header);
    }
    case V3WriteKind::kCompact: {
      etcdserverpb::CompactionRequest request;
      if (!parse(request, write.request())) return Outcome{malformed(), {}};
      return keyspace_->compact(request, header);
    }
    case V3WriteKind::kLeaseGrant: return full ? Outcome{no_space(), {}} : grant(write.request(), header);
    case V3WriteKind::kLeaseRevoke: return revoke(write.request(), header);
    case V3WriteKind::kAlarm: return alarm(write, header);
  }
  return Outcome{malformed(), {}};
}

Result<Outcome> V3State::grant(std::string_view bytes, const HeaderInfo* header) {
  etcdserverpb::LeaseGrantRequest request;
  if (!parse(request, bytes) || request.id() == 0) return Outcome{malformed(), {}};
  auto ttl = lessor_.grant(request.id(), request.ttl());
  if (!ttl.is_ok()) return Outcome{ttl.status(), {}};
  if (header == nullptr) return Outcome{};
  etcdserverpb::LeaseGrantResponse response;
  fill_header(*response.mutable_header(), *header, keyspace_->revision());
  response.set_id(request.id());
  response.set_ttl(*ttl);
  return Outcome{{}, response.SerializeAsString()};
}

Result<Outcome> V3State::revoke(std::string_view bytes, const HeaderInfo* header) {
  etcdserverpb::LeaseRevokeRequest request;
  if (!parse(request, bytes)) return Outcome{malformed(), {}};
  auto keys = lessor_.revoke(request.id());
  if (!keys.is_ok()) return Outcome{keys.status(), {}};
  RALLY_RETURN_IF_ERROR(keyspace_->delete_keys(*keys));
  if (header == nullptr) return Outcome{};
  etcdserverpb::LeaseRevokeResponse response;
  fill_header(*response.mutable_header(), *header, keyspace_->revision());
  return Outcome{{}, response.SerializeAsString()};
}

Outcome V3State::alarm(const pb::V3Write& write, const HeaderInfo* header) {
  etcdserverpb::AlarmRequest request;
  if (!parse(request, write.request())) return {malformed(), {}};
  etcdserverpb::AlarmResponse response;
  const auto changed = [&](const Alarm& alarm) {
    changed_alarms_.insert(alarm);
    auto* member = response.add_alarms();
    member->set_memberid(alarm.first);
    member->set_alarm(static_cast<etcdserverpb::AlarmType>(alarm.second));
  };
  if (request.action() == etcdserverpb::AlarmRequest::ACTIVATE) {
    if (request.alarm() == etcdserverpb::NOSPACE || request.alarm() == etcdserverpb::CORRUPT) {
      const Alarm alarm{request.memberid(), request.alarm()};
      alarms_.try_emplace(alarm, write.automatic());
      changed(alarm);
    }
  } else if (request.action() == etcdserverpb::AlarmRequest::DEACTIVATE) {
    // Member 0 and type NONE mean all of them, as etcdctl's `alarm disarm` sends it.
    std::erase_if(alarms_, [&](const auto& entry) {
      const Alarm& alarm = entry.first;
      const bool meant = (!write.automatic() || entry.second) && (request.memberid() == 0 || request.memberid() == alarm.first) &&
                         (request.alarm() == etcdserverpb::NONE || request.alarm() == alarm.second);
      if (meant) changed(alarm);
      return meant;
    });
  }
  if (header == nullptr) return {};
  fill_header(*response.mutable_header(), *header, keyspace_->revision());
  return {{}, response.SerializeAsString()};
}

Status V3State::apply(const pb::LeaseExpiry& expiry, uint64_t entry_term) {
  if (expiry.term() != entry_term || expiry.ids_size() != expiry.grants_size()) return Status::ok();
  for (int i = 0; i < expiry.ids_size(); ++i)
    if (auto keys = lessor_.expire(expiry.ids(i), expiry.grants(i))) RALLY_RETURN_IF_ERROR(keyspace_->delete_keys(*keys));
  return Status::ok();
}

void V3State::apply(const pb::LeaseCheckpoints& checkpoints, uint64_t entry_term) {
  if (checkpoints.term() != entry_term || checkpoints.ids_size() != checkpoints.remaining_s_size() || checkpoints.ids_size() != checkpoints.grants_size()) return;
  for (int i = 0; i < checkpoints.ids_size(); ++i) lessor_.checkpoint(checkpoints.ids(i), checkpoints.grants(i), checkpoints.remaining_s(i));
}

void V3State::collect_changes(storage::WriteBatch& batch) {
  keyspace_->collect_changes(batch);
  lessor_.collect_changes(batch);
  kept_answers_.collect_changes(batch);
  for (const Alarm& alarm : changed_alarms_) {
    if (auto it = alarms_.find(alarm); it != alarms_.end()) batch.put(alarm_row(alarm), it->second ? "a" : "m");
    else batch.erase(alarm_row(alarm));
  }
  changed_alarms_.clear();
}

bool V3State::has_alarm(int type) const {
  for (const auto& [alarm, automatic] : alarms_)
    if (alarm.second == type) return true;
  return false;
}

uint64_t V3State::digest() const {
  uint64_t sum = (keyspace_->digest() * 31 + lessor_.digest()) * 31 + kept_answers_.digest();
  for (const auto& [alarm, automatic] : alarms_)
    sum = sum * 1000003 + alarm.first * 7 + static_cast<uint64_t>(alarm.second) * 2 + (automatic ? 1 : 0);
  return sum;
}

bool V3State::puts_something(const etcdserverpb::TxnRequest& request) {
  const auto any = [](const auto& operations) {
    for (const auto& operation : operations) {
      if (operation.has_request_put()) return true;
      if (operation.has_request_txn() && puts_something(operation.request_txn())) return true;
    }
    return false;
  };
  return any(request.success()) || any(request.failure());
}

}  // namespace rallypoint::server
