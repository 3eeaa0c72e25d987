// Node: one simulated member - the driver of a Core as server/ is in the product: log loop, apply loop,
// snapshots, reads, all in virtual time. Its process starts, crashes, pauses; its disk outlives it until it
// is wiped.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "raft/core.h"
#include "tests/sim/disk.h"
#include "tests/sim/world.h"

namespace rallypoint::sim {

class Node final : private raft::Observer {
 public:
  /// `bootstrap`: the first membership, or empty for a node that is added later.
  Node(World& world, NodeId id, raft::Membership bootstrap);

  // The nemesis's hand.
  void start();
  void crash();
  /// The directory is gone; the next start finds a blank one, with the bootstrap membership or with none.
  /// Only while the process is down.
  void wipe(bool keeps_bootstrap);
  void pause() { paused_ = true; }
  void resume();
  void stall_disk(Duration how_long);
  void set_drift(int32_t percent) { drift_percent_ = percent; }
  /// The node is out of the cluster for good.
  void retire() { retired_ = true; }

  // Events.
  void receive(raft::Message message);
  void step(raft::Event event, const char* name);
  void propose(std::vector<raft::Propose::Item> batch);
  void read(uint32_t key);
  void transfer_to(NodeId to);
  void hint_leader_gone(NodeId node, Duration delay);

  [[nodiscard]] NodeId id() const { return id_; }
  [[nodiscard]] bool running() const { return core_ != nullptr; }
  [[nodiscard]] bool paused() const { return paused_; }
  [[nodiscard]] bool retired() const { return retired_; }
  [[nodiscard]] bool added_later() const { return added_later_; }
  [[nodiscard]] bool wiped() const { return wiped_; }
  [[nodiscard]] bool undrained() const { return undrained_; }
  /// How many calls the output being taken covers.
  [[nodiscard]] uint64_t steps_in_output() const { return steps_in_output_; }
  [[nodiscard]] uint64_t life() const { return life_; }
  [[nodiscard]] uint64_t ticks() const { return ticks_; }
  [[nodiscard]] const raft::Core& core() const { return *core_; }
  [[nodiscard]] const Disk& disk() const { return *disk_; }
  [[nodiscard]] const std::shared_ptr<Disk>& shared_disk() const { return disk_; }
  [[nodiscard]] const EngineState& engine() const { return engine_; }
  [[nodiscard]] bool is_leader() const {
    return running() && core_->soft_state().role == raft::Role::kLeader;
  }
  /// A snapshot took the log's place on disk and the core has not heard of it yet.
  [[nodiscard]] bool install_untold() const { return install_untold_; }
  [[nodiscard]] bool transfer_pending() const { return transfer_pending_; }

 private:
  using Action = Scheduler::Action;
  struct PendingRead {
    uint64_t id = 0;
    Index floor;  ///< what was committed anywhere when it was asked for
    uint32_t key = 0;
    std::optional<Index> index;
  };
  struct Snapshot {
    raft::SnapshotMeta meta;
    Bytes data;
  };

  void on_event(const raft::TraceEvent& event) override;
  /// Runs the action later, unless this process is gone by then; a paused process gets to it when it resumes.
  void post(Duration delay, Action action);
  void make_disk();
  void schedule_tick();
  void schedule_flush();
  /// One call into the core between the oracle's looks.
  void enter(const char* name, const raft::Message* message, const std::function<void()>& call);
  void drain();
  void start_sync();
  void sync_done();
  void start_apply();
  void apply_some();
  void serve_reads();
  void take_read_result(const raft::ReadResult& result);
  void make_snapshot();
  void read_snapshot(const raft::SnapshotRead& request);

  World& world_;
  NodeId id_;
  raft::Membership bootstrap_;
  std::shared_ptr<Disk> disk_;
  std::unique_ptr<raft::Core> core_;
  EngineState engine_;  ///< as applied; what is not flushed dies with the process
  uint64_t life_ = 0;
  bool added_later_ = false;
  bool wiped_ = false;  ///< at least once
  bool paused_ = false;
  bool retired_ = false;
  bool undrained_ = false;
  uint64_t steps_in_output_ = 0;
  bool transfer_pending_ = false;
  bool install_untold_ = false;
  std::deque<Action> backlog_;
  Instant stalled_until_{};
  int32_t drift_percent_ = 0;
  uint64_t ticks_ = 0;
  std::deque<raft::Entry> to_apply_;
  bool applying_ = false;
  uint64_t next_read_ = 1;
  std::map<uint64_t, PendingRead> reads_;
  std::deque<Snapshot> snapshots_;
};

}  // namespace rallypoint::sim
