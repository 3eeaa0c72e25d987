#include "raft/core.h"

#include <algorithm>

#include "raft/core_state.h"
#include "raft/election.h"
#include "raft/following.h"
#include "raft/membership_change.h"
#include "raft/replication.h"
#include "raft/snapshotting.h"
#include "raft/transfer.h"

namespace rallypoint::raft {
namespace {

bool is_from_leader(const Message::Body& body) {
  return std::holds_alternative<AppendRequest>(body) || std::holds_alternative<Heartbeat>(body) ||
         std::holds_alternative<InstallSnapshot>(body);
}

bool is_answer(const Message::Body& body) {
  return std::holds_alternative<VoteReply>(body) || std::holds_alternative<AppendReply>(body) ||
         std::holds_alternative<HeartbeatReply>(body) || std::holds_alternative<InstallSnapshotReply>(body);
}

/// A message of an older term. Its sender must learn that its time is over, or it could wait for ever.
void answer_old_term(CoreState& state, const Message& message) {
  const bool blank = !state.is_bound();
  if (const auto* append = std::get_if<AppendRequest>(&message.body))
    state.send(message.from, AppendReply{false, Index(), append->previous.index, {}, blank});
  else if (is_from_leader(message.body))
    state.send(message.from, HeartbeatReply{0, state.log.durable(), blank});
  else if (const auto* read = std::get_if<ReadIndexRequest>(&message.body))
    state.send(message.from, ReadIndexReply{read->id, false, Index()});
}

/// The term rules (paper 5.1). True if the message belongs to the current term now.
bool apply_term_rules(CoreState& state, const Message& message) {
  if (const auto* reply = std::get_if<VoteReply>(&message.body))
    if (reply->pre_vote && reply->granted) return true;  // speaks of a term that nobody has entered yet
  // Strangers' answers move nothing: a node that was removed must not disturb.
  if (is_answer(message.body) && find_member(state.membership(), message.from) == nullptr) return false;
  if (message.term < state.term) {
    if (RALLY_PLANTED_BUG(kOldTermAccepted) && std::holds_alternative<AppendRequest>(message.body) &&
        state.role != Role::kLeader)
      return true;
    answer_old_term(state, message);
    return false;
  }
  if (state.term < message.term)
    state.become_follower(message.term, is_from_leader(message.body) ? message.from : NodeId());
  return true;
}

void on_message(CoreState& state, Message message) {
  if (message.to != state.config.id || message.from == state.config.id || message.from.is_zero()) return;
  if (const auto* request = std::get_if<VoteRequest>(&message.body))
    return election::on_vote_request(state, message, *request);
  if (!apply_term_rules(state, message)) return;

  if (auto* append = std::get_if<AppendRequest>(&message.body))
    return following::on_append(state, message, std::move(*append));
  if (auto* install = std::get_if<InstallSnapshot>(&message.body))
    return snapshotting::on_install(state, message, std::move(*install));
  if (const auto* heartbeat = std::get_if<Heartbeat>(&message.body))
    return following::on_heartbeat(state, message, *heartbeat);
  if (const auto* reply = std::get_if<VoteReply>(&message.body))
    return election::on_vote_reply(state, message, *reply);
  if (const auto* reply = std::get_if<ReadIndexReply>(&message.body))
    return following::on_read_index_reply(state, message, *reply);
  if (std::holds_alternative<TimeoutNow>(message.body)) return election::on_timeout_now(state, message);

  if (state.role != Role::kLeader) {
    if (const auto* read = std::get_if<ReadIndexRequest>(&message.body))
      state.send(message.from, ReadIndexReply{read->id, false, Index()});
    return;
  }
  if (const auto* reply = std::get_if<AppendReply>(&message.body))
    replication::on_append_reply(state, message, *reply);
  else if (const auto* reply = std::get_if<HeartbeatReply>(&message.body))
    replication::on_heartbeat_reply(state, message, *reply);
  else if (const auto* reply = std::get_if<InstallSnapshotReply>(&message.body))
    snapshotting::on_reply(state, message, *reply);
  else if (const auto* read = std::get_if<ReadIndexRequest>(&message.body))
    replication::read(state, message.from, read->id);
}

void on_persisted(CoreState& state, WriteNumber number) {
  for (WriteTracker::Done& done : state.writes.persisted_to(number)) {
    if (done.durable.has_value()) state.log.durable_to(*done.durable);
    if (done.installed.has_value()) snapshotting::installed(state, std::move(*done.installed));
  }
  state.writes.release(state.output.messages);
  election::on_persisted(state);
  if (state.role == Role::kLeader) replication::maybe_commit(state);
}

/// One write for everything that changed since the last hand-over.
void take_write(CoreState& state) {
  SnapshotState& snapshots = state.snapshots;
  if (!state.hard_state_dirty && !state.log.has_unwritten() && !snapshots.chunk.has_value() &&
      !snapshots.compact_dirty)
    return;
  Write write;
  if (state.hard_state_dirty) write.hard_state = HardState{state.term, state.vote, state.log.deliverable()};
  write.entries = state.log.take_unwritten();
  if (snapshots.compact_dirty) {
    const EntryId base = state.log.base();
    write.compact_to = SnapshotMeta{base.term, base.index, state.memberships.at(base.index)};
  }
  std::optional<SnapshotMeta> installs;
  if (snapshots.chunk.has_value() && snapshots.chunk->last) installs = snapshots.chunk->meta;
  write.chunk = std::move(snapshots.chunk);
  const Index last = write.entries.empty() ? Index() : write.entries.back().index;
  write.number = state.writes.hand_over(last, state.now, std::move(installs));
  state.hard_state_dirty = false;
  snapshots.compact_dirty = false;
  snapshots.chunk.reset();
  state.output.writes.push_back(std::move(write));
}

struct Dispatch {
  CoreState& state;

