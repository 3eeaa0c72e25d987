// RocksEngine: the state machine's rows in RocksDB. Its own WAL is off: the Raft log is the WAL, and what a
// crash takes from the memtable is applied again from there. One column family, so that one flush covers
// everything.
//
// write(), start_flush() and flush() belong to the apply loop; snapshots and get_persisted() may be used from
// any thread. A background error (full disk, damaged table) comes back from every later write(); the node
// must stop then, or, for a full disk, may be started again once there is room.
#pragma once

#include <memory>
#include <string>

#include "storage/engine/engine.h"

namespace rocksdb {
class DB;
}

namespace rallypoint::storage {

struct RocksOptions {
  /// Rows gathered in memory before a flush starts by itself. Bytes; default 8 MiB. More: fewer flushes, but a
  /// deeper skip list whose search misses the cache (a third of a follower's work at 64 MiB), and more log to
  /// replay after a crash.
  size_t memtable_bytes = 8 << 20;
  /// Cache of table blocks. Bytes; default 32 MiB.
  size_t block_cache_bytes = 32 << 20;
};

class RocksEngine final : public Engine {
 public:
  /// Opens the database in `directory`, or makes an empty one there. DataLoss: tables or manifest are
  /// damaged.
  static Result<std::unique_ptr<RocksEngine>> open(const std::string& directory,
                                                   const RocksOptions& options = {});
  ~RocksEngine() override;

  Result<std::optional<std::string>> get(std::string_view key) const override;
  Status scan(std::string_view from, std::string_view to, const Visitor& visit) const override;
  Status write(const WriteBatch& batch) override;
  std::unique_ptr<EngineView> snapshot() const override;
  Status start_flush() override;
  Status start_compaction() override;
  Status flush() override;
  Result<std::optional<std::string>> get_persisted(std::string_view key) const override;
  [[nodiscard]] uint64_t bytes_used() const override;

 private:
  RocksEngine(std::string directory, std::unique_ptr<rocksdb::DB> db);
  std::string directory_;
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace rallypoint::storage
