// Requests: the clients that wait at this node, from the moment their request leaves the net loop until its one reply.
// Writes wait to be applied here, reads wait for a read index; both are held through elections and tried again, so a
// client sees a pause and not an error. A write is applied once however often it is proposed (server/state/sessions.h).
//
// Owned by the node loop, single-threaded. It decides what must be proposed, forwarded or read, and answers; it knows
// neither Raft nor sockets.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "server/api/api.h"
#include "server/lease_desk.h"
#include "server/proposals.h"
#include "server/read_rounds.h"
#include "server/replies.h"
#include "server/state/state_machine.h"
#include "server/v3_requests.h"
#include "storage/v2/v2_watchers.h"

namespace rallypoint::server {

class Requests {
 public:
  struct Limits {
    Duration request_timeout = Duration::seconds(25);  ///< v2: then Unavailable or OutcomeUnknown
    Duration retry_after = Duration::millis(1000);     ///< a proposal or read index unanswered for so long is lost
    V3Requests::Settings v3;
  };
  Requests(NodeId self, const Limits& limits);

  /// Called once per process, when the registration has been applied: from now on writes can be proposed.
  void set_incarnation(uint64_t incarnation) { proposals_.set_incarnation(incarnation); }
  [[nodiscard]] uint64_t incarnation() const { return proposals_.incarnation(); }

  /// Takes a batch from a net loop. `now` is this process's monotonic clock, `clock` what the state's TTLs show.
  void take(std::vector<Request>&& batch, StateMachine& machine, Instant now, const v2::Clock& clock, const RaftPosition& at);

  /// Commands to hand to the leader now; they stay outstanding until applied. Empty before the registration.
  std::vector<Bytes> take_proposals(Instant now) { return proposals_.take(now); }
  /// The leader changed: everything outstanding is proposed and asked again.
  void propose_again();

  /// A read index must be asked for: everything new waits for it under this id; 0 = nothing new.
  uint64_t take_read(Instant now) { return rounds_.take(now); }
  void read_confirmed(uint64_t id, Index index) { rounds_.confirmed(id, index); }
  void read_failed(uint64_t id) { rounds_.failed(id); }
  /// Serves reads whose index has been applied.
  void serve_reads(StateMachine& machine, Instant now, const v2::Clock& clock, const RaftPosition& at);

  /// Questions about leases: to the leader, or, at the leader, into the next round of reads.
  Bytes take_lease_questions(Instant now) { return desk_.take_forward(now, limits_.retry_after); }
  void take_lease_questions_here(Instant now);
  LeaseDesk& lease_desk() { return desk_; }

  /// Entries were applied: answers writers and wakes watchers.
  void applied(Effects& effects, StateMachine& machine, Instant now, const RaftPosition& at);
  /// A snapshot replaced the state: watchers end, writes that it covers have an unknown outcome.
  void state_replaced(const StateMachine& machine, Instant now, const RaftPosition& at);
  /// Answers what is too old. Callers' deadlines are as exact as this is called often; cheap when there is none.
  void expire(Instant now, const RaftPosition& at);
  /// Time passes: lost proposals and reads are tried again, those too old answered.
  void tick(const StateMachine& machine, Instant now, const RaftPosition& at);

  /// Hands the replies gathered since the last call to their net loops, one batch each.
  void flush();

  V3Requests& v3() { return v3_; }
  Replies& replies() { return replies_; }
  Proposals& proposals() { return proposals_; }
  [[nodiscard]] size_t writes_waiting() const { return proposals_.waiting(); }
  [[nodiscard]] size_t watchers() const { return hub_.size(); }
  [[nodiscard]] uint64_t failed() const { return replies_.failed(); }

 private:
  struct Reading {
    Call call;
    /// A V2 write: it lost its compare, to be confirmed.
    std::variant<v2::ReadRequest, v2::WriteRequest, V3Read, LeaseDesk::Pending> what;
    Instant deadline;
  };
  struct Watching {
    Call call;
    uint64_t etcd_index;
  };

  void take_v3_read(V3Read&& read, StateMachine& machine, Instant now, const RaftPosition& at);
  void start_write(Call call, const v2::WriteRequest& request, Instant deadline);
  void answer(Call call, v2::Outcome outcome, uint64_t fallback_index, const RaftPosition& at);
  void read_now(Call call, const v2::ReadRequest& request, StateMachine& machine, const v2::Clock& clock, const RaftPosition& at);
  void watch(const V2Watch& request, StateMachine& machine, const RaftPosition& at);
  void cancel_v2(Call call);
  void cancel_v3(Call call);
  void tell_v2_watchers(const Effects& effects, const RaftPosition& at);

  NodeId self_;
  Limits limits_;
  Proposals proposals_;
  ReadRounds<Reading> rounds_;
  Replies replies_;
  LeaseDesk desk_;
  V3Requests v3_;
  v2::WatcherHub hub_;
  uint64_t next_watch_ = 1;
  std::unordered_map<uint64_t, Watching> watching_;
  std::map<std::pair<ReplySink*, uint64_t>, uint64_t> watch_of_call_;
};

}  // namespace rallypoint::server
