#include "raft/following.h"

#include <algorithm>

#include "raft/election.h"

namespace rallypoint::raft::following {
namespace {

/// Contiguous, terms that a leader of `term` can hold, memberships that decode. The memberships are returned
/// in the order of their entries.
bool well_formed(const AppendRequest& request, Term term, std::vector<Membership>& memberships) {
  EntryId before = request.previous;
  if (term < before.term || before.term.is_zero() != before.index.is_zero()) return false;
  for (const Entry& entry : request.entries) {
    if (entry.index != before.index + 1 || entry.index < before.index || entry.term < before.term ||
        term < entry.term || entry.term.is_zero())
      return false;
    if (entry.kind == EntryKind::kMembership) {
      auto membership = decode_membership(entry.payload);
      if (!membership.is_ok()) return false;
      memberships.push_back(std::move(membership).value());
    }
    before = {entry.term, entry.index};
  }
  return true;
}

void commit_to(CoreState& state, Index index) {
  if (state.log.commit_to(std::min(index, state.log.last_index())))
    state.trace(trace::CommitAdvanced{state.log.commit()});
}

}  // namespace

bool accept_leader(CoreState& state, const Message& message) {
  if (state.role == Role::kLeader) return false;
  if (!state.leader.is_zero() && state.leader != message.from) return false;
  if (state.role != Role::kFollower || state.leader != message.from)
    state.become_follower(state.term, message.from);
  state.election.elapsed = 0;
  return true;
}

void on_append(CoreState& state, const Message& message, AppendRequest request) {
  if (!accept_leader(state, message)) return;
  if (state.snapshots.installing) return;  // the log is about to begin anew; the leader will ask again
  std::vector<Membership> memberships;
  if (!well_formed(request, message.term, memberships)) return;
  const bool blank = !state.is_bound();

  if (request.previous.index < state.log.base().index) {
    // All up to the commit index is equal on every node that has it (Leader Completeness).
    const Index match = state.log.commit();
    return state.send_when_durable(message.from, AppendReply{true, match, request.previous.index, {}, blank});
  }
  const bool unchecked =
      RALLY_PLANTED_BUG(kSkipPreviousCheck) && request.previous.index <= state.log.last_index() &&
      state.log.last_id().term <= (request.entries.empty() ? Term() : request.entries.front().term);
  if (!state.log.matches(request.previous) && !unchecked) {
    const EntryId hint = state.log.last_not_after(request.previous.index, request.previous.term);
    return state.send(message.from, AppendReply{false, Index(), request.previous.index, hint, blank});
  }

  // Skip what is here already; a conflict cuts the log (paper 5.3). Nothing is cut otherwise: the message may
  // be late, and what follows it here may be acked.
  const Index end = request.previous.index + request.entries.size();
  size_t skip = 0, skipped_memberships = 0;
  while (skip < request.entries.size()) {
    const Entry& entry = request.entries[skip];
    const auto term = state.log.term_at(entry.index);
    if (!term.has_value()) break;
    if (*term != entry.term) {
      if (RALLY_PLANTED_BUG(kKeepConflictingTail)) {
        skipped_memberships += entry.kind == EntryKind::kMembership;
        ++skip;
        continue;
      }
      // A leader never contradicts what is committed; whoever does is not to be followed in it.
      if (entry.index <= state.log.commit() && !RALLY_PLANTED_BUG(kTruncateCommitted)) return;
      state.truncate_from(entry.index);
      break;
    }
    skipped_memberships += entry.kind == EntryKind::kMembership;
    ++skip;
  }
  if (RALLY_PLANTED_BUG(kTruncateOnEveryAppend) && state.log.commit() < end && end < state.log.last_index())
    state.truncate_from(end + 1);
  auto next_membership = memberships.begin() + static_cast<ptrdiff_t>(skipped_memberships);
  for (size_t i = skip; i < request.entries.size(); ++i) {
    Entry& entry = request.entries[i];
    std::optional<Membership> membership;
    if (entry.kind == EntryKind::kMembership) membership = std::move(*next_membership++);
    state.append(std::move(entry), std::move(membership));
  }

  state.matched = std::max(state.matched, end);
  commit_to(state, RALLY_PLANTED_BUG(kCommitBeyondMatch) ? request.commit : std::min(request.commit, end));
  const AppendReply ack{true, end, request.previous.index, {}, !state.is_bound()};
  if (RALLY_PLANTED_BUG(kAckBeforePersisted)) return state.send(message.from, ack);
  state.send_when_durable(message.from, ack);
}

void on_heartbeat(CoreState& state, const Message& message, const Heartbeat& heartbeat) {
  if (!accept_leader(state, message)) return;
  // The leader's word on how far our log equals its own is about the disk that acked. A directory that no
  // membership binds may have taken its member's place since, so it trusts only what it compared itself.
  const Index compared =
      state.is_bound() || RALLY_PLANTED_BUG(kHeartbeatCommitUnbounded) ? heartbeat.commit : state.matched;
  if (!state.snapshots.installing) commit_to(state, std::min(heartbeat.commit, compared));
  if (heartbeat.round != 0)
    state.send(message.from, HeartbeatReply{heartbeat.round, state.log.durable(), !state.is_bound()});
}

void read(CoreState& state, uint64_t id) {
  if (state.leader.is_zero()) {
    state.output.reads.push_back({id, Status::unavailable("no leader is known; ask again"), Index()});
    return;
  }
  state.send(state.leader, ReadIndexRequest{state.forwarded.add(id)});
}

void on_read_index_reply(CoreState& state, const Message& message, const ReadIndexReply& reply) {
  if (message.from != state.leader) return;
  const auto id = state.forwarded.take(reply.id);
  if (!id.has_value()) return;
  if (reply.ok)
    state.output.reads.push_back({*id, Status::ok(), reply.index});
  else
    state.output.reads.push_back(
        {*id, Status::unavailable("the leader can't answer yet; ask again"), Index()});
}

void on_tick(CoreState& state) {
  // Requests and answers may get lost on the way.
  for (uint64_t id : state.forwarded.tick(state.config.election_ticks))
    state.output.reads.push_back({id, Status::unavailable("the leader did not answer; ask again"), Index()});
  election::on_tick(state);
}

}  // namespace rallypoint::raft::following
