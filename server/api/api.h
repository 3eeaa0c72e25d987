// The seam between the protocols and the node: all that a handler may know. Requests go to the node by
// Backend::submit, in batches; answers come back by ReplySink::deliver, in batches, to the net loop that asked.
//
// Threads: submit() and the const snapshots are called from any net loop; deliver() from the node's own thread(s).
// Neither side ever waits for the other: both only post to a mailbox. Nothing here knows HTTP, Raft or a disk.
//
// The promise of the node: every V2Write, V2Read and ChangeMember gets exactly one Reply with `final`, at the latest
// after the node's own time-out (it holds requests through elections, so that clients see a pause and not an error).
// A V2Watch gets a Reply with `registered` first, unless it fails at once, then its events; the last one is `final`.
// After a CancelWatch replies may still be under way; the sink ignores tokens that it no longer knows.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "raft/base/bytes.h"
#include "raft/base/status.h"
#include "raft/base/units.h"
#include "server/state/v3_kinds.h"
#include "storage/v2/v2_stats.h"
#include "storage/v2/v2_types.h"

namespace rallypoint::server {

class ReplySink;

/// Whom to answer. `token` never repeats within a sink.
struct Call {
  ReplySink* sink = nullptr;
  uint64_t token = 0;
};

// ---- requests: net loop -> node -----------------------------------------------------------------------------

struct V2Write { Call call; v2::WriteRequest request; };
/// `linearizable` false = this member's own state, perhaps old.
struct V2Read { Call call; v2::ReadRequest request; bool linearizable = true; };
struct V2Watch { Call call; v2::WatchRequest request; };
/// The client of this watch is gone; free it. Not answered. Unknown calls are ignored.
struct CancelWatch { Call call; };
/// Answered once it has taken effect and this member has applied it: with the Member (add) or Status OK. Else with
/// etcd's gRPC code and text for the reason, Unavailable (not done) or OutcomeUnknown. The view of the cluster that
/// follows the answer shows the change.
struct ChangeMember {
  enum class Kind : uint8_t { kAdd, kUpdate, kRemove, kPromote };
  Call call;
  Kind kind = Kind::kAdd;
  uint64_t id = 0;                      ///< all but add
  std::vector<std::string> peer_urls;   ///< add, update; parsed and normalised
  bool learner = false;                 ///< add
};

// etcd's v3 API. Requests come validated (server/api/v3/validate.h); answers come as the encoded response message, made
// where the state is, so that nothing is copied into an intermediate form. `timeout` = how long the caller still waits,
// 0 = as long as the node itself would; the answer comes before it ends, so that the caller sees our reason.

/// Goes through the log. `message` is the request's wire form, as it will stand in the log.
struct V3Write {
  using Kind = V3WriteKind;
  Call call;
  Kind kind = Kind::kPut;
  Bytes message;
  Duration timeout;
  std::string idempotency_key;  ///< empty = none; the same key and message again gets the first one's answer
};

/// Reads the state. The message is one of RangeRequest, TxnRequest (only ranges inside), LeaseTimeToLiveRequest,
/// LeaseLeasesRequest, HashKVRequest, HashRequest, AlarmRequest (GET), MemberListRequest, by `kind`.
struct V3Read {
  enum class Kind : uint8_t { kRange, kRangeStream, kTxn, kLeaseTimeToLive, kLeaseLeases, kHashKv, kHash, kAlarms, kMemberList, kStatus };
  Call call;
  Kind kind = Kind::kRange;
  std::unique_ptr<google::protobuf::Message> message;
  bool linearizable = true;
  Duration timeout;
};

/// One renewal; answered with an encoded LeaseKeepAliveResponse (TTL 0 = no such lease), in the order of the requests.
struct V3KeepAlive { Call call; int64_t lease = 0; };

/// A stream of watches: opened by its first WatchMessage, ended by CancelCall. Answers are Reply::watch.
struct V3WatchMessage { Call call; std::unique_ptr<google::protobuf::Message> message; };  ///< an etcdserverpb.WatchRequest
/// The stream's own queue is full (false), or has drained (true): the node holds its events back meanwhile and reads
/// them from history later.
struct V3WatchFlow { Call call; bool open = true; };

/// The next part of a kRangeStream or V3Snapshot answer (Reply::final false) may come.
struct V3More { Call call; };
/// The state as a stream of SnapshotResponse messages, the SHA-256 last.
struct V3Snapshot { Call call; };
/// Answered with the encoded response message.
struct V3MoveLeader { Call call; uint64_t target = 0; Duration timeout; };
struct V3Defragment { Call call; };

/// The client of this call is gone: frees its watches, its waiting reads, its streams. A write already proposed goes on.
/// Not answered. Unknown calls are ignored.
struct CancelCall { Call call; };

using Request = std::variant<V2Write, V2Read, V2Watch, CancelWatch, ChangeMember, V3Write, V3Read, V3KeepAlive, V3WatchMessage, V3WatchFlow,
                             V3More, V3Snapshot, V3MoveLeader, V3Defragment, CancelCall>;

// ---- what a handler may see of the cluster ------------------------------------------------------------------

struct Member {
  uint64_t id = 0;
  std::string name;  ///< empty until the member has started
  std::vector<std::string> peer_urls;    ///< "http://host:port", no trailing slash
  std::vector<std::string> client_urls;  ///< as advertised; the same strings on every member
  bool is_learner = false;  ///< until it is promoted; a member added as a voter that still catches up is none
};

enum class ViewRole : uint8_t { kFollower, kCandidate, kLeader, kLearner };

/// How replication to one follower goes; a leader's view has one for each.
struct FollowerView {
  uint64_t id = 0;
  uint64_t append_success = 0;
  uint64_t append_failure = 0;
  double latency_current_ms = 0;
  double latency_average_ms = 0;
  double latency_deviation_ms = 0;
  double latency_minimum_ms = 0;
  double latency_maximum_ms = 0;
};

/// A consistent picture of this member and the cluster, a few milliseconds old at most.
struct ClusterView {
  uint64_t cluster_id = 0;
  uint64_t member_id = 0;
  std::vector<Member> members;  ///< sorted by id, own one included
  std::vector<uint64_t> removed_members;  ///< ids of former members
  uint64_t leader_id = 0;       ///< 0 = none known
  ViewRole role = ViewRole::kFollower;
  uint64_t raft_term = 0;
  uint64_t commit_index = 0;
  uint64_t applied_index = 0;
  uint64_t leader_changes = 0;
  uint64_t proposals_committed = 0;
  uint64_t proposals_applied = 0;
  uint64_t proposals_pending = 0;
  uint64_t proposals_failed = 0;
  uint64_t append_requests_received = 0;
  uint64_t append_requests_sent = 0;
  int64_t start_unix_ns = 0;         ///< wall time of the process's start, for display
  int64_t leader_start_unix_ns = 0;  ///< wall time at which the leader was first seen, for display
  uint64_t wal_syncs = 0;
  uint64_t wal_bytes_written = 0;
  uint64_t wal_sync_us_total = 0;
  uint64_t db_bytes = 0;
  uint64_t db_bytes_in_use = 0;      ///< live bytes of the v3 keyspace: what the quota counts
  int64_t quota_bytes = 0;           ///< 0 = none
  struct Alarm { uint64_t member_id = 0; int type = 0; };  ///< an etcdserverpb::AlarmType
  std::vector<Alarm> alarms;
  std::vector<FollowerView> followers;
  v2::StoreStats v2;
  uint64_t v2_watchers = 0;
  /// Empty = healthy. Otherwise why this member can't serve, e.g. "data directory is damaged".
  std::string unhealthy_reason;

