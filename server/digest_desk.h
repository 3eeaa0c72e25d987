// DigestDesk: members compare what applying the same log has made of their states. From time to time the leader logs a
// mark; whoever applies it notes the running digest of its state there and tells the leader. What most voters say is
// what the state is, and goes into the log with the next mark: a member that has something else at that mark knows by
// itself that it must not serve any more. If no majority agrees, nobody can be trusted: alarm CORRUPT, as etcd's.
//
// It finds what applies differently on one machine (a bug, a flipped bit in memory), not what rots on a disk; there the
// engine's checksums do. Owned by the node loop, single-threaded, no clock of its own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "raft/base/bytes.h"
#include "raft/base/units.h"
#include "raft/membership.h"
#include "server/proposals.h"
#include "server/state/state_machine.h"

namespace rallypoint::server {

class DigestDesk {
 public:
  /// Between marks; none is made while nothing changes.
  static constexpr Duration kPeriod = Duration::seconds(10);

  DigestDesk(NodeId self, Duration period = kPeriod) : self_(self), period_(period) {}

  /// A mark was applied here. DataLoss: this member's state is not the one that most members have.
  Status applied(const Effects::DigestMark& mark);
  /// What to tell the leader of the last mark, once; empty = nothing. A leader takes it for itself.
  Bytes take_report();
  /// At the leader: what a member says of its last mark. Malformed reports are dropped.
  void on_report(NodeId from, const Bytes& report);

  /// At the leader, every now and then: compares, and proposes what is due. DataLoss as above.
  Status tick(const StateMachine& machine, Proposals& proposals, Instant now);
  /// Another leader: reports go there.
  void leader_changed() { told_ = 0; }

 private:
  struct Verdict {
    std::optional<uint64_t> agreed;  ///< what a majority of the voters has
    bool differs = false;            ///< and somebody has not
    bool disputed = false;           ///< all voters have spoken and no majority agrees
  };
  [[nodiscard]] Verdict verdict(const raft::Membership& membership) const;
  void propose(Proposals& proposals, const std::string& body, Instant now);
  [[nodiscard]] Status diverged(uint64_t index, uint64_t ours, uint64_t theirs) const;

  NodeId self_;
  Duration period_;
  uint64_t index_ = 0;   ///< the last mark applied here; 0 = none since the start
  uint64_t digest_ = 0;
  uint64_t told_ = 0;    ///< the mark that was reported
  std::map<uint64_t, std::map<NodeId, uint64_t>> reports_;  ///< mark -> member -> digest; of the last marks only
  Instant marked_at_;
  uint64_t settled_ = 0;  ///< mark whose disagreement has been proposed
};

}  // namespace rallypoint::server
