#include "raft/core_state.h"

#include <algorithm>

#include "raft/election.h"

namespace rallypoint::raft {

CoreState::CoreState(Config config_in, uint64_t seed, Observer* observer_in)
    : config(std::move(config_in)), observer(observer_in), random(seed), forwarded(random.next()) {}

const Membership& CoreState::membership() const {
  if (RALLY_PLANTED_BUG(kMembershipCountsAtCommit) && memberships.current_index() > Index(1))
    return memberships.at(std::max({log.commit(), log.base().index, Index(1)}));
  return memberships.current();
}

bool CoreState::is_bound() const {
  const Member* self = find_member(membership(), config.id);
  return self != nullptr && counts(*self, config.directory);
}

bool CoreState::is_bound_voter() const {
  return is_voter(membership(), config.id) && is_bound();
}

Progress* CoreState::find_follower(NodeId id) {
  if (!leading.has_value()) return nullptr;
  for (Progress& follower : leading->followers)
    if (follower.id == id) return &follower;
  return nullptr;
}

void CoreState::send_in(Term message_term, NodeId to, Message::Body body) {
  output.messages.push_back({config.id, to, message_term, config.directory, std::move(body)});
}

WriteNumber CoreState::barrier() const {
  const bool open =
      hard_state_dirty || log.has_unwritten() || snapshots.chunk.has_value() || snapshots.compact_dirty;
  return open ? writes.last() + 1 : writes.last();
}

void CoreState::send_when_durable(NodeId to, Message::Body body) {
  const WriteNumber after = barrier();
  if (after <= writes.persisted()) return send(to, std::move(body));
  writes.hold(after, {config.id, to, term, config.directory, std::move(body)});
}

void CoreState::set_vote(Term new_term, NodeId new_vote) {
  RALLY_CHECK(term <= new_term, "node", config.id, "term", term, "new", new_term);
  if (term < new_term) {
    writes.drop_held();
    matched = Index();
  }
  term = new_term;
  vote = new_vote;
  hard_state_dirty = true;
}

void CoreState::set_leader(NodeId new_leader) {
  if (leader == new_leader) return;
  leader = new_leader;
  for (uint64_t id : forwarded.take_all())
    output.reads.push_back({id, Status::unavailable("the leader changed; ask again"), Index()});
}

void CoreState::become_follower(Term new_term, NodeId new_leader) {
  const bool changed = role != Role::kFollower || term != new_term || leader != new_leader;
  const Term old_term = term;
  if (leading.has_value() && term < new_term)
    trace(trace::SteppedDown{term, trace::StepDownReason::kHigherTerm});
  if (term < new_term) set_vote(new_term, NodeId());
  if (leading.has_value()) leave_leadership();
  role = Role::kFollower;
  if (old_term != term) set_leader(NodeId());
  set_leader(new_leader);
  election.ballots.clear();
  election.vote_after = WriteNumber();
  election::reset_timer(*this);
  if (changed) trace(trace::BecameFollower{term, leader});
}

void CoreState::leave_leadership() {
  const Status lost = Status::unavailable("leadership was lost; ask again");
  for (const LeaderRead& read : leading->reads.take_all()) {
    if (read.from == config.id)
      output.reads.push_back({read.id, lost, Index()});
    else
      send(read.from, ReadIndexReply{read.id, false, Index()});
  }
  if (leading->change.has_value() && leading->change->tag.has_value())
    output.membership_results.push_back(
        {*leading->change->tag,
         Status::outcome_unknown("leadership was lost before the change was committed")});
  if (leading->transfer.has_value()) {
    trace(trace::TransferEnded{leading->transfer->to, true});
    output.transfer_results.push_back({Status::ok()});
  }
  leading.reset();
  leader = NodeId();
}

void CoreState::append(Entry entry, std::optional<Membership> membership) {
  const Index index = entry.index;
  log.append(std::move(entry));
  if (!membership.has_value()) return;
  trace(trace::MembershipApplied{index, *membership});
  memberships.append(index, std::move(*membership));
}

void CoreState::truncate_from(Index from) {
  trace(trace::LogTruncated{from, log.last_index()});
  log.truncate_from(from);
  writes.truncate_from(from);
  if (RALLY_PLANTED_BUG(kMembershipNotRolledBack) && memberships.current_index() >= from) return;
  if (memberships.truncate_from(from))
    trace(trace::MembershipRolledBack{memberships.current_index(), memberships.current()});
}

}  // namespace rallypoint::raft
