// Keyspace: etcd's multi-version keys. Every write makes a new revision; a range can be read at any revision that has
// not been compacted.
//
// Rows: 'k' main:be64 sub:be64 -> encoded mvccpb.KeyValue (a delete: key and mod_revision, marked by the row key's last
// byte), so that history in order of revision is one scan and an answer is made of rows as they lie. The index of keys (key -> its
// revisions since the compaction) lives in memory, as in etcd; values do not, but for a bounded cache.
//
// Pure: the same requests in the same order give the same rows, answers and digest on every node. Owned by the state
// machine; single-threaded. A write takes effect in memory at once; collect_changes() hands its rows over for the engine
// batch, and reads see rows that are not in the engine yet. Engine errors (DataLoss) are returned, never swallowed: the
// node stops.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "raft/base/bytes.h"
#include "raft/base/status.h"
#include "storage/engine/engine.h"
#include "storage/etcd_api/kv.pb.h"
#include "storage/mvcc/event.h"
#include "storage/mvcc/lease_book.h"

namespace rallypoint::mvcc {

/// What a ResponseHeader says beside the revision.
struct HeaderInfo {
  uint64_t cluster_id = 0;
  uint64_t member_id = 0;
  uint64_t raft_term = 0;
};

/// A request's result. `status` as the client sees it (code and text as etcd's: contracts A.5), never an engine error.
struct Outcome {
  Status status;
  std::string response;  ///< encoded response message; empty if the status is not OK or nobody asked for it
};

class Keyspace {
 public:
  struct Settings {
    size_t cache_bytes_max = 32 << 20;   ///< values kept in memory beside what waits for the engine
    size_t txn_operations_max = 128;     ///< per list of a transaction; nested: what the outer ones leave
  };

  /// Loads the index from the rows of `engine`, which must outlive the keyspace; tells `leases` of every attached key.
  static Result<std::unique_ptr<Keyspace>> open(std::shared_ptr<storage::Engine> engine, Settings settings, LeaseBook& leases);
  ~Keyspace();

  // ---- writes, called by the state machine only; requests may be anything that parses ----
  // `header` null = nobody waits for the answer here: it is not made. Engine errors come as the Result's status.
  Result<Outcome> put(const etcdserverpb::PutRequest& request, const HeaderInfo* header);
  Result<Outcome> delete_range(const etcdserverpb::DeleteRangeRequest& request, const HeaderInfo* header);
  Result<Outcome> txn(const etcdserverpb::TxnRequest& request, const HeaderInfo* header);
  /// Marks the revision as compacted; the rows go slice by slice (compact_slice).
  Result<Outcome> compact(const etcdserverpb::CompactionRequest& request, const HeaderInfo* header);
  /// Deletes these keys (sorted) as one revision, for a lease that ends; no revision if none of them exists.
  Status delete_keys(const std::vector<std::string>& keys);

  /// The events since the last call, in order of revision.
  std::vector<Event> take_events();
  /// Puts the rows of all writes since the last call, and how far the keyspace is, into the batch.
  void collect_changes(storage::WriteBatch& batch);
  /// Those rows are in the engine now: reads may go there for them.
  void changes_written();

  // ---- reads ----
  /// The answer as an encoded RangeResponse with header. Status: key not provided, compacted, future revision, invalid sort.
  Result<Outcome> range(const etcdserverpb::RangeRequest& request, const HeaderInfo& header) const;
  /// A transaction of ranges only.
  Result<Outcome> read_txn(const etcdserverpb::TxnRequest& request, const HeaderInfo& header) const;
  /// Whether `request` writes nothing whichever branch is taken, so that it need not go through the log.
  static bool is_read_only(const etcdserverpb::TxnRequest& request);

  /// The pairs of [key, range_end) in order of key at a revision, in pieces, so that a long answer is bounded in memory
  /// (RangeStream; and the unary Range when it is very long). Pins its revision against physical compaction while it lives.
  class Cursor {
   public:
    virtual ~Cursor() = default;
    /// Appends encoded KeyValues until `bytes_max` is passed; false = that was the end.
    virtual Result<bool> next(size_t bytes_max, std::vector<Bytes>& pairs) = 0;
    [[nodiscard]] virtual int64_t revision() const = 0;
    /// Keys in the whole range, and whether the limit cut it. Valid from the start.
    [[nodiscard]] virtual int64_t count() const = 0;
    [[nodiscard]] virtual bool more() const = 0;
  };
  Result<std::unique_ptr<Cursor>> open_cursor(const etcdserverpb::RangeRequest& request) const;

  /// Events of revisions [from, to] in order; stops behind the first revision that passes `bytes_max` (a revision is never
  /// cut). Returns the first revision not visited. `from` must be at least compacted().
  Result<int64_t> history(int64_t from, int64_t to, size_t bytes_max, const std::function<void(Event&&)>& visit) const;
  /// The encoded pair written at `revision`; nullopt if it is compacted away.
  Result<std::optional<Bytes>> pair_at(const Revision& revision) const;

  [[nodiscard]] int64_t revision() const;   ///< of the newest write; 1 in a new store
  [[nodiscard]] int64_t compacted() const;  ///< 0 or -1 = never; reads below fail
  /// Bytes of keys and values of all versions that are not compacted; what the quota counts.
  [[nodiscard]] int64_t live_bytes() const;
  [[nodiscard]] size_t keys() const;        ///< that exist now
  /// CRC-32C over the history above compacted() up to `revision` (0 = now): equal on all members that are equal.
  struct Hash { uint32_t hash = 0; int64_t revision = 0; int64_t compacted = 0; };
  Result<Hash> hash_kv(int64_t revision) const;
  Status check_hash_revision(int64_t revision) const;
  /// Running digest of everything applied so far; O(1).
  [[nodiscard]] uint64_t digest() const;

  /// Physical compaction: deletes at most `rows_max` rows that nothing can read any more. False = nothing left to do.
  /// Not part of the replicated history: each node goes at its own pace, and no answer depends on it.
  Result<bool> compact_slice(size_t rows_max);

  struct State;  ///< storage/mvcc only (keyspace_state.h)

 private:
  explicit Keyspace(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rallypoint::mvcc
