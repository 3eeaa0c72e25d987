#include "server/log_loop.h"

#include <chrono>

#include "raft/membership.h"
#include "server/obs/logging.h"
#include "storage/engine/rocks_engine.h"

namespace rallypoint::server {
namespace {
using SteadyClock = std::chrono::steady_clock;
/// So long nothing came: time for the log's house-keeping.
constexpr auto kIdle = std::chrono::milliseconds(5);

storage::SnapshotPoint point_of(const raft::SnapshotMeta& meta) {
  return {meta.term, meta.index, raft::encode_membership(meta.membership).to_string()};
}
}  // namespace

LogLoop::LogLoop(storage::FileSystem& file_system, std::unique_ptr<storage::Wal> wal, storage::StateDirectory state,
                 Callbacks callbacks)
    : file_system_(file_system), wal_(std::move(wal)), state_(std::move(state)), callbacks_(std::move(callbacks)) {}

LogLoop::~LogLoop() { stop(); }

void LogLoop::start() {
  thread_ = std::thread([this] { run(); });
}

void LogLoop::stop() {
  if (!thread_.joinable()) return;
  mailbox_.post({{}, true});
  thread_.join();
}

void LogLoop::submit(std::vector<raft::Write>&& writes) { mailbox_.post({std::move(writes), false}); }

void LogLoop::run() {
  bool more_to_prepare = true;
  for (;;) {
    std::vector<Item> items =
        more_to_prepare ? mailbox_.take_until(SteadyClock::now() + kIdle) : mailbox_.take();
    if (items.empty()) {
      if (Status marked = wal_->mark(); !marked.is_ok()) return callbacks_.fatal(marked);
      auto more = wal_->prepare_next();
      if (!more.is_ok()) return callbacks_.fatal(more.status());
      more_to_prepare = *more;
      continue;
    }
    more_to_prepare = true;
    bool stop = false;
    std::vector<raft::Write> writes;
    for (Item& item : items) {
      stop |= item.stop;
      if (writes.empty()) writes = std::move(item.writes);
      else std::move(item.writes.begin(), item.writes.end(), std::back_inserter(writes));
    }
    if (Status status = handle(writes); !status.is_ok()) return callbacks_.fatal(status);
    if (stop) return;
  }
}

Status LogLoop::handle(std::vector<raft::Write>& writes) {
  std::vector<raft::Write> run;  // up to the next chunk
  for (raft::Write& write : writes) {
    const bool has_chunk = write.chunk.has_value();
    run.push_back(std::move(write));
    if (!has_chunk) continue;
    RALLY_RETURN_IF_ERROR(append(run));
    const raft::SnapshotChunk chunk = *run.back().chunk;
    const raft::WriteNumber number = run.back().number;
    run.clear();
    RALLY_RETURN_IF_ERROR(stage(chunk));
    callbacks_.persisted(number);
  }
  if (run.empty()) return Status::ok();
  RALLY_RETURN_IF_ERROR(append(run));
  callbacks_.persisted(run.back().number);
  return Status::ok();
}

Status LogLoop::append(std::vector<raft::Write>& run) {
  const auto began = SteadyClock::now();
  RALLY_RETURN_IF_ERROR(wal_->append(run));
  RALLY_RETURN_IF_ERROR(wal_->sync());
  uint64_t bytes = 0;
  Index release;
  for (const raft::Write& write : run) {
    for (const raft::Entry& entry : write.entries) bytes += entry.payload.size();
    if (write.compact_to) release = write.compact_to->index;
  }
  stats_.syncs += 1;
  stats_.bytes += bytes;
  stats_.sync_us += static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(SteadyClock::now() - began).count());
  return release.is_zero() ? Status::ok() : wal_->release(release);
}

Status LogLoop::stage(const raft::SnapshotChunk& chunk) {
  const storage::SnapshotPoint point = point_of(chunk.meta);
  if (chunk.offset == 0 || receiver_ == nullptr || !(receiver_->point() == point)) {
    if (chunk.offset != 0)
      return Status::internal("a snapshot chunk at offset " + std::to_string(chunk.offset) + " has nothing before it");
    auto begun = storage::SnapshotReceiver::begin(file_system_, state_.snapshots(), point);
    if (!begun.is_ok()) return begun.status();
    receiver_ = std::move(*begun);
    log_info("receiving a snapshot", {{"index", chunk.meta.index.value()}});
  }
  RALLY_RETURN_IF_ERROR(receiver_->append(chunk.offset, chunk.data.view()));
  return chunk.last ? install(chunk.meta) : Status::ok();
}

Status LogLoop::install(const raft::SnapshotMeta& meta) {
  auto finished = receiver_->finish();
  receiver_.reset();
  if (!finished.is_ok()) return finished.status();
  const storage::SnapshotPoint point = finished->point;
  if (state_.current().point == point) return wal_->restart_at(meta);  // the same one again
  auto directory = state_.prepare(point);
  if (!directory.is_ok()) return directory.status();
  auto engine = storage::RocksEngine::open(*directory);
  if (!engine.is_ok()) return engine.status();
  auto loaded = storage::load_snapshot(file_system_, finished->path, **engine);
  if (!loaded.is_ok()) return loaded.status();
  RALLY_RETURN_IF_ERROR(state_.switch_to(point));
  RALLY_RETURN_IF_ERROR(wal_->restart_at(meta));
  log_info("installed a snapshot", {{"index", meta.index.value()}, {"rows", loaded->rows}, {"bytes", loaded->bytes}});
  callbacks_.installed(std::shared_ptr<storage::Engine>(std::move(*engine)), meta);
  return storage::remove_old_snapshots(file_system_, state_.snapshots(), 1);
}

}  // namespace rallypoint::server
