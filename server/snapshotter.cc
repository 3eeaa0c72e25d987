#include "server/snapshotter.h"

#include "raft/membership.h"
#include "server/obs/logging.h"

namespace rallypoint::server {

Snapshotter::Snapshotter(storage::FileSystem& file_system, std::string directory, Callbacks callbacks)
    : file_system_(file_system), directory_(std::move(directory)), callbacks_(std::move(callbacks)) {}

Snapshotter::~Snapshotter() { stop(); }

void Snapshotter::start() {
  thread_ = std::thread([this] { run(); });
}

void Snapshotter::stop() {
  if (!thread_.joinable()) return;
  jobs_.post([this] { stopping_ = true; });
  thread_.join();
}

void Snapshotter::run() {
  while (!stopping_)
    for (auto& job : jobs_.take()) job();
}

void Snapshotter::make(std::shared_ptr<storage::Engine> engine, const raft::SnapshotMeta& meta) {
  // The view is taken here, on the node loop, so that it is exactly the state at `meta`.
  std::shared_ptr<storage::EngineView> view = engine->snapshot();
  jobs_.post([this, engine = std::move(engine), view = std::move(view), meta]() mutable {
    const storage::SnapshotPoint point{meta.term, meta.index, raft::encode_membership(meta.membership).to_string()};
    auto written = storage::write_snapshot(file_system_, directory_, point, *view);
    view.reset();  // before its engine
    engine.reset();
    if (!written.is_ok()) return callbacks_.failed(written.status());
    auto reader = storage::SnapshotReader::open(file_system_, written->path);
    if (!reader.is_ok()) return callbacks_.failed(reader.status());
    reader_ = std::move(*reader);
    if (Status status = storage::remove_old_snapshots(file_system_, directory_, 1); !status.is_ok())
      log_warning("old snapshots can't be removed", {{"error", status}});
    log_info("made a snapshot for a follower", {{"index", meta.index.value()}, {"bytes", written->bytes}});
    callbacks_.ready({meta, written->bytes});
  });
}

void Snapshotter::read(const raft::SnapshotRead& request) {
  jobs_.post([this, request] { do_read(request); });
}

void Snapshotter::do_read(const raft::SnapshotRead& request) {
  raft::SnapshotBytes answer{request.to, request.index, request.offset, {}, false, true};
  if (reader_ != nullptr && reader_->point().index == request.index) {
    if (auto piece = reader_->read(request.offset, request.bytes); piece.is_ok()) {
      answer.data = piece->data;
      answer.last = piece->last;
      answer.failed = false;
    }
  }
  callbacks_.bytes(std::move(answer));
}

}  // namespace rallypoint::server
