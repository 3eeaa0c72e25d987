#include "server/state/state_machine.h"

#include <algorithm>

#include "raft/base/crc32c.h"
#include "server/state/command.pb.h"
#include "server/state/rows.h"
#include "server/state/v3_kinds.h"
#include "server/state/v2_command.h"

namespace rallypoint::server {
namespace {
constexpr uint64_t kStateVersion = 1;
}

Result<std::unique_ptr<StateMachine>> StateMachine::open(std::shared_ptr<storage::Engine> engine,
                                                         const raft::Membership& bootstrap, const Settings& settings) {
  std::unique_ptr<StateMachine> machine(new StateMachine(std::move(engine), settings));
  RALLY_RETURN_IF_ERROR(machine->load(bootstrap));
  return machine;
}

Status StateMachine::load(const raft::Membership& bootstrap) {
  auto v3 = V3State::open(engine_, settings_.v3);
  if (!v3.is_ok()) return v3.status();
  v3_ = std::move(*v3);
  auto row = engine_->get(rows::kMeta);
  if (!row.is_ok()) return row.status();
  if (!row->has_value()) {
    applied_ = {Term(), Index(), bootstrap};
    return Status::ok();
  }
  pb::StateMeta meta;
  if (!meta.ParseFromString(**row)) return Status::data_loss("the state's meta row is malformed");
  if (meta.version() != kStateVersion)
    return Status::failed_precondition("the state has format " + std::to_string(meta.version()) +
                                       "; this build knows 1: use the release that wrote it");
  auto membership = raft::decode_membership(Bytes::copy_of(meta.membership()));
  if (!membership.is_ok()) return Status::data_loss("the state's membership is malformed: " + membership.status().message());
  applied_ = {Term(meta.term()), Index(meta.index()), std::move(*membership)};
  time_.cluster_time.us = meta.cluster_time_us();
  founding_ = meta.founding();
  RALLY_RETURN_IF_ERROR(tree_.load(*engine_));
  RALLY_RETURN_IF_ERROR(sessions_.load(*engine_));
  Status damage;
  RALLY_RETURN_IF_ERROR(engine_->scan(rows::kMember, rows::end_of(rows::kMember), [&](auto key, auto value) {
    pb::MemberAttributes member;
    if (key.size() != rows::kMember.size() + 8 || !member.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
      damage = Status::data_loss("a member row of the state is malformed");
      return false;
    }
    attributes_[NodeId(rows::number_of(key))] = {member.name(), {member.client_urls().begin(), member.client_urls().end()}};
    return true;
  }));
  return damage;
}

Status StateMachine::apply(const raft::Entry& entry, Effects& effects) {
  RALLY_CHECK(entry.index == applied_.index + 1, "entry", entry.index, "applied", applied_.index);
  if (entry.kind == raft::EntryKind::kCommand) {
    const size_t marks = effects.digest_marks.size();
    RALLY_RETURN_IF_ERROR(apply_commands(entry, effects));
    for (size_t i = marks; i < effects.digest_marks.size(); ++i) effects.digest_marks[i].digest = running_digest();
  } else if (entry.kind == raft::EntryKind::kMembership) {
    auto membership = raft::decode_membership(entry.payload);
    if (!membership.is_ok()) return Status::data_loss("membership entry is malformed: " + membership.status().message());
    if (entry.index == Index(1))
      for (const raft::Member& voter : membership->voters) founding_ = (founding_ ^ voter.directory.value()) * 0x100000001B3 | 1;
    applied_.membership = std::move(*membership);
    effects.members_changed = true;
  }
  applied_.index = entry.index;
  applied_.term = entry.term;
  dirty_ = true;
  return Status::ok();
}

Status StateMachine::apply_commands(const raft::Entry& entry, Effects& effects) {
  auto decoded = decode_entry(entry.payload);
  if (!decoded.is_ok()) return decoded.status();
  time_.cluster_time = std::max(time_.cluster_time, decoded->time.cluster_time);
  time_.wall_unix_ns = decoded->time.wall_unix_ns;
  const v2::Clock now{time_.cluster_time, time_.wall_unix_ns};
  for (v2::EventPtr& event : tree_.expire(now)) effects.events.push_back(std::move(event));
  v3_->expire(now.cluster_time);
  for (std::string_view command : decoded->commands) RALLY_RETURN_IF_ERROR(apply_command(command, entry, now, effects));
  return Status::ok();
}

Status StateMachine::apply_command(std::string_view bytes, const raft::Entry& entry, const v2::Clock& now, Effects& effects) {
  // Whatever is wrong with a command is wrong with it on every node, so skipping it keeps them equal.
  pb::Command command;
  if (!command.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return Status::ok();
  const NodeId node(command.node());
  if (command.body_case() == pb::Command::kRegisterNode) {
    const pb::RegisterNode& registration = command.register_node();
    sessions_.register_node(node, registration.nonce(), entry.index);
    attributes_[node] = {registration.name(), {registration.client_urls().begin(), registration.client_urls().end()}};
    changed_attributes_.push_back(node);
    effects.members_changed = true;
    return Status::ok();
  }
  if (sessions_.admit(node, command.incarnation(), command.sequence(), command.low_water()) != Sessions::Verdict::kApply) return Status::ok();
  if (command.body_case() != pb::Command::kV2Write) return apply_v3(command, entry, effects);
  auto request = from_proto(command.v2_write());
  if (!request) return Status::ok();
  v2::Outcome outcome = tree_.apply(*request, now);
  if (const auto* event = std::get_if<v2::EventPtr>(&outcome)) effects.events.push_back(*event);
  effects.answers.push_back({node, command.incarnation(), command.sequence(), std::move(outcome)});
  return Status::ok();
}

Status StateMachine::apply_v3(const pb::Command& command, const raft::Entry& entry, Effects& effects) {
  const NodeId node(command.node());
  mvcc::Outcome answer;
  if (command.body_case() == pb::Command::kV3Write) {
    const pb::V3Write& write = command.v3_write();
    const auto kind = static_cast<V3WriteKind>(write.kind());
    const bool wanted = local_ == std::pair(node, command.incarnation());
    const int64_t compacted = v3_->keyspace().compacted();
    auto outcome = v3_->apply(write, {settings_.cluster_id, node.value(), entry.term.value()}, wanted, time_.cluster_time);
    if (!outcome.is_ok()) return outcome.status();
    answer = std::move(*outcome);
    if (v3_->keyspace().compacted() != compacted) effects.compacted = v3_->keyspace().compacted();
    if (kind == V3WriteKind::kLeaseGrant || kind == V3WriteKind::kLeaseRevoke) effects.leases_changed = true;
  } else if (command.body_case() == pb::Command::kLeaseExpiry) {
    RALLY_RETURN_IF_ERROR(v3_->apply(command.lease_expiry(), entry.term.value()));
    effects.leases_changed = true;
  } else if (command.body_case() == pb::Command::kLeaseCheckpoints) {
    v3_->apply(command.lease_checkpoints(), entry.term.value());
    effects.leases_changed = true;
  } else if (command.body_case() == pb::Command::kDigestReport) {
    effects.digest_marks.push_back({entry.index, 0, command.digest_report().index(), command.digest_report().digest()});
  } else {
    return Status::ok();
  }
  for (mvcc::Event& event : v3_->keyspace().take_events()) effects.v3_events.push_back(std::move(event));
  effects.answers.push_back({node, command.incarnation(), command.sequence(), std::move(answer)});
  return Status::ok();
}


Status StateMachine::write_batch() {
  if (!dirty_) return Status::ok();
  storage::WriteBatch batch;
  tree_.collect_changes(batch);
  sessions_.collect_changes(batch);
  for (NodeId node : changed_attributes_) {
    const MemberAttributes& attributes = attributes_[node];
    pb::MemberAttributes row;
    row.set_name(attributes.name);
    for (const std::string& url : attributes.client_urls) row.add_client_urls(url);
    batch.put(rows::numbered(rows::kMember, node.value()), row.SerializeAsString());
  }
  changed_attributes_.clear();
  pb::StateMeta meta;
  meta.set_version(kStateVersion);
  meta.set_index(applied_.index.value());
  meta.set_term(applied_.term.value());
  meta.set_membership(raft::encode_membership(applied_.membership).to_string());
  meta.set_cluster_time_us(time_.cluster_time.us);
  meta.set_founding(founding_);
  batch.put(std::string(rows::kMeta), meta.SerializeAsString());
  v3_->collect_changes(batch);
  dirty_ = false;
  RALLY_RETURN_IF_ERROR(engine_->write(batch));
  v3_->changes_written();
  return Status::ok();
}

Status StateMachine::compact_slice(size_t rows_max) {
  auto more = v3_->keyspace().compact_slice(rows_max);
  if (!more.is_ok()) return more.status();
  if (!*more) return Status::ok();
  dirty_ = true;
  return write_batch();
}

Result<Index> StateMachine::persisted_index() const {
  auto row = engine_->get_persisted(rows::kMeta);
  if (!row.is_ok()) return row.status();
  if (!row->has_value()) return Index();
  pb::StateMeta meta;
  if (!meta.ParseFromString(**row)) return Status::data_loss("the state's meta row is malformed");
  return Index(meta.index());
}

uint64_t StateMachine::digest() const { return tree_.digest() * 1000003 + running_digest(); }

uint64_t StateMachine::running_digest() const {
  uint64_t sum = (tree_.index() * 31 + sessions_.digest()) * 31 + v3_->digest();
  for (const auto& [node, attributes] : attributes_) sum = sum * 1000003 + node.value() + crc32c(0, attributes.name);
  return sum;
}

}  // namespace rallypoint::server
