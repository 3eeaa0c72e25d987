// The nemesis as an operator: members come, go and change places, and leadership is handed over, at any time.
#include <algorithm>
#include <utility>

#include "tests/sim/nemesis.h"
#include "tests/sim/node.h"
#include "tests/sim/oracle.h"

namespace rallypoint::sim {
namespace {

using Kind = raft::ChangeMembership::Kind;

bool lists(const std::vector<raft::Member>& members, NodeId id) {
  return std::ranges::any_of(members, [&](const raft::Member& m) { return m.id == id; });
}

bool belongs(const raft::Membership& membership, NodeId id) {
  return lists(membership.voters, id) || lists(membership.outgoing, id) || lists(membership.learners, id) ||
         lists(membership.learners_next, id);
}

std::vector<raft::Member> without(std::vector<raft::Member> members, NodeId id) {
  std::erase_if(members, [&](const raft::Member& m) { return m.id == id; });
  return members;
}

}  // namespace

void Nemesis::transfer() {
  Node* from = leader();
  if (from == nullptr) return;
  const auto& voters = from->core().membership().voters;
  if (voters.empty()) return;
  const NodeId to = world_.random.chance(1, 3) ? NodeId() : voters[world_.random.below(voters.size())].id;
  world_.trace.say(from->id(), "is asked to hand over to n", to);
  world_.coverage.add(Counter::kTransfersAsked);
  from->transfer_to(to);
}

bool Nemesis::propose_change(Node& leader, raft::ChangeMembership change, const char* what) {
  change.tag = next_tag_++;
  if (world_.random.chance(1, 4)) {
    change.set_context = true;
    change.context = Bytes::copy_of("context " + std::to_string(change.tag));
  }
  world_.trace.say(leader.id(), "is asked to ", what, change.changes.empty() ? "" : " n",
                   change.changes.empty() ? NodeId() : change.changes.front().id);
  leader.step(std::move(change), "change membership");
  return true;
}

bool Nemesis::add_learner(Node& leader) {
  const raft::Membership& present = leader.core().membership();
  if (present.voters.size() + present.learners.size() >= 7) return false;
  Node* fresh = add_node_();
  if (fresh == nullptr) return false;
  world_.coverage.add(Counter::kLearnersAdded);
  raft::ChangeMembership change;
  change.changes.push_back({Kind::kAddLearner, fresh->id(), fresh->disk().id()});
  return propose_change(leader, std::move(change), "add the learner");
}

bool Nemesis::promote(Node& leader) {
  const raft::Membership& present = leader.core().membership();
  if (present.learners.empty()) return false;
  raft::ChangeMembership change;
  for (const raft::Member& learner : present.learners) {
    if (world_.oracle->is_lost(learner)) continue;
    if (!change.changes.empty() && world_.random.chance(1, 2)) break;
    change.changes.push_back({Kind::kPromote, learner.id, learner.directory});
  }
  if (change.changes.empty()) return false;
  world_.coverage.add(Counter::kPromotions);
  return propose_change(leader, std::move(change), "promote");
}

bool Nemesis::remove(Node& leader) {
  const raft::Membership& present = leader.core().membership();
  const bool a_voter = present.learners.empty() || world_.random.chance(2, 3);
  const auto& from = a_voter ? present.voters : present.learners;
  const raft::Member gone = from[world_.random.below(from.size())];
  raft::Membership next = present;
  next.voters = without(next.voters, gone.id);
  if (next.voters.size() < 2 || !world_.oracle->survives(next, NodeId())) return false;
  world_.coverage.add(Counter::kRemovals);
  raft::ChangeMembership change;
  change.changes.push_back({Kind::kRemove, gone.id, gone.directory});
  return propose_change(leader, std::move(change), "remove");
}

bool Nemesis::demote(Node& leader) {
  const raft::Membership& present = leader.core().membership();
  const raft::Member lower = present.voters[world_.random.below(present.voters.size())];
  raft::Membership next = present;
  next.voters = without(next.voters, lower.id);
  if (next.voters.size() < 2 || !world_.oracle->survives(next, NodeId())) return false;
  world_.coverage.add(Counter::kDemotions);
  raft::ChangeMembership change;
  change.changes.push_back({Kind::kDemote, lower.id, lower.directory});
  return propose_change(leader, std::move(change), "demote");
}

bool Nemesis::replace(Node& leader) {  // one or two out, as many in, at once
  const raft::Membership& present = leader.core().membership();
  raft::Membership next = present;
  raft::ChangeMembership change;
  for (const raft::Member& learner : present.learners) {
    if (world_.oracle->is_lost(learner)) continue;
    const raft::Member out = present.voters[world_.random.below(present.voters.size())];
    if (!lists(next.voters, out.id)) continue;
    next.voters = without(next.voters, out.id);
    next.voters.push_back(learner);
    change.changes.push_back({Kind::kPromote, learner.id, learner.directory});
    change.changes.push_back(
        {world_.random.chance(1, 2) ? Kind::kRemove : Kind::kDemote, out.id, out.directory});
  }
  if (change.changes.empty() || !world_.oracle->survives(next, NodeId())) return false;
  return propose_change(leader, std::move(change), "replace by");
}

void Nemesis::change_membership() {
  retire_removed();
  Node* at = leader();
  if (at == nullptr || !world_.oracle->all_bound()) return;
  if (at->undrained()) return;
  bool (Nemesis::*const kinds[])(Node&) = {&Nemesis::add_learner, &Nemesis::promote, &Nemesis::promote,
                                           &Nemesis::remove,      &Nemesis::demote,  &Nemesis::replace,
                                           &Nemesis::replace};
  for (int attempt = 0; attempt < 4; ++attempt) {
    if ((this->*kinds[world_.random.below(std::size(kinds))])(*at)) return;
  }
}

/// Nodes that the committed membership no longer lists are switched off, some time later.
void Nemesis::retire_removed() {
  for (const auto& node : *world_.nodes) {
    const NodeId id = node->id();
    if (node->retired() || belongs(world_.oracle->membership(), id)) continue;
    if (!world_.oracle->was_member(id)) continue;  // it may still become one
    if (!retiring_.insert(id).second) continue;
    world_.scheduler.after(around(world_.random, Duration::millis(400)), [this, &node = *node] {
      if (belongs(world_.oracle->membership(), node.id())) {
        retiring_.erase(node.id());
        return;
      }
      world_.trace.say(node.id(), "is switched off for good");
      if (node.running()) node.crash();
      node.retire();
    });
  }
}

void Nemesis::tend() {
  retire_removed();
  Node* at = leader();
  if (at == nullptr || at->undrained()) return;
  const raft::Membership& present = at->core().membership();
  if (present.outgoing.empty() && !present.learners.empty()) promote(*at);
}

bool Nemesis::settled() const {
  const raft::Membership& now = world_.oracle->membership();
  if (!now.outgoing.empty() || !now.learners.empty()) return false;
  return std::ranges::none_of(now.voters, [&](const raft::Member& m) {
    const Node* node = world_.node(m.id);
    return m.directory.is_zero() || node == nullptr || node->disk().id() != m.directory;
  });
}

}  // namespace rallypoint::sim
