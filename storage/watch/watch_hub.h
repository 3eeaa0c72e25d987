// WatchHub: who watches which keys, and what each stream must be told. Watchers that are up to date are found by interval
// and told at once, from events that are encoded once for all of them; the others catch up from the keyspace's history in
// slices. One ordered queue per stream, progress notes included: a note never overtakes an event that it vouches for.
//
// Pure: no clock, no sockets. Owned by the node loop; single-threaded. Rules: contracts/etcd.md B.6.
// Memory: a stream that does not keep up is held back by set_flow(false); then only the next revision of each of its
// watchers is kept, and the events are read again from history when it drains. So memory is bounded by watchers, not events.
//
// A progress request is answered when all of its stream's watchers are up to date (etcd drops it if they are not). A watcher
// that waits for a future revision is not: it hears nothing, neither events nor progress, below its start_revision.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "raft/base/bytes.h"
#include "raft/base/status.h"
#include "raft/base/units.h"
#include "storage/etcd_api/rpc.pb.h"
#include "storage/mvcc/event.h"
#include "storage/mvcc/keyspace.h"

namespace rallypoint::watch {

using StreamId = uint64_t;

/// An encoded WatchResponse of which only watch_id (field 2) is missing; shared by all watchers that get the same.
struct Part {
  int64_t watch_id = 0;  ///< -1: of the whole stream, or of a watcher that never was
  Bytes response;
};
struct StreamOutput {
  StreamId stream = 0;
  std::vector<Part> parts;  ///< in order
};

class WatchHub {
 public:
  struct Settings {
    size_t fragment_bytes = 3 << 19;              ///< larger responses are cut between revisions; inside one only with `fragment`
    Duration progress_every = Duration::seconds(600);
    size_t catch_up_bytes = 1 << 20;              ///< history read per slice
    size_t stream_bytes_max = 16 << 20;           ///< a stream gets no more events between two take_output() once above it
    size_t watchers_per_stream_max = 100'000;     ///< more: canceled with a reason
  };
  explicit WatchHub(Settings settings);
  ~WatchHub();

  /// A message of a client; the stream is made by its first one. Answers are in take_output().
  void handle(StreamId stream, const etcdserverpb::WatchRequest& request, const mvcc::Keyspace& keyspace, const mvcc::HeaderInfo& header,
              Instant now);
  void close(StreamId stream);
  /// false: the stream's queue is full, produce nothing more for it; true: it has drained.
  void set_flow(StreamId stream, bool open);

  /// New events, after they have taken effect. All of a revision come in one call.
  void publish(const std::vector<mvcc::Event>& events, const mvcc::Keyspace& keyspace, const mvcc::HeaderInfo& header, Instant now);
  /// The keyspace is about to be compacted at `revision`: watchers that are up to date get a progress note first, so that
  /// they know a place from which they can resume (etcd#20262). Those that stay behind are canceled with compact_revision
  /// when they next look for history.
  void compacting(int64_t revision, const mvcc::Keyspace& keyspace, const mvcc::HeaderInfo& header, Instant now);
  /// A snapshot replaced the keyspace: everybody goes on from the revision that they were told last (etcd#15271).
  void state_replaced(const mvcc::Keyspace& keyspace, const mvcc::HeaderInfo& header, Instant now);
  /// One slice of history for those who are behind, fairly in turn. true = more to do. An engine error stops the node.
  Result<bool> catch_up(const mvcc::Keyspace& keyspace, const mvcc::HeaderInfo& header, Instant now);
  /// Periodic progress notes.
  void tick(Instant now, const mvcc::Keyspace& keyspace, const mvcc::HeaderInfo& header);

  /// What the streams must be told since the last call.
  std::vector<StreamOutput> take_output();

  [[nodiscard]] size_t watchers() const;
  [[nodiscard]] size_t slow_watchers() const;  ///< those behind
  [[nodiscard]] size_t streams() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rallypoint::watch
