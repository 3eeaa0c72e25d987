// Crashes, disks, network and hints; nemesis_membership.cc has the rest.
#include "tests/sim/nemesis.h"

#include <algorithm>
#include <utility>

#include "tests/sim/clients.h"
#include "tests/sim/node.h"
#include "tests/sim/oracle.h"

namespace rallypoint::sim {

void Nemesis::start() {
  const Profile& p = world_.profile;
  repeat(p.crash_every, &Nemesis::crash);
  repeat(p.wipe_every, &Nemesis::wipe);
  repeat(p.pause_every, &Nemesis::pause);
  repeat(p.cut_every, &Nemesis::cut);
  repeat(p.depose_every, &Nemesis::depose);
  repeat(p.stall_every, &Nemesis::stall);
  repeat(p.transfer_every, &Nemesis::transfer);
  repeat(p.membership_every, &Nemesis::change_membership);
  repeat(p.false_hint_every, &Nemesis::false_hint);
  repeat(p.forge_every, &Nemesis::forge);
  if (p.drift_percent > 0) repeat(Duration::millis(400), &Nemesis::drift);
}

void Nemesis::repeat(Duration every, Fault fault) {
  if (every.us == 0) return;
  world_.scheduler.after(around(world_.random, every), [this, every, fault] {
    if (stopped_) return;
    (this->*fault)();
    repeat(every, fault);
  });
}

Node* Nemesis::any(const std::function<bool(const Node&)>& wanted) {
  std::vector<Node*> fitting;
  for (const auto& node : *world_.nodes) {
    if (!node->retired() && wanted(*node)) fitting.push_back(node.get());
  }
  return fitting.empty() ? nullptr : fitting[world_.random.below(fitting.size())];
}

Node* Nemesis::leader() {
  return any([](const Node& node) { return node.is_leader() && !node.paused(); });
}

void Nemesis::crash_node(Node& node, Duration down) {
  const NodeId id = node.id();
  node.crash();
  // Its peers' connections break, and what refuses the next one says so at once.
  for (const auto& peer : *world_.nodes) {
    if (!peer->running() || world_.network.is_cut(id, peer->id()) || world_.network.is_cut(peer->id(), id))
      continue;
    if (world_.random.chance(world_.profile.hint_percent, 100)) {
      peer->hint_leader_gone(id, world_.profile.latency + around(world_.random, Duration::millis(1)));
    }
  }
  restart_later(node, down);
}

void Nemesis::restart_later(Node& node, Duration down) {
  world_.scheduler.after(down, [this, &node, life = node.life()] {
    if (node.life() == life && !node.running() && !node.retired()) node.start();
  });
}

void Nemesis::crash() {
  const bool all = world_.random.chance(1, 12);
  const Duration down = around(world_.random, world_.profile.down_mean);
  if (all) {
    for (const auto& node : *world_.nodes) {
      if (node->running()) crash_node(*node, down + around(world_.random, Duration::millis(20)));
    }
    return;
  }
  Node* node = world_.random.chance(1, 3) ? leader() : nullptr;
  if (node == nullptr) node = any([](const Node& n) { return n.running(); });
  if (node != nullptr) crash_node(*node, down);
}

void Nemesis::wipe() {
  const Oracle& oracle = *world_.oracle;
  // Before the first membership with directories is committed, any minority may be wiped.
  const bool bound = oracle.all_bound();
  if (!bound && wiped_unbound_ >= (world_.profile.nodes - 1) / 2) return;
  Node* node = any([&](const Node& n) { return oracle.survives_loss_of(n.id()); });
  if (node == nullptr) return;
  if (!bound) ++wiped_unbound_;
  if (node->running()) crash_node(*node, around(world_.random, Duration::millis(50)));
  // Its operator starts it as a member of an existing cluster if nobody of the first membership could tell it
  // so.
  const bool others_remember = std::ranges::any_of(
      *world_.nodes, [&](const auto& n) { return n.get() != node && !n->added_later() && !n->wiped(); });
  node->wipe(others_remember);
}

void Nemesis::pause() {
  Node* node = world_.random.chance(1, 2) ? leader() : nullptr;
  if (node == nullptr) node = any([](const Node& n) { return n.running() && !n.paused(); });
  if (node == nullptr) return;
  world_.trace.say(node->id(), "is stopped");
  world_.coverage.add(Counter::kPauses);
  node->pause();
  world_.scheduler.after(around(world_.random, world_.profile.pause_mean), [node, life = node->life()] {
    if (node->life() == life) node->resume();
  });
}

void Nemesis::isolate(Node& node) {
  for (const auto& peer : *world_.nodes) {
    if (peer.get() == &node) continue;
    world_.network.cut(node.id(), peer->id());
    world_.network.cut(peer->id(), node.id());
  }
}

void Nemesis::cut() {
  Random& random = world_.random;
  const auto& nodes = *world_.nodes;
  const uint64_t kind = random.below(6);
  if (kind == 0) {  // two sides
    world_.trace.say(NodeId(), "network: two sides");
    world_.coverage.add(Counter::kPartitions);
    std::vector<bool> side;
    for (size_t i = 0; i < nodes.size(); ++i) side.push_back(random.chance(1, 2));
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (size_t j = 0; j < nodes.size(); ++j) {
        if (side[i] != side[j]) world_.network.cut(nodes[i]->id(), nodes[j]->id());
      }
    }
  } else if (kind <= 2) {
    Node* node = leader();
    if (node == nullptr || kind == 2) node = any([](const Node&) { return true; });
    if (node == nullptr) return;
    world_.trace.say(NodeId(), "network: n", node->id(), " alone");
    world_.coverage.add(Counter::kPartitions);
    isolate(*node);
  } else if (kind <= 4) {
    for (uint64_t cuts = random.between(1, 3); cuts > 0; --cuts) {
      const NodeId from(random.between(1, nodes.size()));
      const NodeId to(random.between(1, nodes.size()));
      if (from == to) continue;
      world_.trace.say(NodeId(), "network: n", from, " is not heard by n", to);
      world_.coverage.add(Counter::kOneWayCuts);
      world_.network.cut(from, to);
    }
  } else {
    const NodeId from(random.between(1, nodes.size()));
    const NodeId to(random.between(1, nodes.size()));
    if (from == to) return;
    world_.trace.say(NodeId(), "network: n", from, " to n", to, " is slow");
    world_.coverage.add(Counter::kSlowLinks);
    world_.network.slow_down(from, to, around(random, Duration::millis(150)));
  }
  world_.scheduler.after(around(random, world_.profile.cut_mean), [this] {
    world_.trace.say(NodeId(), "network: whole again");
    world_.network.mend();
  });
}

