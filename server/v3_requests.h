// V3Requests: the clients of etcd's v3 API that wait at this node: writes on their way through the log, reads at their
// turn, watch streams, answers that come in parts. server/requests.h owns it and does what v2 shares with it.
//
// Owned by the node loop, single-threaded. It decides and answers; it knows neither Raft nor sockets.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "server/lease_desk.h"
#include "server/proposals.h"
#include "server/replies.h"
#include "server/snapshotter.h"
#include "server/state/state_machine.h"
#include "storage/watch/watch_hub.h"

namespace rallypoint::server {

class V3Requests {
 public:
  struct Settings {
    uint64_t cluster_id = 0;
    Duration timeout = Duration::seconds(7);      ///< as etcd's: 5 s and two election timeouts
    int64_t quota_bytes = int64_t{2} << 30;       ///< of live bytes; beyond it nothing is stored
    size_t part_bytes = 512 << 10;                ///< of an answer that comes in parts
    watch::WatchHub::Settings watch;
  };
  V3Requests(NodeId self, const Settings& settings, Proposals& proposals, Replies& replies);

  [[nodiscard]] Instant deadline(Duration caller_waits, Instant now) const;
  void write(V3Write&& request, const StateMachine& machine, Instant now, const RaftPosition& at);
  /// Serves a read on the state as it is.
  void read(const V3Read& request, StateMachine& machine, const RaftPosition& at);
  void watch(const V3WatchMessage& request, const StateMachine& machine, Instant now, const RaftPosition& at);
  void flow(const V3WatchFlow& request);
  void snapshot(const V3Snapshot& request);
  void more(const V3More& request, const RaftPosition& at);
  /// What the snapshotter must do for clients that save the state.
  std::vector<SnapshotJob> take_snapshot_jobs() { return std::exchange(snapshot_jobs_, {}); }
  void snapshot_part(SnapshotPart&& part, const StateMachine& machine, const RaftPosition& at);
  void cancel(Call call);

  void answer(Call call, mvcc::Outcome outcome, const RaftPosition& at);
  /// Entries were applied.
  void applied(const Effects& effects, const StateMachine& machine, Instant now, const RaftPosition& at);
  void state_replaced(const StateMachine& machine, Instant now, const RaftPosition& at);
  /// History for watchers that are behind, one slice; true = more to do, come back soon.
  Result<bool> catch_up(const StateMachine& machine, Instant now, const RaftPosition& at);
  void tick(const StateMachine& machine, Instant now, const RaftPosition& at);
  /// Hands what the watch streams must be told to the replies.
  void collect();
  /// A leader lets go of an alarm that the quota raised, when there is room again.
  void clear_quota_alarm(const StateMachine& machine, Instant now);

  [[nodiscard]] const watch::WatchHub& hub() const { return hub_; }
  [[nodiscard]] int64_t quota_bytes() const { return settings_.quota_bytes; }

 private:
  using CallKey = std::pair<ReplySink*, uint64_t>;
  static CallKey key_of(const Call& call) { return {call.sink, call.token}; }
  [[nodiscard]] mvcc::HeaderInfo header(const RaftPosition& at) const { return {settings_.cluster_id, self_.value(), at.term.value()}; }
  void propose_alarm(bool activate, Instant now);
  void range(Call call, const etcdserverpb::RangeRequest& request, const StateMachine& machine, const RaftPosition& at);
  void next_range_part(Call call, const RaftPosition& at);
  void fail_engine(Call call, const Status& status, const RaftPosition& at);

  NodeId self_;
  Settings settings_;
  Proposals& proposals_;
  Replies& replies_;
  watch::WatchHub hub_;
  uint64_t next_stream_ = 1;
  std::map<CallKey, watch::StreamId> stream_of_call_;
  std::unordered_map<watch::StreamId, Call> call_of_stream_;
  std::map<CallKey, std::unique_ptr<mvcc::Keyspace::Cursor>> cursors_;
  std::map<CallKey, uint64_t> snapshot_of_call_;
  std::unordered_map<uint64_t, Call> call_of_snapshot_;
  std::vector<SnapshotJob> snapshot_jobs_;
  uint64_t next_snapshot_ = 1;
  Instant alarm_proposed_at_;
};

}  // namespace rallypoint::server
