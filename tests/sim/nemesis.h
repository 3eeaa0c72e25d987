// Nemesis: makes the profile's faults happen - crashes, wiped disks, pauses, cuts, stalls, hand-overs,
// membership changes, false hints, forged appends - within Raft's fault model: as many directories survive as
// every membership that may be in force needs for a quorum.
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "raft/core.h"
#include "tests/sim/world.h"

namespace rallypoint::sim {

class Nemesis {
 public:
  Nemesis(World& world, std::function<Node*()> add_node) : world_(world), add_node_(std::move(add_node)) {}

  void start();
  /// No faults from now on.
  void stop() { stopped_ = true; }
  /// Undoes what can be undone: cuts, pauses, dead processes.
  void heal();
  /// While healing: completes what it began (learners become voters, joint phases end, the removed go home).
  void tend();
  /// True once the membership is plain: no joint phase, no learners, no lost directories.
  [[nodiscard]] bool settled() const;

 private:
  using Fault = void (Nemesis::*)();
  void repeat(Duration every, Fault fault);
  void crash();
  void wipe();
  void pause();
  void cut();
  void depose();
  void stall();
  void transfer();
  void change_membership();
  void false_hint();
  void forge();
  void drift();

  void crash_node(Node& node, Duration down);
  void restart_later(Node& node, Duration down);
  void isolate(Node& node);
  Node* any(const std::function<bool(const Node&)>& wanted);
  Node* leader();
  bool propose_change(Node& leader, raft::ChangeMembership change, const char* what);
  bool add_learner(Node& leader);
  bool promote(Node& leader);
  bool remove(Node& leader);
  bool demote(Node& leader);
  bool replace(Node& leader);
  void retire_removed();

  World& world_;
  std::function<Node*()> add_node_;
  bool stopped_ = false;
  uint64_t next_tag_ = 1;
  uint32_t wiped_unbound_ = 0;
  std::set<NodeId> retiring_;
};

}  // namespace rallypoint::sim
