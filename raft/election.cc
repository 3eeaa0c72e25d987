#include "raft/election.h"

#include <algorithm>

#include "raft/membership_change.h"
#include "raft/quorum.h"
#include "raft/replication.h"

namespace rallypoint::raft::election {
namespace {

using trace::ElectionReason;
using trace::RefusalReason;

/// All voters of a blank cluster are unbound, and this is one of them.
bool is_first_election(const CoreState& state) {
  if (!state.is_blank()) return false;
  const Membership& membership = state.membership();
  for (const Member& voter : membership.voters)
    if (!voter.directory.is_zero()) return false;
  return find_in(membership.voters, state.config.id) != nullptr && !is_joint(membership);
}

/// A voter of a membership before the one in its log, which is not known to be committed, must still campaign
/// (thesis 4.2.2): it may hold the only log that is new enough to win. Its own vote does not count, and it
/// steps down once that membership is committed. After a restart little is known to be committed, so any
/// membership that may still be in force will do.
bool is_needed_once_more(const CoreState& state) {
  const Index commit = state.log.commit();
  if (state.memberships.current_index() <= commit) return false;
  return state.memberships.any_since(commit, [&](const Membership& membership) {
    const Member* self =
        is_voter(membership, state.config.id) ? find_member(membership, state.config.id) : nullptr;
    return self != nullptr && CoreState::counts(*self, state.config.directory);
  });
}

constexpr Ticks kHastyTries = 5;

bool may_campaign(const CoreState& state) {
  // A log that is about to be replaced by a snapshot is no ground to stand on, nor is a disk that does not
  // write.
  if (state.snapshots.installing || state.disk_stalled()) return false;
  return state.is_bound_voter() || is_needed_once_more(state) || is_first_election(state);
}

bool is_lowest_voter(const CoreState& state) {
  return state.membership().voters.front().id == state.config.id;
}

void record(CoreState& state, const ElectionState::Ballot& ballot) {
  for (ElectionState::Ballot& known : state.election.ballots) {
    if (known.voter != ballot.voter) continue;
    known = ballot;
    return;
  }
  state.election.ballots.push_back(ballot);
}

quorum::Vote count(const CoreState& state) {
  const ElectionState& election = state.election;
  auto vote_of = [&](const Member& member) -> std::optional<bool> {
    for (const ElectionState::Ballot& ballot : election.ballots) {
      if (ballot.voter != member.id) continue;
      if (election.blank) return ballot.granted && ballot.blank;
      // The word of another disk is no word of this member, yes or no.
      if (!CoreState::counts(member, ballot.directory)) return std::nullopt;
      return ballot.granted;
    }
    return std::nullopt;
  };
  const Membership& membership = state.membership();
  if (election.blank && !RALLY_PLANTED_BUG(kBlankElectionByMajority))
    return quorum::ballot_of(membership.voters, vote_of, membership.voters.size());
  return quorum::ballot(membership, vote_of, RALLY_PLANTED_BUG(kElectOnMinority) ? 1 : 0);
}

template <class Visit>
void for_each_other_voter(const CoreState& state, const Visit& visit) {
  const Membership& membership = state.membership();
  for (const Member& member : membership.voters)
    if (member.id != state.config.id) visit(member);
  for (const Member& member : membership.outgoing)
    if (member.id != state.config.id && find_in(membership.voters, member.id) == nullptr) visit(member);
}

void ask_for_votes(CoreState& state, bool pre_vote) {
  const Term asked = pre_vote ? state.term + 1 : state.term;
  for_each_other_voter(state, [&](const Member& member) {
    state.send_in(asked, member.id,
                  VoteRequest{state.log.last_id(), pre_vote, state.election.transfer, state.is_blank(),
                              state.election.blank ? DirectoryId() : member.directory});
  });
}

void become_leader(CoreState& state) {
  std::optional<Membership> binding;
  if (state.election.blank) {
    binding = state.membership();
    for (Member& voter : binding->voters)
      for (const ElectionState::Ballot& ballot : state.election.ballots)
        if (ballot.voter == voter.id && ballot.granted) voter.directory = ballot.directory;
  }
  state.role = Role::kLeader;
  state.election.ballots.clear();
  state.set_leader(state.config.id);
  state.trace(trace::BecameLeader{state.term, state.log.last_index()});
  replication::start_leading(state, std::move(binding));
}

void start_election(CoreState& state) {
  state.set_vote(state.term + 1, state.config.id);
  state.set_leader(NodeId());
  state.role = Role::kCandidate;
  state.election.ballots.clear();
  state.election.vote_after = state.barrier();
  state.trace(trace::ElectionStarted{state.term, state.election.reason});
}

void evaluate(CoreState& state) {
  switch (count(state)) {
    case quorum::Vote::kPending:
      return;
    case quorum::Vote::kLost:
      return state.become_follower(state.term, NodeId());
    case quorum::Vote::kWon:
      break;
  }
  if (state.role == Role::kPreCandidate) return start_election(state);
  become_leader(state);
}

void start_pre_vote(CoreState& state, ElectionReason reason) {
  reset_timer(state);
  state.set_leader(NodeId());
  state.role = Role::kPreCandidate;
  state.election.blank = is_first_election(state);
  state.election.transfer = false;
  state.election.reason = state.election.blank ? ElectionReason::kFirstElection : reason;
  state.election.ballots.clear();
  state.election.vote_after = WriteNumber();
  state.trace(trace::PreVoteStarted{state.term + 1, state.election.reason});
  record(state, {state.config.id, state.config.directory, true, state.is_blank()});
  ask_for_votes(state, true);
  evaluate(state);
}

bool leader_is_alive(const CoreState& state) {
  if (RALLY_PLANTED_BUG(kNoStickiness)) return false;
  if (state.role == Role::kLeader) return true;
  return !state.leader.is_zero() && state.election.elapsed < state.config.election_ticks;
}

/// Why a candidate whose term is not old gets no vote; the term rules have been applied.
std::optional<RefusalReason> reason_to_refuse(const CoreState& state, const Message& message,
                                              const VoteRequest& request) {
  if (!request.expected_directory.is_zero() && request.expected_directory != state.config.directory &&
      !RALLY_PLANTED_BUG(kIgnoreDirectory))
    return RefusalReason::kWrongDirectory;
  const Member* candidate = find_member(state.membership(), message.from);
  if (candidate != nullptr && !candidate->directory.is_zero() &&
      !CoreState::counts(*candidate, message.from_directory) && request.last <= state.log.last_id())
    return RefusalReason::kWrongDirectory;
  if (request.blank && !state.is_blank()) return RefusalReason::kNotBlank;
  if (request.last < state.log.last_id() && !RALLY_PLANTED_BUG(kVoteWithoutLogCheck))
    return RefusalReason::kLogBehind;
  if (request.pre_vote) {
    // Two that ask at once would split the votes that follow: of two equal logs the lower id goes on.
    const bool rival = state.role == Role::kPreCandidate && message.term == state.term + 1 &&
                       request.last == state.log.last_id();
    if (rival && state.config.id < message.from) return RefusalReason::kVotedAlready;
    return std::nullopt;
  }
  if (RALLY_PLANTED_BUG(kVoteTwiceInTerm) && state.role != Role::kLeader) return std::nullopt;
  if (!state.vote.is_zero() && state.vote != message.from) return RefusalReason::kVotedAlready;
  if (!state.leader.is_zero()) return RefusalReason::kLeaderAlive;
  return std::nullopt;
}

}  // namespace

void reset_timer(CoreState& state) {
  ElectionState& election = state.election;
  election.elapsed = 0;
  election.timeout =
      state.config.election_ticks + static_cast<Ticks>(state.random.below(state.config.election_ticks));
  election.reason = ElectionReason::kTimeout;
  if (!state.leader.is_zero()) election.hasty_tries = 0;
  if (election.hasty_tries > 0) {
    --election.hasty_tries;
    const Ticks soon = 3 + static_cast<Ticks>(state.random.below(6));
    election.timeout = std::min(election.timeout, soon);
    election.reason = ElectionReason::kLeaderGone;
  }
  // One node of a blank cluster goes first, and soon: all must agree, so there is nothing to win by waiting.
  // But each try that fails doubles the wait: where answers take longer than two ticks (a slow disk, a long
  // way), tries in quick succession would void each other for ever.
  if (state.leader.is_zero() && is_first_election(state) && is_lowest_voter(state)) {
    const Ticks soon = (1 + static_cast<Ticks>(state.random.below(2)))
                       << std::min<Ticks>(election.first_tries++, 16);
    election.timeout = std::min(election.timeout, soon);
  }
}

void start(CoreState& state) {
  reset_timer(state);
  const Membership& membership = state.membership();
  if (membership.voters.size() == 1 && !is_joint(membership) && may_campaign(state))
    start_pre_vote(state, ElectionReason::kSingleVoter);
}

void on_tick(CoreState& state) {
  ElectionState& election = state.election;
  if (++election.elapsed < election.timeout) return;
  if (may_campaign(state)) return start_pre_vote(state, election.reason);
  // Who may not campaign only notices that nobody leads.
  if (state.role != Role::kFollower || !state.leader.is_zero())
    return state.become_follower(state.term, NodeId());
  reset_timer(state);
}

void on_leader_gone(CoreState& state, const LeaderGone& event) {
  if (state.role != Role::kFollower || event.node != state.leader || event.term != state.term ||
      event.node == state.config.id || event.node.is_zero())
    return;
  state.trace(trace::LeaderForgotten{state.leader, state.term});
  state.set_leader(NodeId());
  state.election.hasty_tries = kHastyTries;
  // A short random wait: all followers hear of it at once, and only one needs to ask.
  const Ticks delay = static_cast<Ticks>(state.random.below(3));
  state.election.reason = ElectionReason::kLeaderGone;
  if (delay == 0 && may_campaign(state)) return start_pre_vote(state, ElectionReason::kLeaderGone);
  state.election.timeout = state.election.elapsed + (delay == 0 ? 1 : delay);
}

void on_vote_request(CoreState& state, const Message& message, const VoteRequest& request) {
  auto refuse = [&](RefusalReason reason) {
    state.trace(trace::VoteRefused{message.from, message.term, request.pre_vote, reason});
    state.send(message.from, VoteReply{request.pre_vote, false, state.is_blank()});
  };
  if (state.role == Role::kLeader)
    membership_change::note_directory(state, message.from, message.from_directory, request.blank);
  if (message.term < state.term || (request.pre_vote && message.term == state.term))
    return refuse(RefusalReason::kOldTerm);
  if (!request.transfer && leader_is_alive(state)) return refuse(RefusalReason::kLeaderAlive);
  if (state.term < message.term && (!request.pre_vote || RALLY_PLANTED_BUG(kPreVoteAdoptsTerm)))
    state.become_follower(message.term, NodeId());
  if (const auto reason = reason_to_refuse(state, message, request)) return refuse(*reason);

  state.trace(trace::VoteGranted{message.from, message.term, request.pre_vote});
  const VoteReply grant{request.pre_vote, true, state.is_blank()};
  if (request.pre_vote) {
    if (state.role == Role::kPreCandidate) state.become_follower(state.term, NodeId());
    return state.send_in(message.term, message.from, grant);
  }
  if (state.vote != message.from) state.set_vote(state.term, message.from);
  state.election.elapsed = 0;
  if (RALLY_PLANTED_BUG(kVoteBeforePersisted)) return state.send(message.from, grant);
  state.send_when_durable(message.from, grant);
}

void on_vote_reply(CoreState& state, const Message& message, const VoteReply& reply) {
  if (reply.pre_vote) {
    if (state.role != Role::kPreCandidate) return;
    if (reply.granted && message.term != state.term + 1) return;
  } else if (state.role != Role::kCandidate || message.term != state.term) {
    return;
  }
  if (!is_voter(state.membership(), message.from)) return;
  record(state, {message.from, message.from_directory, reply.granted, reply.blank});
  evaluate(state);
}

void on_timeout_now(CoreState& state, const Message& message) {
  if (state.role != Role::kFollower || message.from != state.leader || !may_campaign(state)) return;
  reset_timer(state);
  state.election.blank = false;
  state.election.transfer = true;
  state.election.reason = ElectionReason::kTransfer;
  start_election(state);
}

void on_persisted(CoreState& state) {
  ElectionState& election = state.election;
  if (state.role != Role::kCandidate || election.vote_after.is_zero() ||
      state.writes.persisted() < election.vote_after)
    return;
  election.vote_after = WriteNumber();
  record(state, {state.config.id, state.config.directory, true, state.is_blank()});
  ask_for_votes(state, false);
  evaluate(state);
}

}  // namespace rallypoint::raft::election
