// MemberDesk: changes of the membership, on both sides. What this node's clients ask for goes to the leader and is
// answered (server/member_requests.h); what any member asks this node for while it leads is planned by the rules
// (server/cluster_info.h), put to the core, and answered unless the entry itself will tell.
//
// Owned by the node loop, single-threaded; it knows neither sockets nor threads.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "raft/core.h"
#include "server/member_requests.h"
#include "server/state/state_machine.h"

namespace rallypoint::server {

class MemberDesk {
 public:
  explicit MemberDesk(NodeId self) : self_(self), requests_(self) {}

  // ---- this node's clients
  MemberRequests& requests() { return requests_; }
  /// To be sent to the leader now, as frames; or, if this node leads, to be put to ask().
  std::vector<pb::MemberChange> take_due(Instant now) { return requests_.take_due(now); }
  /// A frame of the leader.
  void on_answer(const Bytes& frame, Instant now);

  // ---- the leader
  /// A frame of a member; nothing if it is malformed or speaks for somebody else.
  [[nodiscard]] static std::optional<pb::MemberChange> decode(NodeId from, const Bytes& frame);
  /// What the core is to be asked for, if anything. `core` leads; `settled` = it has applied an entry of its own term.
  [[nodiscard]] std::optional<raft::Event> ask(const pb::MemberChange& change, const raft::Core& core, const StateMachine& machine, bool settled);
  /// The core's word on what ask() gave it.
  void decided(const raft::MembershipResult& result);
  /// Frames for other members. Answers to this node's own requests have been told to them.
  std::vector<std::pair<NodeId, Bytes>> take_answers(Instant now);

 private:
  void answer(const pb::ChangeId& to, const Status& status, bool again);

  NodeId self_;
  MemberRequests requests_;
  uint64_t next_tag_ = 1;
  std::map<uint64_t, pb::ChangeId> asked_;  ///< by tag: what the core works on
  uint64_t handed_over_for_ = 0;  ///< the last removal of this leader for which it tried to hand leadership over first
  std::vector<pb::MemberChangeAnswer> answers_;
};

}  // namespace rallypoint::server
