// Oracle: judges a run from outside. It sees every write, message, commit and read of every node and keeps
// its own account of the past; it shares no code with the core. Each check costs about constant time.
//
// The account: one record per committed index (the first node that commits it must be a leader with a durable
// quorum), the content and predecessor of each entry id ever written, each vote ever sent, and all
// directories ever used, the wiped ones frozen.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "raft/core.h"
#include "tests/sim/disk.h"
#include "tests/sim/world.h"

namespace rallypoint::sim {

class Oracle {
 public:
  explicit Oracle(World& world) : world_(world) {}

  void directory_made(const std::shared_ptr<Disk>& disk) { directories_[disk->id()] = disk; }
  void process_started(const Node& node);

  // Around each call into a core. `message` is what was delivered, if that was it.
  void before_call(const Node& node);
  void after_call(const Node& node, const char* event, const raft::Message* message);

  void told_leader_gone(const Node& node);

  // For each part of an output.
  void check_write(const Node& node, const raft::Write& write);
  void check_message(const Node& node, const raft::Message& message);
  void check_to_apply(const Node& node, const raft::Entry& entry);
  void check_engine(const Node& node) const;
  void check_drained(const Node& node);
  void check_snapshot(const raft::SnapshotMeta& meta, uint64_t digest) const;

  // Clients.
  void proposed(uint64_t id) { proposals_[id] = Proposal{}; }
  void refused(uint64_t id, const Status& status);
  [[nodiscard]] Index read_floor() const { return committed(); }
  void check_read_index(const Node& node, Index floor, Index index) const;
  void check_register(const Node& node, uint32_t key, uint64_t value, Index at) const;

  [[nodiscard]] Index committed() const { return Index(records_.size()); }
  /// The membership in force at the end of the committed log.
  [[nodiscard]] const raft::Membership& membership() const { return memberships_.rbegin()->second; }
  [[nodiscard]] uint64_t digest_at(Index index) const {
    return index.is_zero() ? 0 : records_[index - Index(1)].digest;
  }
  /// Index of the proposal's entry; 0 = not committed.
  [[nodiscard]] Index index_of(uint64_t proposal) const;
  [[nodiscard]] bool all_bound() const;
  /// True if a committed membership ever listed the node.
  [[nodiscard]] bool was_member(NodeId id) const;
  /// True if `member`'s directory was wiped (or the member has another one by now).
  [[nodiscard]] bool is_lost(const raft::Member& member) const;
  /// True if with one more lost member `extra` every membership that may be in force keeps a live quorum.
  [[nodiscard]] bool survives_loss_of(NodeId extra) const;
  /// True if `next` would keep a live quorum with what is lost now.
  [[nodiscard]] bool survives(const raft::Membership& next, NodeId extra) const;

  void start_from(const raft::Membership& bootstrap) { memberships_[Index(0)] = bootstrap; }

 private:
  struct Record {
    Term term;
    Term committed_in;  ///< the term of the leader who did
    raft::EntryKind kind;
    uint64_t content;  ///< digest of the entry alone
    uint64_t digest;   ///< of all entries up to it
  };
  struct KnownEntry {
    uint64_t content;
    Term previous;
  };
  struct Grant {
    NodeId voter;
    DirectoryId directory;
    NodeId candidate;
  };
  struct Proposal {
    bool refused = false;
    Index index;
  };
  struct Register {
    Index index;
    uint64_t value;
  };
  /// What one process has shown so far; begins anew with each start.
  struct Process {
    raft::SoftState before;
    Index commit_before;
    Index commit_drained;  ///< when its output was last taken
    Term acked_term;       ///< entries up to acked_match were acked to the leader of this term
    Index acked_match;
    uint64_t leader_heard_tick = 0;
    Term leader_heard_term;
    bool told_leader_gone = false;
    uint64_t outside_since_tick = 0;  ///< a leader outside the committed membership since then; 0 = is not
    uint64_t leading_since_tick = 0;
    std::map<NodeId, uint64_t> heard_tick;
    bool wrote_entries = false;  ///< during this call
  };

  void check_election(const Node& node, const raft::SoftState& now);
  void check_leader_health(const Node& node, Process& process);
  void check_commit(const Node& node, Process& process);
  void record(const Node& node, const raft::Entry& entry, Term leader_term);
  void check_leader_append(const Node& node, const raft::Entry& entry);
  void add_grant(Term term, const Grant& grant);
  [[nodiscard]] bool vouches(const raft::Member& member, raft::EntryId id) const;
  void check_granted_vote(const Node& node, const raft::Message& message, bool pre_vote);

  World& world_;
  std::map<DirectoryId, std::shared_ptr<Disk>> directories_;
  std::vector<Record> records_;
  std::map<Index, raft::Membership> memberships_;  ///< committed ones
  struct IdHash {
    size_t operator()(const raft::EntryId& id) const {
      return std::hash<uint64_t>{}(id.index.value() * 0x9e3779b97f4a7c15ULL ^ id.term.value());
    }
  };
  std::unordered_map<raft::EntryId, KnownEntry, IdHash> known_;
  struct Leader {
    NodeId node;
    DirectoryId directory;
    uint64_t life;
  };
  std::map<Term, Leader> leaders_;
  std::map<Term, std::vector<Grant>> grants_;
  std::map<NodeId, Process> processes_;
  std::unordered_map<uint64_t, Proposal> proposals_;
  std::vector<Register> registers_[kRegisters];
};

}  // namespace rallypoint::sim
