#include "tests/sim/clients.h"

#include <utility>

#include "tests/sim/engine.h"
#include "tests/sim/node.h"
#include "tests/sim/oracle.h"
#include "tests/sim/violation.h"

namespace rallypoint::sim {

void Clients::start() {
  schedule_proposal();
  schedule_read();
}

Node* Clients::any_running() {
  // Mostly at a node that believes to lead: there may be two of them, and that is where it gets interesting.
  std::vector<Node*> running;
  std::vector<Node*> leading;
  for (const auto& node : *world_.nodes) {
    if (!node->running()) continue;
    running.push_back(node.get());
    if (node->is_leader()) leading.push_back(node.get());
  }
  auto& among = !leading.empty() && world_.random.chance(2, 3) ? leading : running;
  return among.empty() ? nullptr : among[world_.random.below(among.size())];
}

void Clients::schedule_proposal() {
  world_.scheduler.after(around(world_.random, world_.profile.proposal_interval), [this] {
    if (stopped_) return;
    if (Node* node = any_running())
      propose_batch(*node, world_.random.between(1, world_.profile.proposal_batch_max));
    schedule_proposal();
  });
}

void Clients::schedule_read() {
  world_.scheduler.after(around(world_.random, world_.profile.read_interval), [this] {
    if (stopped_) return;
    if (Node* node = any_running()) node->read(static_cast<uint32_t>(world_.random.below(kRegisters)));
    schedule_read();
  });
}

raft::Propose::Item Clients::make_item() {
  Command command;
  command.id = next_id_++;
  command.key = static_cast<uint32_t>(world_.random.below(kRegisters));
  command.value = world_.random.next() | 1;
  world_.oracle->proposed(command.id);
  return {command.id, command.encode(world_.random.between(0, world_.profile.value_bytes_max))};
}

void Clients::propose_batch(Node& node, size_t count) {
  std::vector<raft::Propose::Item> batch;
  for (size_t i = 0; i < count; ++i) {
    batch.push_back(make_item());
    waiting_[batch.back().tag] = node.id();
  }
  node.propose(std::move(batch));
}

uint64_t Clients::propose_at(Node& node) {
  const uint64_t id = next_id_;
  propose_batch(node, 1);
  return id;
}

void Clients::rejected(Node& node, const raft::Rejection& rejection) {
  world_.oracle->refused(rejection.tag, rejection.status);
  world_.coverage.add(rejection.status.code() == Code::kOutcomeUnknown ? Counter::kUnknownOutcomes
                                                                       : Counter::kRejected);
  waiting_.erase(rejection.tag);
  if (stopped_ || rejection.leader.is_zero() || rejection.leader == node.id()) return;
  // Forward under a new name; the old one is void for ever.
  world_.scheduler.after(around(world_.random, world_.profile.latency), [this, leader = rejection.leader] {
    Node* target = world_.node(leader);
    if (target != nullptr && target->running()) propose_batch(*target, 1);
  });
}

void Clients::applied(const Node& node, uint64_t id, Index index) {
  const auto it = waiting_.find(id);
  if (it == waiting_.end() || it->second != node.id()) return;
  waiting_.erase(it);
  acknowledged_.emplace_back(id, index);
  world_.coverage.add(Counter::kAcknowledged);
}

void Clients::check_acknowledged() const {
  for (const auto& [id, index] : acknowledged_) {
    SIM_REQUIRE(world_.oracle->index_of(id) == index, property::kProposals, "acknowledged", id, "at", index,
                "now at", world_.oracle->index_of(id));
  }
}

}  // namespace rallypoint::sim
