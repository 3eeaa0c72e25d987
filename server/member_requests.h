// MemberRequests: changes of the membership that clients asked this node for, until they are answered. They are sent to
// the leader, again to each new leader, and again when it says "not now"; one is done when the entry that made it is
// applied here (server/cluster_info.h says why that is exact).
//
// Owned by the node loop, single-threaded. It decides what to send and answers; it knows neither Raft nor sockets.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "server/api/api.h"
#include "server/cluster_info.pb.h"

namespace rallypoint::server {

class MemberRequests {
 public:
  struct Limits {
    Duration timeout = Duration::seconds(10);     ///< then Unavailable or OutcomeUnknown; 500 for v2
    Duration unhealthy = Duration::seconds(3);    ///< a cluster that is unhealthy for so long is called so
    Duration again = Duration::millis(50);        ///< after "not now"
    Duration retry = Duration::millis(1000);      ///< no word from the leader
  };
  explicit MemberRequests(NodeId self) : MemberRequests(self, Limits()) {}
  MemberRequests(NodeId self, Limits limits) : self_(self), limits_(limits) {}

  /// From now on requests have names, and can be sent.
  void set_incarnation(uint64_t incarnation) { incarnation_ = incarnation; }
  void take(ChangeMember request, Instant now);

  /// What must go to the leader now.
  std::vector<pb::MemberChange> take_due(Instant now);
  /// The leader changed: everything goes out again.
  void send_again();
  void answered(const pb::MemberChangeAnswer& answer, Instant now);
  /// A membership was applied.
  void applied(const pb::ClusterInfo& info);
  /// This member was removed, whoever asked for it.
  void removed_self();
  void tick(Instant now);

  /// Replies made since the last call, a Member or a Status each.
  std::vector<std::pair<Call, Reply>> take_replies() { return std::exchange(replies_, {}); }
  [[nodiscard]] bool empty() const { return waiting_.empty(); }

 private:
  struct Waiting {
    Call call;
    pb::MemberChange change;
    Instant deadline;
    Instant unhealthy_at;
    Instant due;          ///< when to send next
    bool under_way = false;  ///< sent, and no answer: it may yet take effect
    Status refusal;       ///< the last one
  };
  void finish(std::map<uint64_t, Waiting>::iterator it, Status status);

  NodeId self_;
  Limits limits_;
  uint64_t incarnation_ = 0;
  uint64_t next_sequence_ = 1;
  std::map<uint64_t, Waiting> waiting_;  ///< by sequence
  std::vector<std::pair<Call, Reply>> replies_;
};

}  // namespace rallypoint::server
