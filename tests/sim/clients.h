// Clients: propose commands and read, at any node; what is refused for want of a leader goes to the leader
// that the refusal names, now and then, as the product forwards it. Tells the oracle of everything they were
// promised.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "raft/core.h"
#include "tests/sim/world.h"

namespace rallypoint::sim {

class Clients {
 public:
  explicit Clients(World& world) : world_(world) {}

  void start();
  /// No new requests from now on but those asked for by name.
  void stop() { stopped_ = true; }

  /// Proposes one command at `node` and gives its id.
  uint64_t propose_at(Node& node);
  void propose_batch(Node& node, size_t count);
  void rejected(Node& node, const raft::Rejection& rejection);
  /// `node` applied the proposal of that id: if the client waits there, it is acknowledged.
  void applied(const Node& node, uint64_t id, Index index);
  [[nodiscard]] size_t acknowledged() const { return acknowledged_.size(); }
  /// A Violation unless all that was acknowledged is still in the committed log.
  void check_acknowledged() const;

 private:
  void schedule_proposal();
  void schedule_read();
  Node* any_running();
  raft::Propose::Item make_item();

  World& world_;
  bool stopped_ = false;
  uint64_t next_id_ = 1;
  std::unordered_map<uint64_t, NodeId> waiting_;  ///< proposal -> where its client is
  std::vector<std::pair<uint64_t, Index>> acknowledged_;
};

}  // namespace rallypoint::sim