  void operator()(MessageReceived& event) const { on_message(state, std::move(event.message)); }
  void operator()(Propose& event) const { replication::propose(state, std::move(event)); }
  void operator()(const Read& event) const {
    if (state.role == Role::kLeader)
      replication::read(state, state.config.id, event.id);
    else
      following::read(state, event.id);
  }
  void operator()(const Persisted& event) const { on_persisted(state, event.number); }
  void operator()(const Applied& event) const {
    RALLY_CHECK(event.index <= state.delivered, "applied", event.index, "delivered", state.delivered);
    state.applied = std::max(state.applied, event.index);
  }
  void operator()(const LeaderGone& event) const { election::on_leader_gone(state, event); }
  void operator()(SnapshotReady& event) const { snapshotting::on_ready(state, std::move(event)); }
  void operator()(SnapshotBytes& event) const { snapshotting::on_bytes(state, std::move(event)); }
  void operator()(const Compact& event) const { snapshotting::on_compact(state, event.index); }
  void operator()(ChangeMembership& event) const { membership_change::change(state, std::move(event)); }
  void operator()(const TransferLeadership& event) const { transfer::start(state, event.to); }
};

}  // namespace

Core::Core(Config config, uint64_t seed, RestoredState restored, Observer* observer) {
  RALLY_CHECK(config.validate().is_ok(), "status", config.validate());
  state_ = std::make_unique<CoreState>(std::move(config), seed, observer);
  CoreState& state = *state_;
  SnapshotMeta& start = restored.snapshot;
  state.term = restored.hard_state.term;
  state.vote = restored.hard_state.vote;
  state.memberships.reset(start.index, std::move(start.membership));
  for (const Entry& entry : restored.entries) {
    if (entry.kind != EntryKind::kMembership) continue;
    auto membership = decode_membership(entry.payload);
    RALLY_CHECK(membership.is_ok(), "index", entry.index, "status", membership.status());
    state.memberships.append(entry.index, std::move(membership).value());
  }
  state.log.restore({start.term, start.index}, std::move(restored.entries));
  RALLY_CHECK(state.log.last_id().term <= state.term, "last", state.log.last_id().term, "term", state.term);
  RALLY_CHECK(restored.applied <= state.log.last_index(), "applied", restored.applied, "last",
              state.log.last_index());
  state.applied = state.delivered = std::max(restored.applied, start.index);
  state.log.commit_to(std::max(state.applied, std::min(restored.hard_state.commit, state.log.last_index())));
  state.soft_told = soft_state();
  election::start(state);
}

Core::~Core() = default;

void Core::step(Event event) {
  std::visit(Dispatch{*state_}, event);
}

void Core::tick() {
  ++state_->now;
  if (state_->role == Role::kLeader)
    replication::on_tick(*state_);
  else
    following::on_tick(*state_);
}

Output Core::take_output() {
  CoreState& state = *state_;
  if (state.role == Role::kLeader) replication::flush(state);
  take_write(state);
  Output& output = state.output;
  const Index deliverable = state.log.deliverable();
  if (state.delivered < deliverable) {
    output.committed = state.log.copy(state.delivered + 1, deliverable);
    state.delivered = deliverable;
  }
  const SoftState soft = soft_state();
  if (soft != state.soft_told) output.soft_state = state.soft_told = soft;
  return std::exchange(output, Output());
}

SoftState Core::soft_state() const {
  return {state_->role, state_->term, state_->leader};
}
Index Core::commit() const {
  return state_->log.commit();
}
Index Core::last_index() const {
  return state_->log.last_index();
}
Index Core::first_index() const {
  return state_->log.first_index();
}
const Membership& Core::membership() const {
  return state_->membership();
}

const char* role_name(Role role) {
  switch (role) {
    case Role::kFollower:
      return "follower";
    case Role::kPreCandidate:
      return "pre-candidate";
    case Role::kCandidate:
      return "candidate";
    case Role::kLeader:
      return "leader";
  }
  return "?";
}

const char* message_name(const Message& message) {
  static constexpr const char* kNames[] = {
      "VoteRequest",      "VoteReply",      "AppendRequest",   "AppendReply",
      "Heartbeat",        "HeartbeatReply", "InstallSnapshot", "InstallSnapshotReply",
      "ReadIndexRequest", "ReadIndexReply", "TimeoutNow"};
  static_assert(std::size(kNames) == std::variant_size_v<Message::Body>);
  return kNames[message.body.index()];
}

}  // namespace rallypoint::raft
