#include "server/snapshotter.h"

#include <openssl/evp.h>

#include "raft/membership.h"
#include "server/obs/logging.h"

namespace rallypoint::server {
namespace {
constexpr size_t kPartBytes = 256 << 10;
uint64_t padded(uint64_t bytes) { return (bytes + kSnapshotPadBytes - 1) / kSnapshotPadBytes * kSnapshotPadBytes; }
}

/// One client's dump. It has a folder of its own, so that the dumps for followers do not sweep it away.
struct Snapshotter::Saving {
  std::string directory;
  std::unique_ptr<storage::SnapshotReader> reader;
  uint64_t offset = 0;
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest{EVP_MD_CTX_new(), EVP_MD_CTX_free};
};

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

void Snapshotter::serve(const SnapshotJob& job, std::shared_ptr<storage::Engine> engine, const raft::SnapshotMeta& meta) {
  if (job.what == SnapshotJob::What::kNext) return jobs_.post([this, id = job.id] { give_part(id); });
  if (job.what == SnapshotJob::What::kEnd) {
    return jobs_.post([this, id = job.id] {
      auto it = saving_.find(id);
      if (it == saving_.end()) return;
      (void)file_system_.remove_all(it->second->directory);
      saving_.erase(it);
    });
  }
  std::shared_ptr<storage::EngineView> view = engine->snapshot();
  jobs_.post([this, id = job.id, engine = std::move(engine), view = std::move(view), meta]() mutable {
    auto saving = std::make_unique<Saving>();
    saving->directory = directory_ + "/save-" + std::to_string(id);
    Status status = file_system_.create_directories(saving->directory);
    if (status.is_ok()) {
      const storage::SnapshotPoint point{meta.term, meta.index, raft::encode_membership(meta.membership).to_string()};
      auto written = storage::write_snapshot(file_system_, saving->directory, point, *view);
      status = written.status();
      if (status.is_ok()) {
        auto reader = storage::SnapshotReader::open(file_system_, written->path);
        status = reader.status();
        if (status.is_ok()) saving->reader = std::move(*reader);
      }
    }
    view.reset();  // before its engine
    engine.reset();
    if (!status.is_ok()) {
      (void)file_system_.remove_all(saving->directory);
      return callbacks_.part({id, std::move(status), {}, 0, true});
    }
    EVP_DigestInit_ex(saving->digest.get(), EVP_sha256(), nullptr);
    saving_[id] = std::move(saving);
    give_part(id);
  });
}

void Snapshotter::give_part(uint64_t id) {
  auto it = saving_.find(id);
  if (it == saving_.end()) return;
  Saving& saving = *it->second;
  SnapshotPart part{id, {}, {}, 0, saving.offset >= saving.reader->bytes()};
  if (part.is_last) {
    part.bytes.resize(kSnapshotDigestBytes);
    EVP_DigestFinal_ex(saving.digest.get(), reinterpret_cast<unsigned char*>(part.bytes.data()), nullptr);
  } else if (auto piece = saving.reader->read(saving.offset, kPartBytes); piece.is_ok()) {
    saving.offset += piece->data.size();
    part.bytes = piece->data.to_string();
    if (saving.offset >= saving.reader->bytes()) part.bytes.resize(part.bytes.size() + padded(saving.offset) - saving.offset);
    else part.remaining_bytes = padded(saving.reader->bytes()) - saving.offset;
    EVP_DigestUpdate(saving.digest.get(), part.bytes.data(), part.bytes.size());
  } else {
    part.status = piece.status();
  }
  if (part.is_last || !part.status.is_ok()) {
    (void)file_system_.remove_all(saving.directory);
    saving_.erase(it);
  }
  callbacks_.part(std::move(part));
}

}  // namespace rallypoint::server