/// The leader goes on for a while, with its clients and perhaps with some followers, while the rest elects
/// another. What it takes in meanwhile must be cut off later; what it answers meanwhile must not be stale.
void Nemesis::depose() {
  Random& random = world_.random;
  Node* old = leader();
  if (old == nullptr) return;
  const size_t voters = old->core().membership().voters.size();
  if (voters < 3) return;
  world_.trace.say(old->id(), "is cut off with less than a quorum");
  world_.coverage.add(Counter::kDeposals);
  uint64_t with_it = random.between(0, (voters - 1) / 2 - 1 + (voters % 2 == 0 ? 1 : 0));
  if (2 * (with_it + 1) > voters) --with_it;
  std::vector<Node*> here{old};
  std::vector<Node*> there;
  for (const auto& node : *world_.nodes) {
    if (node.get() == old || node->retired()) continue;
    (here.size() <= with_it && random.chance(1, 2) ? here : there).push_back(node.get());
  }
  for (Node* a : here) {
    for (Node* b : there) {
      world_.network.cut(a->id(), b->id());
      world_.network.cut(b->id(), a->id());
    }
  }
  for (Node* node : there) {
    if (node->running()) node->hint_leader_gone(old->id(), around(random, Duration::millis(3)));
  }
  const Duration length = around(random, Duration::millis(80));
  if (random.chance(1, 2)) old->stall_disk(length + around(random, Duration::millis(100)));
  world_.scheduler.after(length, [this] { world_.network.mend(); });
}

void Nemesis::stall() {
  Node* node = world_.random.chance(1, 2) ? leader() : nullptr;
  if (node == nullptr) node = any([](const Node& n) { return n.running(); });
  if (node == nullptr) return;
  world_.coverage.add(Counter::kDiskStalls);
  node->stall_disk(around(world_.random, world_.profile.stall_mean));
}

void Nemesis::drift() {
  const auto most = static_cast<int64_t>(world_.profile.drift_percent);
  if (Node* node = any([](const Node&) { return true; })) {
    node->set_drift(static_cast<int32_t>(static_cast<int64_t>(world_.random.below(2 * most + 1)) - most));
  }
}

void Nemesis::false_hint() {
  Node* node = any([](const Node& n) {
    return n.running() && !n.paused() && !n.is_leader() && !n.core().soft_state().leader.is_zero();
  });
  if (node == nullptr) return;
  world_.coverage.add(Counter::kFalseHints);
  node->hint_leader_gone(node->core().soft_state().leader, Duration::micros(1));
}

void Nemesis::forge() {
  // "From the leader": an append whose entry contradicts one that the receiver knows to be committed.
  Node* node = any([](const Node& n) {
    return n.running() && !n.paused() && !n.is_leader() && !n.core().soft_state().leader.is_zero();
  });
  if (node == nullptr || node->undrained()) return;
  const raft::SoftState now = node->core().soft_state();
  const LogModel& log = node->disk().issued();
  const Index target = node->core().commit();
  Node* sender = world_.node(now.leader);
  if (target <= log.start().index || target > log.last_index() || sender == nullptr) return;
  const Term held = *log.term_at(target);
  const Term previous = *log.term_at(target - 1);
  if (held == now.term && previous == now.term) return;
  raft::AppendRequest append;
  append.previous = {previous, target - 1};
  append.commit = target - 1;
  append.entries.push_back({held == now.term ? previous : now.term, target, raft::EntryKind::kNoop, {}});
  world_.coverage.add(Counter::kForgedAppends);
  world_.trace.say(node->id(), "gets a forged append over committed ", target);
  node->receive({now.leader, node->id(), now.term, sender->disk().id(), std::move(append)});
}

void Nemesis::heal() {
  world_.network.mend();
  world_.network.calm();
  for (const auto& node : *world_.nodes) {
    if (node->retired()) continue;
    node->set_drift(0);
    node->resume();
    if (!node->running()) node->start();
  }
}

}  // namespace rallypoint::sim
