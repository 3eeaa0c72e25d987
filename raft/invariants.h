// Invariants: every safety property of the core as code, checked on one state, between two, and over a
// cluster. Tests and the simulation run them after each step; the product does not. Each check costs about
// constant time (or the size of what is new since the last one).
//
// A broken property is returned as text, empty = all hold; check_invariants() stops on it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "raft/core_state.h"

namespace rallypoint::raft {

/// Properties of a single state: order of the marks, role and its data, progress, memberships.
[[nodiscard]] std::string broken_in(const CoreState& state);
/// RALLY_CHECKs broken_in().
void check_invariants(const CoreState& state);

/// What must be remembered of a state to judge the next one.
struct StateSummary {
  explicit StateSummary(const CoreState& state);
  Term term;
  NodeId vote;
  NodeId leader;
  Role role;
  Index base, commit, delivered, applied, last;
  uint64_t rewrites = 0;
};
/// Properties of a transition of one process: terms, votes and marks never go back; a leader only appends.
[[nodiscard]] std::string broken_between(const StateSummary& before, const CoreState& after);

/// The paper's figure 3 over all nodes that run. Feed it every state after each step.
class ClusterInvariants {
 public:
  /// Call when a process starts anew (it may have lost what was not durable).
  void restarted(NodeId id) { seen_.erase(id); }
  /// `states`: one per running node. Returns what is broken, empty if nothing.
  [[nodiscard]] std::string check(const std::vector<const CoreState*>& states);

  [[nodiscard]] Index committed() const { return Index(committed_.size()); }

 private:
  struct Seen {
    uint64_t rewrites = 0;
    Index last, commit;
    Index membership_index;
  };
  struct Known {
    Term previous;
    uint64_t content;
  };
  struct IdHash {
    size_t operator()(const EntryId& id) const {
      return std::hash<uint64_t>{}(id.index.value() * 0x9e3779b97f4a7c15ULL ^ id.term.value());
    }
  };
  std::string check_log(const CoreState& state, Seen& seen);
  std::string check_commit(const CoreState& state, Seen& seen, const std::vector<const CoreState*>& states);
  std::string check_leader(const CoreState& state);
  std::string check_memberships(const CoreState& state, Seen& seen);
  std::string check_acks(const CoreState& leader, const std::vector<const CoreState*>& states) const;

  std::map<NodeId, Seen> seen_;
  std::map<Term, Member> leaders_;
  std::unordered_map<EntryId, Known, IdHash> known_;  ///< every entry ever seen in a log
  std::vector<EntryId> committed_;  ///< by index from 1; zero terms = under a snapshot, not seen
};

}  // namespace rallypoint::raft
