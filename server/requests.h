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
#include "server/state/state_machine.h"
#include "storage/v2/v2_watchers.h"

namespace rallypoint::server {

/// What a reply's headers state besides the store's index.
struct RaftPosition {
  Index applied;
  Term term;
};

class Requests {
 public:
  struct Limits {
    Duration request_timeout = Duration::seconds(25);  ///< then Unavailable or OutcomeUnknown
    Duration retry_after = Duration::millis(1000);     ///< a proposal or read index unanswered for so long is lost
  };
  Requests(NodeId self, Limits limits) : self_(self), limits_(limits) {}

  /// Called once per process, when the registration has been applied: from now on writes can be proposed.
  void set_incarnation(uint64_t incarnation) { incarnation_ = incarnation; }
  [[nodiscard]] uint64_t incarnation() const { return incarnation_; }

  /// Takes a batch from a net loop. `now` is this process's monotonic clock, `clock` what the state's TTLs show.
  void take(std::vector<Request>&& batch, StateMachine& machine, Instant now, const v2::Clock& clock, const RaftPosition& at);

  /// Commands to hand to the leader now; they stay outstanding until applied. Empty before the registration.
  std::vector<Bytes> take_proposals(Instant now);
  /// Proposes everything outstanding again (the leader changed).
  void propose_again();

  /// A read index must be asked for: everything new waits for it under this id; 0 = nothing new.
  uint64_t take_read(Instant now);
  void read_confirmed(uint64_t id, Index index);
  void read_failed(uint64_t id);
  /// Serves reads whose index has been applied.
  void serve_reads(StateMachine& machine, const v2::Clock& clock, const RaftPosition& at);

  /// Entries were applied: answers writers and wakes watchers.
  void applied(const Effects& effects, const v2::Tree& tree, const RaftPosition& at);
  /// A snapshot replaced the state: watchers end, writes that it covers have an unknown outcome.
  void state_replaced(const StateMachine& machine, const RaftPosition& at);
  /// Time passes: lost proposals and reads are tried again, those too old answered.
  void tick(Instant now, const RaftPosition& at);

  /// Hands the replies gathered since the last call to their net loops, one batch each.
  void flush();

  [[nodiscard]] size_t writes_waiting() const { return writes_.size(); }
  [[nodiscard]] size_t watchers() const { return hub_.size(); }
  [[nodiscard]] uint64_t failed() const { return failed_; }

 private:
  struct Write {
    Call call;
    v2::WriteRequest request;
    Bytes command;  ///< encoded when first proposed
    Instant deadline;
    Instant proposed;
  };
  struct Reading {
    Call call;
    std::variant<v2::ReadRequest, v2::WriteRequest> what;  ///< a write that lost its compare, to be confirmed
    Instant deadline;
  };
  struct Round {
    std::vector<Reading> readings;
    Instant asked;
    Index index;
    bool confirmed = false;
  };
  struct Watching {
    Call call;
    uint64_t etcd_index;
  };

  void start_write(Call call, v2::WriteRequest request, Instant deadline);
  void answer(Call call, v2::Outcome outcome, uint64_t fallback_index, const RaftPosition& at);
  void fail(Call call, Status status, const RaftPosition& at);
  void read_now(Call call, const v2::ReadRequest& request, StateMachine& machine, const v2::Clock& clock, const RaftPosition& at);
  void watch(const V2Watch& request, StateMachine& machine, const RaftPosition& at);
  void cancel(Call call);
  void reply(Call call, Reply reply);

  NodeId self_;
  Limits limits_;
  uint64_t incarnation_ = 0;
  uint64_t next_sequence_ = 1;
  std::map<uint64_t, Write> writes_;     ///< by sequence; the first is the low water
  std::vector<uint64_t> to_propose_;
  std::vector<Reading> new_reads_;
  std::map<uint64_t, Round> rounds_;
  uint64_t next_read_ = 1;
  v2::WatcherHub hub_;
  uint64_t next_watch_ = 1;
  std::unordered_map<uint64_t, Watching> watching_;
  std::map<std::pair<ReplySink*, uint64_t>, uint64_t> watch_of_call_;
  std::unordered_map<ReplySink*, std::vector<Reply>> replies_;
  uint64_t failed_ = 0;
};

}  // namespace rallypoint::server
