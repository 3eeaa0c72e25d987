// What the parts of the keyspace share (keyspace.cc, keyspace_range.cc, keyspace_txn.cc, compaction.cc). Private to
// storage/mvcc.
#pragma once

#include <memory>
#include <set>

#include "storage/mvcc/key_index.h"
#include "storage/mvcc/keyspace.h"
#include "storage/mvcc/row.h"
#include "storage/mvcc/row_cache.h"

namespace rallypoint::mvcc {

struct Keyspace::State {
  State(std::shared_ptr<storage::Engine> e, const Settings& s, LeaseBook& l) : engine(std::move(e)), settings(s), leases(l), cache(s.cache_bytes_max) {}

  std::shared_ptr<storage::Engine> engine;
  Settings settings;
  LeaseBook& leases;
  KeyIndex index;
  mutable RowCache cache;

  int64_t revision = 1;
  int64_t compacted = 0;
  int64_t live_bytes = 0;
  uint64_t digest = 0;

  storage::WriteBatch rows;     ///< changes since the last collect
  bool meta_changed = false;
  int64_t collected = 0;        ///< revision of the rows handed over and not yet confirmed
  std::vector<Event> events;

  /// Revisions that open cursors read at; shared, since a cursor may outlive the keyspace.
  std::shared_ptr<std::multiset<int64_t>> pins = std::make_shared<std::multiset<int64_t>>();

  /// The row of a version that the index knows.
  Result<Bytes> row(const Revision& revision) const;

  // One change, at revision `at`. The caller raises `revision` when the request is through.
  void store(std::string_view key, std::string_view value, int64_t lease, const Revision& at);
  void erase(const std::string& key, const Revision& at);

  /// InvalidArgument and OutOfRange as etcd has them.
  [[nodiscard]] Status check_revision(int64_t wanted) const;
  [[nodiscard]] int64_t read_revision(int64_t wanted) const { return wanted <= 0 ? revision : wanted; }
};

/// The encoded ResponseHeader of an answer at a revision.
std::string encode_header(const HeaderInfo& header, int64_t revision);

Status key_missing();    ///< etcd: ErrGRPCEmptyKey
Status compacted_error();
Status future_error();

/// The range's answer without its header, appended to `out`. `revision` = what the state counts as the newest, for
/// transactions that have written already.
Status append_range(const Keyspace::State& state, const etcdserverpb::RangeRequest& request, int64_t newest, std::string& out, Status& engine);

}  // namespace rallypoint::mvcc
