// NodeLoop: the one thread that owns raft::Core, the state machine and the requests of this node's clients. It takes
// everything that waits in its mailbox at once, steps the core, carries its effects out, applies what is committed,
// and hands replies back in one batch per net loop. It never touches a disk but for the engine's memtable, and never a
// socket: the log loop, the snapshotter and the transport do, and answer into the mailbox.
//
// Core and state machine share the thread because on few cores a hand-over per batch costs more than it wins; they
// meet only in drain(), so that they can be parted again.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <variant>
#include <vector>

#include "raft/core.h"
#include "server/api/api.h"
#include "server/auto_compactor.h"
#include "server/clock.h"
#include "server/cluster_clock.h"
#include "server/digest_desk.h"
#include "server/log_loop.h"
#include "server/mailbox.h"
#include "server/member_desk.h"
#include "server/requests.h"
#include "server/state/state_machine.h"

namespace rallypoint::server {

struct PeerApp { NodeId from; uint8_t type; Bytes payload; };
struct PeerLost { NodeId peer; };
/// A peer says that this member was removed from the cluster.
struct PeerRemovedUs { NodeId peer; };
struct SnapshotInstalled { std::shared_ptr<storage::Engine> engine; raft::SnapshotMeta meta; };
struct SnapshotFailed { Status status; };
/// Hand leadership over if it is ours, then end the loop.
struct Shutdown {};

using NodeEvent = std::variant<std::vector<Request>, std::vector<raft::Message>, PeerApp, PeerLost, PeerRemovedUs, raft::Persisted, SnapshotInstalled,
                               raft::SnapshotReady, raft::SnapshotBytes, SnapshotPart, SnapshotFailed, Shutdown>;

struct NodeSettings {
  raft::Config raft;
  uint64_t seed = 0;                 ///< of the election jitter
  uint64_t cluster_id = 0;
  Duration tick = Duration::millis(10);
  uint64_t compact_entries = 10000;  ///< the log is cut after so many entries (snapshot-count)
  uint64_t keep_entries = 5000;      ///< entries kept behind the cut for followers that lag a little
  uint64_t compact_bytes = 64 << 20; ///< ... or so many bytes: the log since the cut is in memory; half of it is kept
  AutoCompaction auto_compaction;
  Duration digest_period = DigestDesk::kPeriod;
  uint64_t nonce = 0;                ///< random per process, for the registration
  std::string name;
  std::vector<std::string> client_urls;
  StateSettings state;
  Requests::Limits requests;
};

class NodeLoop {
 public:
  /// Where effects go; all of them only post, none may be empty. A simulator puts its own in.
  struct Ports {
    std::function<void(std::vector<raft::Write>&&)> write;
    std::function<void(std::vector<raft::Message>&&)> send;
    std::function<void(NodeId to, uint8_t type, Bytes payload)> send_app;
    std::function<void(std::shared_ptr<storage::Engine>, const raft::SnapshotMeta&)> make_snapshot;
    std::function<void(const raft::SnapshotRead&)> read_snapshot;
    std::function<void(const SnapshotJob&, std::shared_ptr<storage::Engine>, const raft::SnapshotMeta&)> save_snapshot;
    std::function<void(const StateMachine&)> members_changed;  ///< as applied; also at a member's registration
    std::function<void(const std::string& why)> removed;       ///< this member is out for good: it must stop. Told once
    std::function<void(const Status&)> diverged;  ///< our state is not the cluster's: like fatal, and never again with this data directory
    std::function<void(const Status&)> fatal;  ///< does not return control to normal work
    const LogStats* log_stats = nullptr;       ///< for the view; may be null
  };
  /// `time` must outlive the loop.
  NodeLoop(NodeSettings settings, raft::RestoredState restored, std::unique_ptr<StateMachine> machine, Ports ports, const Clock& time);

