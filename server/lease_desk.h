// LeaseDesk: what a client asks about a lease and only the leader knows: a renewal, and how much time is left. At a
// follower the question is forwarded, and asked again when the leader changes; at the leader it waits for a read index,
// so that it is answered by a leader that was confirmed after the question came (etcd#13915). Renewing a lease with a
// checkpointed remainder first commits the removal of that note, or the next leader would cut the lease short.
//
// It also does the leader's duties: proposes the revoking of leases that ran out, and checkpoints.
// Owned by the node loop, single-threaded.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <variant>
#include <vector>

#include "server/proposals.h"
#include "server/replies.h"
#include "server/state/state_machine.h"

namespace rallypoint::server {

class LeaseDesk {
 public:
  enum class What : uint8_t { kRenew, kTimeLeft, kTimeLeftAndKeys };
  /// A question at the leader, waiting for its read index.
  struct Pending {
    NodeId from;      ///< zero: asked here
    uint64_t id = 0;  ///< the asker's
    int64_t lease = 0;
    bool renew = false;
  };

  LeaseDesk(NodeId self, uint64_t cluster_id, Proposals& proposals, Replies& replies)
      : self_(self), cluster_id_(cluster_id), proposals_(proposals), replies_(replies) {}

  void ask(Call call, int64_t lease, What what, Instant deadline);
  void cancel(Call call);

  /// At a follower: what to send to the leader now; empty = nothing.
  Bytes take_forward(Instant now, Duration retry_after);
  /// At the leader: what was asked here and by others since the last call; each waits for a read index.
  std::vector<Pending> take_pending();
  /// The leader changed: everything that waits here is asked again.
  void leader_changed();
  /// Questions of another member, at the leader.
  void on_questions(NodeId from, const Bytes& message);
  /// The leader's answers to ours.
  void on_answers(const Bytes& message, const StateMachine& machine, const RaftPosition& at);

  /// The leader was confirmed after the question came.
  void confirmed(const Pending& pending, StateMachine& machine, Instant now, const RaftPosition& at);
  /// Leases changed: renewals that waited for the removal of a checkpoint.
  void applied(StateMachine& machine, const RaftPosition& at);
  /// Answers for other members, one message each.
  std::vector<std::pair<NodeId, Bytes>> take_answers();

  /// The leader's duties; `term` is its own.
  void tick(StateMachine& machine, Instant now, Term term);
  /// Ends what is too old; cheap when nothing is.
  void expire(Instant now, const RaftPosition& at);

 private:
  struct Asked {
    Call call;
    int64_t lease = 0;
    What what = What::kRenew;
    Instant deadline;
    Instant sent;
    bool pending = false;  ///< at the leader: waits for a read index
  };
  struct Held {
    Pending pending;
    int64_t ttl_s = 0;
  };
  void answer(const Pending& pending, int64_t ttl_s, const StateMachine& machine, const RaftPosition& at);
  void finish(uint64_t id, int64_t ttl_s, const StateMachine& machine, const RaftPosition& at);

  NodeId self_;
  uint64_t cluster_id_;
  Proposals& proposals_;
  Replies& replies_;
  static constexpr Instant kNever{std::numeric_limits<int64_t>::max()};
  Instant earliest_ = kNever;        ///< no question's deadline is before it
  std::map<uint64_t, Asked> asked_;  ///< by id, so in the order in which it came
  uint64_t next_id_ = 1;
  std::vector<uint64_t> new_;
  std::vector<Pending> from_others_;
  std::unordered_multimap<int64_t, Held> held_;  ///< by lease: renewed, but its checkpoint is not gone yet
  std::map<NodeId, std::vector<std::pair<uint64_t, int64_t>>> answers_;
};

}  // namespace rallypoint::server
