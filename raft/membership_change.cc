#include "raft/membership_change.h"

#include <algorithm>

#include "raft/replication.h"
#include "raft/transfer.h"

namespace rallypoint::raft::membership_change {
namespace {

using Kind = ChangeMembership::Kind;

/// A learner this close to the end of the log will be level before its promotion commits.
constexpr uint64_t kInSyncEntries = 256;

std::string name(NodeId id) {
  return "member " + std::to_string(id.value());
}

Status may_change(const CoreState& state) {
  if (state.role != Role::kLeader) return Status::unavailable("this node does not lead");
  const Leadership& leading = *state.leading;
  if (leading.transfer.has_value()) return Status::unavailable("leadership is being handed over");
  if (state.log.commit() < leading.first_of_term && !RALLY_PLANTED_BUG(kChangeBeforeFirstCommit))
    return Status::failed_precondition("the leader has not committed an entry of its term yet; try again");
  if ((state.log.commit() < state.memberships.current_index() || is_joint(state.membership())) &&
      !RALLY_PLANTED_BUG(kTwoMembershipChanges))
    return Status::failed_precondition("another membership change is under way; try again");
  return Status::ok();
}

bool in_sync(const CoreState& state, NodeId id) {
  for (const Progress& follower : state.leading->followers)
    if (follower.id == id)
      return follower.is_alive() && follower.mode == Progress::Mode::kReplicate &&
             state.log.last_index() <= follower.match + kInSyncEntries;
  return false;
}

void start(CoreState& state, Membership after, std::optional<uint64_t> tag) {
  const Index index =
      replication::append_membership(state, step_towards(state.membership(), std::move(after)));
  // A change while another runs is a planted bug only; the older asker is then left to the newer entry.
  state.leading->change = Leadership::Change{tag, index};
  replication::maybe_commit(state);  // the new majority may be smaller
}

/// One step for one member that is to vote (again), if any needs it and it is safe now.
void bring_back(CoreState& state) {
  if (!may_change(state).is_ok()) return;
  const Membership& current = state.membership();
  for (NodeId id : current.returning) {
    if (!in_sync(state, id)) continue;
    Membership after = current;
    Member voter = *find_in(current.learners, id);
    // A member that is new is bound to the disk that caught up.
    if (voter.directory.is_zero()) voter.directory = state.find_follower(id)->directory;
    put_in(after.voters, voter);
    drop_from(after.learners, id);
    std::erase(after.returning, id);
    return start(state, std::move(after), std::nullopt);
  }
  for (const Leadership::Stranger& stranger : state.leading->strangers) {
    if (stranger.age >= state.config.election_ticks || !find_member(current, stranger.id)) continue;
    Membership after = current;
    const bool was_voter = find_in(current.voters, stranger.id) != nullptr;
    if (RALLY_PLANTED_BUG(kReturnedMemberStaysVoter) && was_voter) {
      put_in(after.voters, {stranger.id, stranger.directory});
    } else {
      drop_from(after.voters, stranger.id);
      put_in(after.learners, {stranger.id, stranger.directory});
      if (was_voter &&
          std::find(after.returning.begin(), after.returning.end(), stranger.id) == after.returning.end())
        after.returning.push_back(stranger.id);
      if (after.voters.empty() || !replication::quorum_is_alive(state, after)) continue;
    }
    state.trace(trace::MemberReturned{stranger.id, stranger.directory});
    return start(state, std::move(after), std::nullopt);
  }
}

}  // namespace

void change(CoreState& state, ChangeMembership event) {
  auto refuse = [&](Status status) {
    state.output.membership_results.push_back({event.tag, std::move(status)});
  };
  if (Status status = may_change(state); !status.is_ok()) return refuse(std::move(status));
  const Membership& current = state.membership();
  std::vector<Member> heard;
  for (const Progress& follower : state.leading->followers) put_in(heard, {follower.id, follower.directory});
  auto after = apply_changes(current, event.changes, heard);
  if (!after.is_ok()) return refuse(after.status());
  for (const ChangeMembership::Change& item : event.changes)
    if (item.kind == Kind::kPromote && find_in(after->voters, item.id) != nullptr && !in_sync(state, item.id))
      return refuse(Status::failed_precondition(
          "etcdserver: can only promote a learner member which is in sync with leader"));
  // A membership whose majority does not answer could never be committed, nor taken back by another change.
  if (voters_changed(current, *after) > 0 && !replication::quorum_is_alive(state, *after))
    return refuse(Status::unavailable("etcdserver: unhealthy cluster"));
  if (event.set_context) after->context = std::move(event.context);
  start(state, std::move(after).value(), event.tag);
}

void on_commit(CoreState& state) {
  const Index commit = state.log.commit();
  if (RALLY_PLANTED_BUG(kMembershipCountsAtCommit)) replication::follow_members(state);
  if (commit < state.memberships.current_index()) return;
  const Membership& current = state.membership();
  if (is_joint(current)) {
    // The leave entry answers whoever asked for the change.
    const Index index = replication::append_membership(state, leave_joint(current));
    if (state.leading->change.has_value()) state.leading->change->index = index;
    return replication::maybe_commit(state);
  }
  auto& change = state.leading->change;
  if (change.has_value() && change->index <= commit) {
    if (change->tag.has_value()) state.output.membership_results.push_back({*change->tag, Status::ok()});
    change.reset();
  }
  if (state.is_bound_voter() || RALLY_PLANTED_BUG(kRemovedLeaderStays)) return;
  // Thesis 4.2.2: a leader that is out manages the cluster until that is committed. Its best follower need
  // not wait for a time-out.
  if (const NodeId successor = transfer::best_successor(state); !successor.is_zero())
    state.send(successor, TimeoutNow{});
  state.trace(trace::SteppedDown{state.term, trace::StepDownReason::kRemoved});
  state.become_follower(state.term, NodeId());
}

void on_tick(CoreState& state) {
  for (Leadership::Stranger& stranger : state.leading->strangers) ++stranger.age;
  bring_back(state);
}

void note_directory(CoreState& state, NodeId id, DirectoryId directory, bool unbound) {
  const Member* member = find_member(state.membership(), id);
  if (member == nullptr || directory.is_zero() || member->directory.is_zero() ||
      member->directory == directory)
    return;
  auto& strangers = state.leading->strangers;
  auto it =
      std::find_if(strangers.begin(), strangers.end(), [&](const auto& known) { return known.id == id; });
  // A disk that thinks itself bound may speak from before the present membership. But if the one that is
  // bound has fallen silent, the word that it is bound came too late: it is dead, and this one is to be taken
  // back.
  if (!unbound) {
    const Progress* bound = state.find_follower(id);
    if (bound == nullptr || bound->is_alive()) return;
  }
  if (it == strangers.end()) {
    state.trace(trace::WrongDirectory{id, member->directory, directory});
    strangers.push_back({id, directory});
  } else {
    *it = {id, directory};
  }
}

Result<Membership> apply_changes(Membership m, const std::vector<ChangeMembership::Change>& changes,
                                 const std::vector<Member>& heard) {
  for (const ChangeMembership::Change& change : changes) {
    const NodeId id = change.id;
    if (change.kind == Kind::kSetContext) continue;
    if (id.is_zero()) return Status::invalid_argument("a member's id is never 0");
    switch (change.kind) {
      case Kind::kAddLearner:
      case Kind::kAddVoter:
        if (find_member(m, id) != nullptr) return Status::already_exists(name(id) + " is a member already");
        put_in(m.learners, {id, change.directory});
        if (change.kind == Kind::kAddVoter) m.returning.push_back(id);
        break;
      case Kind::kPromote: {
        const Member* learner = find_in(m.learners, id);
        if (learner == nullptr) return Status::failed_precondition(name(id) + " is not a learner");
        Member voter = *learner;
        if (voter.directory.is_zero())
          if (const Member* known = find_in(heard, id)) voter.directory = known->directory;
        if (voter.directory.is_zero())
          return Status::failed_precondition(
              "etcdserver: can only promote a learner member which is in sync with leader");
        drop_from(m.learners, id);
        std::erase(m.returning, id);
        put_in(m.voters, voter);
        break;
      }
      case Kind::kDemote: {
        const Member* voter = find_in(m.voters, id);
        if (voter == nullptr) return Status::failed_precondition(name(id) + " is not a voter");
        put_in(m.learners, *voter);
        drop_from(m.voters, id);
        break;
      }
      case Kind::kRemove:
        if (find_member(m, id) == nullptr) return Status::not_found(name(id) + " is not a member");
        drop_from(m.voters, id);
        drop_from(m.learners, id);
        std::erase(m.returning, id);
        break;
      case Kind::kSetContext:
        break;
    }
  }
  if (m.voters.empty()) return Status::invalid_argument("the change would leave no voter");
  return m;
}

size_t voters_changed(const Membership& before, const Membership& after) {
  size_t changed = 0;
  for (const Member& voter : before.voters) {
    const Member* kept = find_in(after.voters, voter.id);
    if (kept == nullptr || *kept != voter) ++changed;
  }
  for (const Member& voter : after.voters) {
    const Member* had = find_in(before.voters, voter.id);
    if (had == nullptr || *had != voter) ++changed;
  }
  return changed;
}

Membership step_towards(const Membership& before, Membership after) {
  if (voters_changed(before, after) <= 1 || RALLY_PLANTED_BUG(kReturnedMemberStaysVoter)) return after;
  after.outgoing = before.voters;
  // Who goes from voter to learner votes (in the old majority) until the joint phase is left.
  for (const Member& voter : before.voters)
    if (find_in(after.learners, voter.id) != nullptr) {
      put_in(after.learners_next, voter);
      drop_from(after.learners, voter.id);
    }
  return after;
}

Membership leave_joint(Membership joint) {
  for (const Member& learner : joint.learners_next) put_in(joint.learners, learner);
  joint.learners_next.clear();
  joint.outgoing.clear();
  return joint;
}

}  // namespace rallypoint::raft::membership_change
