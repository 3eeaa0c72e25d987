// Election: when to campaign, whom to vote for, and how votes are counted.
//
// Every campaign begins with a pre-vote (thesis 9.6): would a majority vote for me? Nothing is written and no
// term moves until it would, so a node that comes back after a partition disturbs nobody. A voter that heard
// from a live leader within the election time-out refuses (thesis 4.2.3), unless that leader itself handed
// over.
//
// Votes belong to disks. A vote counts if it comes from the directory that the candidate's membership binds
// to the voter; a voter refuses a candidate whose directory differs from the bound one, unless the
// candidate's log is newer than its own and so may hold the membership that binds it.
//
// The first election of a blank cluster, where nothing is bound yet, needs the votes of *all* bootstrap
// voters, each from a log that never held an entry. A majority would not do: if nodes A, B of A, B, C elected
// and committed, then a wiped A and a never started C would be a majority of blanks and elect a second first
// leader, who knows nothing of what was committed. The winner's first entry binds the directories that voted;
// so a log is either empty or begins with a membership in which every voter is bound.
#pragma once

#include "raft/core_state.h"

namespace rallypoint::raft::election {

/// Draws a new time-out and starts to wait for it.
void reset_timer(CoreState& state);
/// At construction: the only voter need not wait for anybody.
void start(CoreState& state);
/// A node that does not lead counts a tick.
void on_tick(CoreState& state);
void on_leader_gone(CoreState& state, const LeaderGone& event);
/// Comes before the term rules: it has its own (a refused candidate's term is not taken over).
void on_vote_request(CoreState& state, const Message& message, const VoteRequest& request);
void on_vote_reply(CoreState& state, const Message& message, const VoteReply& reply);
void on_timeout_now(CoreState& state, const Message& message);
/// Writes became durable: perhaps the own vote.
void on_persisted(CoreState& state);

}  // namespace rallypoint::raft::election
