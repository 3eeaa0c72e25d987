// Sessions: which commands of which node have been applied, so that a command proposed twice is applied once.
//
// Every command carries (node, incarnation, sequence, low water). The incarnation is the log index of the node's
// registration, its first proposal after a start; a newer one voids all older ones. Per node the state keeps the low
// water (the oldest sequence that the node still waits for) and the set applied above it, as runs. Below the mark a
// command is void: its origin has given it up, so nobody waits for it.
//
// Part of the replicated state, pure; owned by the state machine.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "raft/base/status.h"
#include "raft/base/units.h"
#include "storage/engine/engine.h"

namespace rallypoint::server {

class Sessions {
 public:
  /// Registers a node; returns its incarnation: `index`, or the earlier one if this nonce is registered already.
  uint64_t register_node(NodeId node, uint64_t nonce, Index index);

  enum class Verdict : uint8_t { kApply, kDuplicate, kVoid };
  /// Decides on a command and, for kApply, notes it as applied.
  Verdict admit(NodeId node, uint64_t incarnation, uint64_t sequence, uint64_t low_water);

  /// Whether that command has been applied, as far as is known (false below the low water).
  [[nodiscard]] bool was_applied(NodeId node, uint64_t incarnation, uint64_t sequence) const;
  /// The node's current incarnation; 0 = none. `nonce` must match.
  [[nodiscard]] uint64_t incarnation_of(NodeId node, uint64_t nonce) const;

  /// Rows of the nodes that changed since the last call.
  void collect_changes(storage::WriteBatch& batch);
  Status load(const storage::EngineView& view);
  [[nodiscard]] uint64_t digest() const;

 private:
  struct Session {
    uint64_t incarnation = 0;
    uint64_t nonce = 0;
    uint64_t low_water = 1;
    std::map<uint64_t, uint64_t> runs;  ///< first -> last; disjoint, not adjacent, all >= low_water
    [[nodiscard]] bool holds(uint64_t sequence) const;
    void add(uint64_t sequence);
    void raise(uint64_t low_water);
  };
  static std::string encode(const Session& session);

  std::map<NodeId, Session> sessions_;
  std::set<NodeId> changed_;
};

}  // namespace rallypoint::server
