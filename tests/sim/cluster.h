// Cluster: one simulated run from a seed - chaos for a while, then healing, then the demand for progress.
// Owns everything in it; one thread; nothing in it depends on anything but the seed and the options.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "raft/base/random.h"
#include "tests/sim/clients.h"
#include "tests/sim/coverage.h"
#include "tests/sim/nemesis.h"
#include "tests/sim/network.h"
#include "tests/sim/node.h"
#include "tests/sim/oracle.h"
#include "tests/sim/profile.h"
#include "tests/sim/scheduler.h"
#include "tests/sim/trace.h"
#include "tests/sim/world.h"

namespace rallypoint::sim {

struct RunOptions {
  uint32_t nodes = 0;  ///< 0 = as the seed says
  Duration chaos{};    ///< 0 = as the seed says
  bool story = false;
  bool messages = false;  ///< with the story: each message
  bool real_log = true;   ///< false = never use the real log
  std::string bug;        ///< planted in this run; only to be named in the replay line
};

struct RunResult {
  bool passed = false;
  std::string property;  ///< of the violation
  std::string message;
  Instant end{};  ///< simulated time
  uint64_t steps = 0;
  uint64_t hash = 0;
  Coverage coverage;
};

class Cluster {
 public:
  Cluster(uint64_t seed, const RunOptions& options);
  RunResult run();

 private:
  void play();
  void run_until(Instant end);
  void demand_progress();
  [[nodiscard]] bool all_equal() const;
  Node* one_leader();
  Node* add_node();
  void deliver(raft::Message message);
  [[nodiscard]] std::string standing() const;

  Random random_;
  Profile profile_;
  Scheduler scheduler_;
  Coverage coverage_;
  Trace trace_;
  Network network_;
  World world_;
  Oracle oracle_;
  Clients clients_;
  Nemesis nemesis_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

/// Builds a cluster and runs it; a Violation or a failed RALLY_CHECK becomes the result.
RunResult run_seed(uint64_t seed, const RunOptions& options);

}  // namespace rallypoint::sim
