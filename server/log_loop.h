// LogLoop: makes the core's writes durable. One thread that owns the Wal: everything that queued during the last sync
// goes into one write and one fdatasync, so batch size follows load by itself. A snapshot that comes in is staged,
// checked and put in place here too, in the order of its writes.
//
// It never retries and never goes on after an error: a failed write or sync, or a damaged snapshot on our own disk,
// ends the process through `fatal`.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "raft/types.h"
#include "server/mailbox.h"
#include "storage/engine/engine.h"
#include "storage/snapshot/snapshot_transfer.h"
#include "storage/snapshot/state_directory.h"
#include "storage/wal/wal.h"

namespace rallypoint::server {

struct LogStats {
  std::atomic<uint64_t> syncs{0};
  std::atomic<uint64_t> bytes{0};    ///< payload bytes appended
  std::atomic<uint64_t> sync_us{0};  ///< time spent in append and sync
};

class LogLoop {
 public:
  struct Callbacks {
    std::function<void(raft::WriteNumber)> persisted;
    /// A snapshot took the place of the state: the engine to go on with. Before the persisted() of its last chunk.
    std::function<void(std::shared_ptr<storage::Engine>, raft::SnapshotMeta)> installed;
    std::function<void(const Status&)> fatal;  ///< does not return control to normal work
  };
  LogLoop(storage::FileSystem& file_system, std::unique_ptr<storage::Wal> wal, storage::StateDirectory state, Callbacks callbacks);
  ~LogLoop();

  void start();
  /// Finishes what is queued, then joins.
  void stop();
  /// From the node loop. Never blocks.
  void submit(std::vector<raft::Write>&& writes);
  [[nodiscard]] const LogStats& stats() const { return stats_; }

 private:
  struct Item {
    std::vector<raft::Write> writes;
    bool stop = false;
  };
  void run();
  Status handle(std::vector<raft::Write>& writes);
  Status append(std::vector<raft::Write>& run);
  Status stage(const raft::SnapshotChunk& chunk);
  Status install(const raft::SnapshotMeta& meta);

  storage::FileSystem& file_system_;
  std::unique_ptr<storage::Wal> wal_;
  storage::StateDirectory state_;
  Callbacks callbacks_;
  std::unique_ptr<storage::SnapshotReceiver> receiver_;
  Mailbox<Item> mailbox_;
  LogStats stats_;
  std::thread thread_;
};

}  // namespace rallypoint::server
