// StateMachine: one committed entry -> state. The only place where replicated state changes: the v2 tree, the
// members' attributes, the sessions (exactly once), the applied membership and cluster time.
//
// Owned by the node loop; single-threaded. No clock, no randomness, no threads: the same log gives the same state and
// the same digest on every node. Everything that a batch of entries changed goes into the engine in one write, applied
// index included, so that data and index can never part (etcd#13766). It never fails for reasons that differ between
// nodes: a bad command is an answer, a malformed entry or a broken engine is a Status that stops the node.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "raft/membership.h"
#include "raft/types.h"
#include "server/state/entry.h"
#include "server/state/sessions.h"
#include "server/state/v3_state.h"
#include "storage/engine/engine.h"
#include "storage/v2/v2_tree.h"

namespace rallypoint::server {

struct MemberAttributes {
  std::string name;
  std::vector<std::string> client_urls;
};

/// What applying did that somebody outside of the state may wait for.
struct Effects {
  struct Answer {
    NodeId node;
    uint64_t incarnation = 0;
    uint64_t sequence = 0;
    std::variant<v2::Outcome, mvcc::Outcome> outcome;
  };
  std::vector<Answer> answers;          ///< of commands applied (not of duplicates), in order
  std::vector<v2::EventPtr> events;     ///< for watchers, in order
  std::vector<mvcc::Event> v3_events;   ///< likewise, of the keyspace
  /// A place in the log where members compare their states: the digest behind that entry, and what most members had at
  /// an earlier one (0 = not known).
  struct DigestMark {
    Index index;
    uint64_t digest = 0;
    uint64_t about_index = 0;
    uint64_t about_digest = 0;
  };
  std::vector<DigestMark> digest_marks;
  int64_t compacted = 0;                ///< the keyspace was compacted up to here, after those events; 0 = it was not
  bool leases_changed = false;          ///< granted, revoked, checkpointed
  bool members_changed = false;         ///< membership or a member's attributes
};

struct StateSettings {
  uint64_t cluster_id = 0;  ///< in every answer's header
  V3State::Settings v3;
};

class StateMachine {
 public:
  using Settings = StateSettings;
  /// Loads the state that the engine holds; an empty engine gives the initial state with `bootstrap`.
  static Result<std::unique_ptr<StateMachine>> open(std::shared_ptr<storage::Engine> engine, const raft::Membership& bootstrap,
                                                     const Settings& settings = {});

  /// Whose clients wait here: answers are made for commands of this node and incarnation only.
  void set_local(NodeId node, uint64_t incarnation) { local_ = {node, incarnation}; }

  /// Applies an entry in memory; its index must follow the last one. Commit it with write_batch().
  Status apply(const raft::Entry& entry, Effects& effects);
  /// Puts everything applied since the last call into the engine, atomically.
  Status write_batch();

  /// A slice of the keyspace's physical compaction; written with the next batch, or at once if none is due.
  Status compact_slice(size_t rows_max);

  // Reads. All of them show the state as applied, written or not.
  [[nodiscard]] v2::Tree& tree() { return tree_; }
  [[nodiscard]] const v2::Tree& tree() const { return tree_; }
  [[nodiscard]] V3State& v3() { return *v3_; }
  [[nodiscard]] const V3State& v3() const { return *v3_; }
  [[nodiscard]] const Sessions& sessions() const { return sessions_; }
  [[nodiscard]] const std::map<NodeId, MemberAttributes>& attributes() const { return attributes_; }
  /// Applied index, its term, and the membership in force there: what a snapshot of the engine stands for.
  [[nodiscard]] const raft::SnapshotMeta& applied() const { return applied_; }
  /// Tells this cluster from one that was founded again under the same id, by a member whose directory was wiped: the
  /// first entry of the log binds the random ids of the founders' directories. 0 until it is applied.
  [[nodiscard]] uint64_t founding() const { return founding_; }
  [[nodiscard]] Instant cluster_time() const { return time_.cluster_time; }
  [[nodiscard]] const std::shared_ptr<storage::Engine>& engine() const { return engine_; }
  /// The applied index that a crash right now would leave.
  [[nodiscard]] Result<Index> persisted_index() const;
  /// Of everything; visits the whole v2 tree.
  [[nodiscard]] uint64_t digest() const;
  /// Kept along with every change, so cheap; of the v2 tree it knows its index only.
  [[nodiscard]] uint64_t running_digest() const;

 private:
  StateMachine(std::shared_ptr<storage::Engine> engine, const Settings& settings) : engine_(std::move(engine)), settings_(settings) {}
  Status load(const raft::Membership& bootstrap);
  Status apply_commands(const raft::Entry& entry, Effects& effects);
  Status apply_command(std::string_view bytes, const raft::Entry& entry, const v2::Clock& now, Effects& effects);
  Status apply_v3(const pb::Command& command, const raft::Entry& entry, Effects& effects);

  std::shared_ptr<storage::Engine> engine_;
  Settings settings_;
  std::unique_ptr<V3State> v3_;
  std::pair<NodeId, uint64_t> local_;
  v2::Tree tree_;
  Sessions sessions_;
  std::map<NodeId, MemberAttributes> attributes_;
  std::vector<NodeId> changed_attributes_;
  raft::SnapshotMeta applied_;
  EntryTime time_;
  uint64_t founding_ = 0;
  bool dirty_ = false;
};

}  // namespace rallypoint::server
