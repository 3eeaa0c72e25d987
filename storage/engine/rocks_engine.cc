#include "storage/engine/rocks_engine.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/experimental.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

namespace rallypoint::storage {
namespace {

rocksdb::Slice slice(std::string_view view) {
  return {view.data(), view.size()};
}
std::string_view view_of(const rocksdb::Slice& slice) {
  return {slice.data(), slice.size()};
}

Status from_rocks(const rocksdb::Status& status, const std::string& directory) {
  if (status.ok()) return Status::ok();
  const std::string message = "state in " + directory + ": " + status.ToString();
  if (status.IsNoSpace() || status.subcode() == rocksdb::Status::kNoSpace) {
    return Status::resource_exhausted(message + "; free space on this disk, then start the node again");
  }
  if (status.IsCorruption()) {
    return Status::data_loss(message +
                             "; move this directory away, the state is rebuilt from a peer's snapshot");
  }
  if (status.IsIOError()) return Status::internal(message);
  return Status::internal(message);
}

rocksdb::Options make_options(const RocksOptions& options) {
  rocksdb::Options rocks;
  rocks.create_if_missing = true;
  rocks.write_buffer_size = options.memtable_bytes;
  rocks.max_write_buffer_number = 3;
  rocks.max_background_jobs = 2;
  // Small memtables make small files; merging twice as many at once halves what compaction writes.
  rocks.level0_file_num_compaction_trigger = 8;
  rocks.paranoid_checks = true;
  rocks.compression = rocksdb::kNoCompression;
  rocks.max_open_files = 512;
  rocks.keep_log_file_num = 2;
  rocks.max_log_file_size = 1 << 20;
  rocks.info_log_level = rocksdb::WARN_LEVEL;
  rocks.stats_dump_period_sec = 0;
  rocks.stats_persist_period_sec = 0;
  rocks.max_manifest_file_size = 4 << 20;
  rocks.avoid_flush_during_shutdown = true;  // the log has it; closing is quick
  rocks.skip_stats_update_on_db_open = true;
  rocks.skip_checking_sst_file_sizes_on_db_open = true;
  rocks.allow_mmap_reads = false;
  // One writer: no queue of writers, no concurrent memtable to pay for.
  rocks.allow_concurrent_memtable_write = false;
  rocks.enable_write_thread_adaptive_yield = false;

  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(options.block_cache_bytes);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.cache_index_and_filter_blocks = false;
  table.checksum = rocksdb::kCRC32c;
  table.format_version = 5;
  // A hash index within each data block: a get finds its row without a binary search.
  table.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
  rocks.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return rocks;
}

rocksdb::ReadOptions read_options(const rocksdb::Snapshot* snapshot = nullptr) {
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  options.snapshot = snapshot;
  return options;
}

Result<std::optional<std::string>> get_from(rocksdb::DB& db, const rocksdb::ReadOptions& options,
                                            std::string_view key, const std::string& directory) {
  std::string value;
  const rocksdb::Status status = db.Get(options, slice(key), &value);
  if (status.IsNotFound()) return std::optional<std::string>();
  if (!status.ok()) return from_rocks(status, directory);
  return std::optional<std::string>(std::move(value));
}

Status scan_from(rocksdb::DB& db, rocksdb::ReadOptions options, std::string_view from, std::string_view to,
                 const EngineView::Visitor& visit, const std::string& directory) {
  const rocksdb::Slice upper = slice(to);
  if (!to.empty()) options.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> at(db.NewIterator(options));
  for (at->Seek(slice(from)); at->Valid(); at->Next()) {
    if (!visit(view_of(at->key()), view_of(at->value()))) return Status::ok();
  }
  return from_rocks(at->status(), directory);
}

class RocksView final : public EngineView {
 public:
  RocksView(rocksdb::DB& db, std::string directory)
      : db_(db), snapshot_(db.GetSnapshot()), directory_(std::move(directory)) {}
  ~RocksView() override { db_.ReleaseSnapshot(snapshot_); }
  Result<std::optional<std::string>> get(std::string_view key) const override {
    return get_from(db_, read_options(snapshot_), key, directory_);
  }
  Status scan(std::string_view from, std::string_view to, const Visitor& visit) const override {
    rocksdb::ReadOptions options = read_options(snapshot_);
    options.fill_cache = false;  // a dump must not push out what clients read
    return scan_from(db_, options, from, to, visit, directory_);
  }

 private:
  rocksdb::DB& db_;
  const rocksdb::Snapshot* snapshot_;
  std::string directory_;
};

}  // namespace

RocksEngine::RocksEngine(std::string directory, std::unique_ptr<rocksdb::DB> db)
    : directory_(std::move(directory)), db_(std::move(db)) {}

RocksEngine::~RocksEngine() = default;

Result<std::unique_ptr<RocksEngine>> RocksEngine::open(const std::string& directory,
                                                       const RocksOptions& options) {
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(make_options(options), directory, &db);
  if (!status.ok()) return from_rocks(status, directory);
  return std::unique_ptr<RocksEngine>(new RocksEngine(directory, std::unique_ptr<rocksdb::DB>(db)));
}

Result<std::optional<std::string>> RocksEngine::get(std::string_view key) const {
  return get_from(*db_, read_options(), key, directory_);
}

Status RocksEngine::scan(std::string_view from, std::string_view to, const Visitor& visit) const {
  return scan_from(*db_, read_options(), from, to, visit, directory_);
}

Status RocksEngine::write(const WriteBatch& batch) {
  rocksdb::WriteBatch rocks;
  for (const auto& operation : batch.operations()) {
    switch (operation.kind) {
      case WriteBatch::Operation::Kind::kPut:
        rocks.Put(operation.key, operation.value);
        break;
      case WriteBatch::Operation::Kind::kErase:
        rocks.Delete(operation.key);
        break;
      case WriteBatch::Operation::Kind::kEraseRange:
        // RocksDB takes an inverted range as an error at flush time; here it is simply empty.
        if (operation.key < operation.value) rocks.DeleteRange(operation.key, operation.value);
        break;
    }
  }
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  return from_rocks(db_->Write(options, &rocks), directory_);
}

std::unique_ptr<EngineView> RocksEngine::snapshot() const {
  return std::make_unique<RocksView>(*db_, directory_);
}

Status RocksEngine::start_flush() {
  rocksdb::FlushOptions options;
  options.wait = false;
  options.allow_write_stall = true;
  return from_rocks(db_->Flush(options), directory_);
}

Status RocksEngine::start_compaction() {
  // By a request to the engine's own threads: the range is the one that it would compact sooner or later.
  return from_rocks(rocksdb::experimental::SuggestCompactRange(db_.get(), nullptr, nullptr), directory_);
}

Status RocksEngine::flush() {
  return from_rocks(db_->Flush(rocksdb::FlushOptions()), directory_);
}

Result<std::optional<std::string>> RocksEngine::get_persisted(std::string_view key) const {
  rocksdb::ReadOptions options = read_options();
  options.read_tier = rocksdb::kPersistedTier;
  return get_from(*db_, options, key, directory_);
}

uint64_t RocksEngine::bytes_used() const {
  uint64_t files = 0, memory = 0;
  db_->GetIntProperty(rocksdb::DB::Properties::kTotalSstFilesSize, &files);
  db_->GetIntProperty(rocksdb::DB::Properties::kSizeAllMemTables, &memory);
  return files + memory;
}

}  // namespace rallypoint::storage