  void run();  ///< turns, until Shutdown has been carried out
  /// One turn: takes what waits, steps the core, carries out what follows. A simulator calls it when something was
  /// posted and whenever next_tick() is due.
  void turn() { turn(mailbox_.try_take()); }
  [[nodiscard]] Instant next_tick() const { return next_tick_; }
  [[nodiscard]] bool wants_turn() const { return busy_ || !mailbox_.is_empty() || next_tick_ <= time_.monotonic(); }
  /// Of clients, since the start.
  [[nodiscard]] uint64_t requests_taken() const { return requests_taken_; }
  [[nodiscard]] bool is_done() const { return shutting_down_ && (!is_leader() || shutdown_until_ < now_); }
  [[nodiscard]] Mailbox<NodeEvent>& mailbox() { return mailbox_; }
  /// A picture of a few milliseconds ago; from any thread.
  [[nodiscard]] ClusterView view() const;

 private:
  void turn(std::vector<NodeEvent> events);
  void handle(NodeEvent& event);
  void drain();                       ///< effects of the core, until there are none
  void carry_out(raft::Output& output);
  void apply(std::vector<raft::Entry>& committed);
  void propose();                     ///< what clients and peers asked for, to the leader
  void tend_members();                ///< changes of the membership: asks, answers
  void lead_change(const pb::MemberChange& change);
  void members_applied();
  void was_removed(const std::string& why);
  void compact_old_revisions();       ///< as the options ask
  void compare_states();              ///< the members' digests
  void ask_about_leases();            ///< clients' questions that only the leader can answer
  void move_leader(const V3MoveLeader& request);
  void defragment(const V3Defragment& request);
  void lead_or_follow();              ///< leases run out only under a leader that has applied an entry of its own term
  void tick(Instant now);
  void compact();
  void install(SnapshotInstalled& installed);
  void soft_state_changed(const raft::SoftState& state);
  void publish_view(bool now);
  [[nodiscard]] bool is_bound_to_us(const raft::Membership& membership) const;
  [[nodiscard]] bool is_leader() const { return soft_.role == raft::Role::kLeader; }
  [[nodiscard]] RaftPosition position() const { return {machine_->applied().index, soft_.term}; }
  [[nodiscard]] v2::Clock clock() const;
  void fail_if(const Status& status) {
    if (!status.is_ok()) ports_.fatal(status);
  }

  NodeSettings settings_;
  Ports ports_;
  const Clock& time_;
  std::unique_ptr<StateMachine> machine_;
  raft::Core core_;
  raft::SoftState soft_;
  Requests requests_;
  MemberDesk members_;
  DigestDesk digests_;
  AutoCompactor auto_compactor_;
  bool removed_ = false;
  ClusterClock clock_;
  Mailbox<NodeEvent> mailbox_;
  std::vector<Bytes> forwarded_;      ///< commands of other nodes, for this drain's entry
  Instant now_;                       ///< monotonic, as of this turn of the loop
  Instant next_tick_;
  Instant registered_at_;             ///< when the registration was last proposed
  Term leading_since_;                ///< term whose first entry this leader has applied; deadlines run only then
  Index expiry_proposed_at_;          ///< last index when a time-only entry was proposed
  Index compacted_;
  std::deque<std::pair<uint64_t, size_t>> log_sizes_;  ///< index and bytes of the entries in memory, as far as they are applied
  uint64_t log_bytes_ = 0;
  bool flush_started_ = false;
  std::vector<std::pair<Call, Instant>> moves_;  ///< clients that wait for the transfer of leadership
  bool busy_ = false;                 ///< there is more to do than waiting for events
  bool shutting_down_ = false;
  Instant shutdown_until_;
  uint64_t ticks_ = 0;
  uint64_t requests_taken_ = 0;

  mutable std::mutex view_mutex_;
  ClusterView view_;
  Instant view_at_;
  uint64_t leader_changes_ = 0;
  uint64_t committed_entries_ = 0;
  int64_t start_unix_ns_ = 0;
  int64_t leader_start_unix_ns_ = 0;
  uint64_t appends_received_ = 0, appends_sent_ = 0;
};

}  // namespace rallypoint::server
