// Core: one node's Raft, whole and pure. An event goes in with step(), effects come out with take_output().
// It has no clock, no I/O, no threads, no logging and no randomness but its seed: the same events give the
// same outputs, byte for byte.
//
// Owned by the core loop; not thread safe. step() never blocks, is total (any well-formed message in any
// state) and finishes its work before it returns. Input from peers can never make it abort; a broken
// invariant does.
//
// What the driver must do with an Output, in this order:
//   1. hand `writes` to the log (in order); tell the core Persisted{n} when writes up to n are durable;
//   2. send `messages` (they are safe to send at once: whatever vouches for durability is held inside the
//   core
//      until the Persisted event that it waits for);
//   3. apply `committed` in order, then tell Applied{index};
//   4. answer `reads` once the state machine has applied at least `index`.
// Rules: Ongaro's thesis (2014), chapters 3, 4, 6, 9.6, 10.2.1; where a rule is ours, its unit says so.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "raft/base/status.h"
#include "raft/config.h"
#include "raft/message.h"
#include "raft/observer.h"
#include "raft/types.h"

namespace rallypoint::raft {

/// What the node found on its disk at start. A blank directory: all zero, `snapshot.membership` = the
/// bootstrap membership with unbound directories (or empty: then the node waits to be added as a learner).
struct RestoredState {
  HardState hard_state;
  SnapshotMeta snapshot;       ///< where the log starts; {0, 0, bootstrap membership} if it was never cut
  std::vector<Entry> entries;  ///< from snapshot.index + 1 on, contiguous
  Index applied;               ///< what the state machine holds durably; >= snapshot.index
};

// ---- events
// -------------------------------------------------------------------------------------------------

/// A message from a peer has arrived (its `to` is this node).
struct MessageReceived {
  Message message;
};

/// Commands to replicate, in order. Only a leader takes them; others answer each with a Rejection.
struct Propose {
  struct Item {
    uint64_t tag = 0;  ///< the driver's name for it, given back in a Rejection
    Bytes payload;
  };
  std::vector<Item> batch;
};

/// One linearizable read point for everything that the driver gathered. Ids never repeat in a process.
struct Read {
  uint64_t id = 0;
};

/// Writes up to `number` are durable.
struct Persisted {
  WriteNumber number;
};

/// The state machine has applied up to `index`.
struct Applied {
  Index index;
};

/// The leader's process is known dead (its connection broke and a reconnect was refused): elect without
/// waiting.
struct LeaderGone {
  NodeId node;
  Term term;
};

/// A snapshot that SnapshotWanted asked for exists: `meta` says what it covers, `size` its bytes.
struct SnapshotReady {
  SnapshotMeta meta;
  uint64_t size = 0;
};
/// The bytes that SnapshotRead asked for. Empty data with `failed` = it can't be read; the core starts anew.
struct SnapshotBytes {
  NodeId to;
  Index index;
  uint64_t offset = 0;
  Bytes data;
  bool last = false;
  bool failed = false;
};

/// The state machine holds everything up to `index` durably; the core may cut its log there (it keeps what a
/// running snapshot transfer needs). `index` <= applied.
struct Compact {
  Index index;
};

/// Change who votes. Several at once go through joint consensus; one voter more or less does not need it.
struct ChangeMembership {
  /// kAddVoter: a learner that the leader promotes by itself as soon as it has caught up.
  enum class Kind : uint8_t { kAddLearner, kPromote, kDemote, kRemove, kSetContext, kAddVoter };
  struct Change {
    Kind kind;
    NodeId id;
    DirectoryId directory;
  };
  uint64_t tag = 0;
  std::vector<Change> changes;
  Bytes context;  ///< replaces Membership::context if `set_context`
  bool set_context = false;
};

/// Hand leadership to `to` (0 = the most up to date voter). Answered by TransferResult.
struct TransferLeadership {
  NodeId to;
};

using Event = std::variant<MessageReceived, Propose, Read, Persisted, Applied, LeaderGone, SnapshotReady,
                           SnapshotBytes, Compact, ChangeMembership, TransferLeadership>;

// ---- effects
// ------------------------------------------------------------------------------------------------

enum class Role : uint8_t { kFollower, kPreCandidate, kCandidate, kLeader };
const char* role_name(Role role);

/// Who this node is and whom it follows; emitted when it changed.
struct SoftState {
  Role role = Role::kFollower;
  Term term;
  NodeId leader;  ///< 0 = unknown
  friend bool operator==(const SoftState&, const SoftState&) = default;
};

struct Rejection {
  uint64_t tag = 0;
  Status status;
  NodeId leader;
};
struct ReadResult {
  uint64_t id = 0;
  Status status;
  Index index;
};  ///< status OK: serve when applied >= index
struct MembershipResult {
  uint64_t tag = 0;
  Status status;
};  ///< OK once committed (and the joint phase left)
struct TransferResult {
  Status status;
};
struct SnapshotRead {
  NodeId to;
  Index index;
  uint64_t offset = 0;
  size_t bytes = 0;
};

struct Output {
  std::vector<Write> writes;
  std::vector<Message> messages;
  std::vector<Entry> committed;  ///< contiguous, committed and durable in this node's own log
  std::vector<ReadResult> reads;
  std::vector<Rejection> rejections;
  std::vector<MembershipResult> membership_results;
  std::vector<TransferResult> transfer_results;
  std::vector<SnapshotRead> snapshot_reads;
  bool snapshot_wanted = false;         ///< make a snapshot of the state as applied now; answer SnapshotReady
  std::optional<SoftState> soft_state;  ///< set when changed
  [[nodiscard]] bool empty() const;
};

class CoreState;  // the parts, in core_state.h; shared by the handlers only

class Core {
 public:
  /// Requires config.validate() OK. `observer` may be null; it is told typed events and must not call back.
  Core(Config config, uint64_t seed, RestoredState restored, Observer* observer = nullptr);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  void step(Event event);
  /// One tick of logical time; the driver calls it at a steady pace.
  void tick();
  /// Everything that happened since the last call. Cheap if nothing did.
  [[nodiscard]] Output take_output();

  // What can be asked at any time (for status pages, tests and invariants).
  [[nodiscard]] SoftState soft_state() const;
  [[nodiscard]] Index commit() const;
  [[nodiscard]] Index last_index() const;
  [[nodiscard]] Index first_index() const;
  [[nodiscard]] const Membership& membership() const;
  /// The whole state, for raft/invariants.h.
  [[nodiscard]] const CoreState& state() const { return *state_; }

 private:
  std::unique_ptr<CoreState> state_;
};

}  // namespace rallypoint::raft
