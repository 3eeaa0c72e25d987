// World: what every part of one simulated run shares. Owned by Cluster; one thread.
#pragma once

#include <memory>
#include <vector>

#include "raft/base/random.h"
#include "tests/sim/coverage.h"
#include "tests/sim/network.h"
#include "tests/sim/profile.h"
#include "tests/sim/scheduler.h"
#include "tests/sim/trace.h"

namespace rallypoint::sim {

class Node;
class Oracle;
class Clients;
class Disk;

struct World {
  Profile& profile;
  Random& random;
  Scheduler& scheduler;
  Network& network;
  Trace& trace;
  Coverage& coverage;
  Oracle* oracle = nullptr;
  Clients* clients = nullptr;
  std::vector<std::unique_ptr<Node>>* nodes = nullptr;  ///< node id - 1 -> node; only grows

  /// The node of that id, or null.
  [[nodiscard]] Node* node(NodeId id) const {
    return id.is_zero() || id.value() > nodes->size() ? nullptr : (*nodes)[id.value() - 1].get();
  }
};

}  // namespace rallypoint::sim