  [[nodiscard]] bool has_leader() const { return leader_id != 0; }
  [[nodiscard]] bool is_leader() const { return leader_id != 0 && leader_id == member_id; }
  [[nodiscard]] const Member* find(uint64_t id) const {
    for (const Member& member : members)
      if (member.id == id) return &member;
    return nullptr;
  }
};

class Backend {
 public:
  virtual ~Backend() = default;
  /// Takes the requests over, in order per caller. Never blocks.
  virtual void submit(std::vector<Request>&& requests) = 0;
  /// Cheap enough for one call per status request, not per key request.
  [[nodiscard]] virtual ClusterView cluster_view() const = 0;
  /// Constant from the moment the server listens: it is in every answer of the keys API.
  [[nodiscard]] virtual uint64_t cluster_id() const = 0;
};

// ---- answers: node -> net loop ------------------------------------------------------------------------------

/// One part of a v3 watch stream: an encoded WatchResponse of which only watch_id (field 2) is missing, shared between
/// all watchers that get the same; the net loop appends the id. -1 is an id like any other.
struct WatchPart {
  int64_t watch_id = 0;
  Bytes response;
};
/// What a watch stream gets from one turn of the node loop, in order.
struct WatchParts { std::vector<WatchPart> parts; };

/// One answer, or one part of a watch. Of the headers: X-Etcd-Index = etcd_index, X-Raft-Index, X-Raft-Term.
struct Reply {
  uint64_t token = 0;
  /// Nothing (monostate) only with `registered`. Status: the node gave up (Unavailable, DeadlineExceeded,
  /// OutcomeUnknown ...), or the result of ChangeMember (OK for update and remove).
  /// Bytes: an encoded v3 response message.
  std::variant<std::monostate, v2::EventPtr, v2::Error, Status, Member, Bytes, WatchParts> body;
  /// For a watch: the index when it was registered. For a ChangeMember: the member's id. For the rest: the index of the
  /// outcome.
  uint64_t etcd_index = 0;
  uint64_t raft_index = 0;
  uint64_t raft_term = 0;
  bool registered = false;  ///< the watch stands: send the headers now, the body follows
  bool final = true;        ///< nothing follows for this token
  /// The event's JSON line if somebody has already encoded it (shared between watchers); empty = not encoded yet.
  Bytes encoded;
};

/// A net loop's mailbox.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  /// Thread safe; only posts. One wake-up of the loop per call.
  virtual void deliver(std::vector<Reply>&& replies) = 0;
};

}  // namespace rallypoint::server
