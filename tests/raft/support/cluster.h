// Cluster: several cores in one thread with a network and disks that the test holds in its hand. Nothing
// happens by itself: a test ticks, delivers and persists, or calls settle() to let everything happen that
// can.
//
// After every step the invariants of raft/invariants.h are checked; a broken one fails the test.
// The state machine of a node is the list of commands that it applied; a snapshot is that list as text.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "raft/core_state.h"
#include "raft/invariants.h"

namespace rallypoint::raft::test {

class Cluster;

/// What is on a node's disk. A write that is not synced yet is in Node::unsynced.
struct Disk {
  DirectoryId directory;
  HardState hard_state;
  SnapshotMeta start;  ///< where the log begins
  std::vector<Entry> entries;
  std::vector<std::string> commands;  ///< the state machine at `applied`, always durable here
  Index applied;
  std::string staged;  ///< pieces of a snapshot
};

class Node : public Observer {
 public:
  Node(Cluster& cluster, NodeId id) : id(id), cluster_(cluster) {}
  void on_event(const TraceEvent& event) override;

  NodeId id;
  Disk disk;
  std::deque<Write> unsynced;
  bool disk_stalls = false;                ///< writes stay unsynced until this is false
  std::unique_ptr<Core> core;              ///< null while down
  std::map<Index, std::string> snapshots;  ///< those it made, to be sent
  std::vector<ReadResult> reads;
  std::vector<Rejection> rejections;
  std::vector<MembershipResult> membership_results;
  std::vector<TransferResult> transfer_results;

  [[nodiscard]] bool up() const { return core != nullptr; }
  [[nodiscard]] const CoreState& state() const { return core->state(); }
  [[nodiscard]] bool leads() const { return up() && core->soft_state().role == Role::kLeader; }

 private:
  Cluster& cluster_;
};

class Cluster {
 public:
  /// `bootstrap`: ids of the first voters. Nodes are created but not started.
  explicit Cluster(std::vector<uint64_t> bootstrap, Config base = Config());

  Node& node(uint64_t id);
  /// Starts a node from its disk. `joins`: a fresh node that is not among the first voters.
  void start(uint64_t id);
  void start_all();
  /// The process dies; unsynced writes are lost but for the first `keep`.
  void crash(uint64_t id, size_t keep = 0);
  void restart(uint64_t id) { crash(id), start(id); }
  /// The disk is replaced by an empty one; the node must be down.
  void wipe(uint64_t id);

  void step(uint64_t id, Event event);
  void tick(uint64_t id);
  void tick_all(int count = 1);
  /// Makes all that is unsynced durable on one node, unless its disk stalls.
  void sync(uint64_t id);
  /// Delivers the oldest message that may pass; false if there is none.
  bool deliver_one();
  /// Syncs and delivers until nothing moves any more.
  void settle();
  /// Ticks and settles until a leader is known to all who are up, or `ticks` passed.
  Node* elect(int ticks = 100);
  /// Ticks `id` alone until it leads.
  void make_leader(uint64_t id);
  [[nodiscard]] Node* leader();

  void propose(uint64_t id, const std::string& command);
  /// Commands applied at a node, joined by spaces.
  [[nodiscard]] std::string commands(uint64_t id) { return joined(node(id).disk.commands); }
  /// The node makes its log begin after what it applied.
  void compact(uint64_t id);

  // The network.
  void cut(uint64_t a, uint64_t b) { cut_.insert({a, b}), cut_.insert({b, a}); }
  void isolate(uint64_t id);
  void heal() { cut_.clear(); }
  std::deque<Message> network;
  /// Messages for which it returns true get lost.
  std::function<bool(const Message&)> lose;

  /// Told one line per event if set; for golden traces.
  std::function<void(NodeId, const std::string&)> trace;
  /// Messages of these kinds are traced when delivered.
  bool trace_messages = false;

  static std::string joined(const std::vector<std::string>& words);
  Config base;
  std::map<uint64_t, std::unique_ptr<Node>> nodes;

 private:
  void drain(Node& node);
  void apply(Node& node, const Entry& entry);
  static void persist(Disk& disk, const Write& write);
  void judge(Node& node, const StateSummary& before);
  void say(NodeId id, const std::string& line) {
    if (trace) trace(id, line);
  }

  Membership bootstrap_;
  std::set<std::pair<uint64_t, uint64_t>> cut_;
  ClusterInvariants invariants_;
  uint64_t lives_ = 0;
  uint64_t directories_ = 0;
};

}  // namespace rallypoint::raft::test
