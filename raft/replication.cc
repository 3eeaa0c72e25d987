#include "raft/replication.h"

#include <algorithm>

#include "raft/membership_change.h"
#include "raft/quorum.h"
#include "raft/snapshotting.h"
#include "raft/transfer.h"

namespace rallypoint::raft::replication {
namespace {

bool committed_in_term(const CoreState& state) {
  return state.leading->first_of_term <= state.log.commit();
}

void set_mode(CoreState& state, Progress& follower, Progress::Mode mode) {
  const bool changed = follower.mode != mode;
  switch (mode) {
    case Progress::Mode::kProbe:
      follower.become_probe();
      break;
    case Progress::Mode::kReplicate:
      follower.become_replicate();
      break;
    case Progress::Mode::kSnapshot:
      follower.become_snapshot();
      break;
  }
  if (changed) state.trace(trace::ProgressChanged{follower.id, mode_name(mode), follower.next});
}

Index commit_for(const CoreState& state, const Progress& follower) {
  return RALLY_PLANTED_BUG(kHeartbeatCommitUnbounded) ? state.log.commit()
                                                      : std::min(follower.match, state.log.commit());
}

void send_heartbeat(CoreState& state, Progress& follower, uint64_t round) {
  const Index commit = commit_for(state, follower);
  follower.commit_sent = std::max(follower.commit_sent, commit);
  state.send(follower.id, Heartbeat{commit, round});
}

void broadcast_heartbeat(CoreState& state) {
  Leadership& leading = *state.leading;
  if (leading.reads.wants_round()) leading.reads.begin_round();
  leading.heartbeat_elapsed = 0;
  for (Progress& follower : leading.followers) send_heartbeat(state, follower, leading.reads.round());
}

/// Sends one append from follower.next on; requires that the entry before it is here.
void send_append(CoreState& state, Progress& follower) {
  const Config& config = state.config;
  const Index previous = follower.next - 1;
  AppendRequest request;
  request.previous = {*state.log.term_at(previous), previous};
  Index last = previous;
  size_t bytes = 0;
  while (last < state.log.last_index() && last - previous < config.append_entries_max) {
    const size_t size = state.log.at(last + 1).payload.size();
    if (last != previous && bytes + size > config.append_bytes_max) break;
    bytes += size;
    ++last;
  }
  request.entries = state.log.copy(follower.next, last);
  request.commit = state.log.commit();
  follower.commit_sent = std::max(follower.commit_sent, std::min(request.commit, last));
  follower.sent(last, bytes);
  state.send(follower.id, std::move(request));
}

/// Sends all that may go to one follower now.
void feed(CoreState& state, Progress& follower) {
  while (follower.mode != Progress::Mode::kSnapshot && follower.may_send(state.config)) {
    if (follower.mode == Progress::Mode::kReplicate && state.log.last_index() < follower.next) break;
    if (follower.next < state.log.first_index()) {
      set_mode(state, follower, Progress::Mode::kSnapshot);
      snapshotting::serve(state, follower);
      break;
    }
    send_append(state, follower);
  }
}

void answer_reads(CoreState& state) {
  Leadership& leading = *state.leading;
  const Membership& membership = state.membership();
  auto round_of = [&](const Member& member) -> uint64_t {
    if (member.id == state.config.id)
      return CoreState::counts(member, state.config.directory) ? UINT64_MAX : 0;
    const Progress* follower = state.find_follower(member.id);
    return follower != nullptr && CoreState::counts(member, follower->directory) ? follower->round : 0;
  };
  const size_t fewer = RALLY_PLANTED_BUG(kReadQuorumIsOne) && membership.voters.size() > 1 ? 1 : 0;
  uint64_t confirmed = quorum::agreed_value<uint64_t>(membership, round_of, fewer);
  if (RALLY_PLANTED_BUG(kReadWithoutRound)) confirmed = UINT64_MAX;
  for (const LeaderRead& read : leading.reads.take_confirmed(confirmed)) {
    if (read.from == state.config.id)
      state.output.reads.push_back({read.id, Status::ok(), read.index});
    else
      state.send(read.from, ReadIndexReply{read.id, true, read.index});
  }
}

void append_own(CoreState& state, EntryKind kind, Bytes payload,
                std::optional<Membership> membership = std::nullopt) {
  state.leading->uncommitted_bytes += payload.size();
  state.append({state.term, state.log.last_index() + 1, kind, std::move(payload)}, std::move(membership));
  state.matched = state.log.last_index();
}

}  // namespace

void start_leading(CoreState& state, std::optional<Membership> binding) {
  Leadership& leading = state.leading.emplace();
  for (Index i = state.log.commit() + 1; i <= state.log.last_index(); ++i)
    leading.uncommitted_bytes += state.log.at(i).payload.size();
  leading.first_of_term = state.log.last_index() + 1;
  follow_members(state);
  if (binding.has_value()) {
    state.trace(trace::DirectoriesBound{leading.first_of_term});
    append_membership(state, std::move(*binding));
  } else {
    append_own(state, EntryKind::kNoop, Bytes());
  }
  broadcast_heartbeat(state);
}

void follow_members(CoreState& state) {
  Leadership& leading = *state.leading;
  const Membership& membership = state.membership();
  std::vector<Member> members = membership.voters;
  for (const Member& member : membership.outgoing) put_in(members, member);
  for (const Member& member : membership.learners) put_in(members, member);
  drop_from(members, state.config.id);
  std::vector<Progress> followers;
  followers.reserve(members.size());
  for (const Member& member : members) {
    Progress* known = state.find_follower(member.id);
    // An unbound learner keeps the disk that it was first heard from; a membership may bind just that one.
    if (known != nullptr &&
        (known->directory == member.directory || member.directory.is_zero() || known->directory.is_zero())) {
      followers.push_back(std::move(*known));
      if (!member.directory.is_zero()) followers.back().directory = member.directory;
    } else {
      followers.emplace_back(member, state.log.last_index() + 1);
    }
  }
  leading.followers = std::move(followers);
  std::erase_if(leading.strangers, [&](const Leadership::Stranger& stranger) {
    const Member* member = find_member(membership, stranger.id);
    return member == nullptr || member->directory == stranger.directory;
  });
}

void on_tick(CoreState& state) {
  Leadership& leading = *state.leading;
  const Config& config = state.config;
  if (state.disk_stalled()) {
    state.trace(trace::SteppedDown{state.term, trace::StepDownReason::kDiskStalled});
    return state.become_follower(state.term, NodeId());
  }
  if (++leading.quorum_elapsed >= config.election_ticks) {
    leading.quorum_elapsed = 0;
    if (!quorum_was_heard(state) && !RALLY_PLANTED_BUG(kNoCheckQuorum)) {
      state.trace(trace::SteppedDown{state.term, trace::StepDownReason::kQuorumLost});
      return state.become_follower(state.term, NodeId());
    }
    for (Progress& follower : leading.followers) follower.heard_before = std::exchange(follower.heard, false);
  }
  for (Progress& follower : leading.followers) {
    if (follower.has_under_way()) ++follower.waited;
    if (follower.transfer.has_value() && !follower.transfer->reading) ++follower.transfer->waited;
  }
  membership_change::on_tick(state);
  transfer::on_tick(state);
  if (++leading.heartbeat_elapsed >= config.heartbeat_ticks) broadcast_heartbeat(state);
}

void propose(CoreState& state, Propose event) {
  const bool leads = state.role == Role::kLeader;
  Status refusal;
  if (!leads)
    refusal = Status::unavailable("this node does not lead");
  else if (state.leading->transfer.has_value() && !RALLY_PLANTED_BUG(kTransferKeepsProposing))
    refusal = Status::unavailable("leadership is being handed over");
  for (Propose::Item& item : event.batch) {
    Status status = refusal;
    // What is alone may be of any size, or it could never be written.
    if (status.is_ok() && state.leading->uncommitted_bytes > 0 &&
        state.leading->uncommitted_bytes + item.payload.size() > state.config.uncommitted_bytes_max)
      status = Status::resource_exhausted("more than " + std::to_string(state.config.uncommitted_bytes_max) +
                                          " bytes of proposals wait to be committed; send again later");
    if (!status.is_ok()) {
      state.output.rejections.push_back(
          {item.tag, std::move(status), leads ? state.config.id : state.leader});
      continue;
    }
    append_own(state, EntryKind::kCommand, std::move(item.payload));
  }
}

Index append_membership(CoreState& state, Membership membership) {
  Bytes payload = encode_membership(membership);
  append_own(state, EntryKind::kMembership, std::move(payload), std::move(membership));
  const Index index = state.log.last_index();
  follow_members(state);
  return index;
}

void read(CoreState& state, NodeId from, uint64_t id) {
  Leadership& leading = *state.leading;
  if (leading.reads.full()) {
    if (from == state.config.id)
      state.output.reads.push_back(
          {id, Status::resource_exhausted("too many reads wait; ask again later"), Index()});
    else
      state.send(from, ReadIndexReply{id, false, Index()});
    return;
  }
  if (!committed_in_term(state) && !RALLY_PLANTED_BUG(kReadBeforeFirstCommit))
    return leading.reads.add_early(from, id);
  leading.reads.add(from, id, state.log.commit());
  answer_reads(state);  // a single voter needs no round
}

Progress* heard_from(CoreState& state, const Message& message, bool blank) {
  Progress* follower = state.find_follower(message.from);
  if (follower == nullptr || message.from_directory.is_zero()) return nullptr;
  if (follower->directory.is_zero()) follower->directory = message.from_directory;
  if (follower->directory != message.from_directory && !RALLY_PLANTED_BUG(kIgnoreDirectory)) {
    const Member* member = find_member(state.membership(), message.from);
    if (member != nullptr && member->directory.is_zero()) {
      // An unbound learner changed its disk: whatever the old one held says nothing about the new one.
      *follower = Progress({message.from, message.from_directory}, state.log.last_index() + 1);
      return follower;
    }
    membership_change::note_directory(state, message.from, message.from_directory, blank);
    return nullptr;
  }
  follower->heard = true;
  return follower;
}

void acked(CoreState& state, Progress& follower, Index match) {
  if (state.log.last_index() < match) return;  // no honest follower holds more than its leader
  const bool moved = follower.acked(match);
  if (follower.mode == Progress::Mode::kProbe) {
    set_mode(state, follower, Progress::Mode::kReplicate);
  } else if (follower.mode == Progress::Mode::kSnapshot && state.log.first_index() <= follower.match + 1) {
    set_mode(state, follower, Progress::Mode::kReplicate);
    snapshotting::transfer_ended(state);
  }
  if (!moved) return;
  const NodeId id = follower.id;
  maybe_commit(
      state);  // may change the membership or end the leadership: `follower` is not to be touched after it
  if (state.role == Role::kLeader) transfer::on_acked(state, id);
}

void on_append_reply(CoreState& state, const Message& message, const AppendReply& reply) {
  Progress* follower = heard_from(state, message, reply.blank);
  if (follower == nullptr) return;
  if (reply.accepted) return acked(state, *follower, reply.match);
  // Where the follower's log may still agree with ours: its hint, moved down to a term that we have there
  // too.
  const EntryId meet = state.log.last_not_after(reply.hint.index, reply.hint.term);
  if (follower->refused(reply.request_previous, meet.index))
    state.trace(trace::LogConflict{follower->id, reply.request_previous, reply.hint});
}

void on_heartbeat_reply(CoreState& state, const Message& message, const HeartbeatReply& reply) {
  Progress* follower = heard_from(state, message, reply.blank);
  if (follower == nullptr) return;
  Leadership& leading = *state.leading;
  if (reply.round <= leading.reads.round() && follower->round < reply.round) {
    follower->round = reply.round;
    answer_reads(state);
  }
  // It lives, but what was sent long ago is not answered: lost. (A dead follower gets heartbeats only.)
  if (follower->has_under_way() && follower->waited >= state.config.resend_ticks()) {
    set_mode(state, *follower, Progress::Mode::kProbe);
  } else if (follower->mode == Progress::Mode::kSnapshot) {
    snapshotting::resend_if_lost(state, *follower);
  }
}

void maybe_commit(CoreState& state) {
  Leadership& leading = *state.leading;
  const bool unpersisted = RALLY_PLANTED_BUG(kLeaderCountsUnpersisted);
  auto match_of = [&](const Member& member) -> Index {
    if (member.id == state.config.id) {
      if (!CoreState::counts(member, state.config.directory)) return Index();
      return unpersisted ? state.log.last_index() : state.log.durable();
    }
    const Progress* follower = state.find_follower(member.id);
    return follower != nullptr && CoreState::counts(member, follower->directory) ? follower->match : Index();
  };
  const Membership& membership = state.membership();
  Index agreed =
      quorum::agreed_value<Index>(membership, match_of, RALLY_PLANTED_BUG(kCommitOnMinority) ? 1 : 0);
  if (RALLY_PLANTED_BUG(kLearnerCounts))
    for (const Member& learner : membership.learners) agreed = std::max(agreed, match_of(learner));
  if (agreed <= state.log.commit()) return;
  if (agreed < leading.first_of_term && !RALLY_PLANTED_BUG(kCommitOldTermByCounting)) return;
  const bool first = !committed_in_term(state);
  for (Index i = state.log.commit() + 1; i <= agreed; ++i)
    leading.uncommitted_bytes -= state.log.at(i).payload.size();
  state.log.commit_to(agreed);
  state.trace(trace::CommitAdvanced{agreed});
  if (first && committed_in_term(state)) {
    leading.reads.admit_early(state.log.commit());
    answer_reads(state);
  }
  membership_change::on_commit(state);
}

void flush(CoreState& state) {
  Leadership& leading = *state.leading;
  if (leading.reads.wants_round()) broadcast_heartbeat(state);
  for (Progress& follower : leading.followers) {
    feed(state, follower);
    // A probe may still be refused, so it brings no commit news.
    if (follower.commit_sent < commit_for(state, follower)) send_heartbeat(state, follower, 0);
  }
}

namespace {
template <class Alive>
bool is_quorum_of(const CoreState& state, const Membership& membership, const Alive& alive) {
  return quorum::is_quorum(membership, [&](const Member& member) {
    if (member.id == state.config.id) return CoreState::counts(member, state.config.directory);
    for (const Progress& follower : state.leading->followers)
      if (follower.id == member.id) return alive(follower) && CoreState::counts(member, follower.directory);
    return false;
  });
}
}  // namespace

bool quorum_is_alive(const CoreState& state, const Membership& membership) {
  return is_quorum_of(state, membership, [](const Progress& follower) { return follower.is_alive(); });
}

bool quorum_was_heard(const CoreState& state) {
  return is_quorum_of(state, state.membership(), [](const Progress& follower) { return follower.heard; });
}

}  // namespace rallypoint::raft::replication
