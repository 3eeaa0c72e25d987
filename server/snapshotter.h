// Snapshotter: the background loop. Dumps the state for followers that are behind the log, and reads pieces of the
// dump, so that neither keeps the node loop waiting. One thread; jobs run in order.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "raft/core.h"
#include "server/mailbox.h"
#include "storage/engine/engine.h"
#include "storage/fs/file_system.h"
#include "storage/snapshot/snapshot_transfer.h"

namespace rallypoint::server {

/// A saved file: the dump, zeros up to a multiple of this (by which etcdctl takes a file for whole), and a SHA-256.
inline constexpr uint64_t kSnapshotPadBytes = 512;
inline constexpr uint64_t kSnapshotDigestBytes = 32;

/// For a client that saves the state: a dump of its own, given in parts, the SHA-256 of all of it at the end.
struct SnapshotJob {
  enum class What : uint8_t { kStart, kNext, kEnd };
  uint64_t id = 0;
  What what = What::kStart;
};
struct SnapshotPart {
  uint64_t id = 0;
  Status status;
  std::string bytes;
  uint64_t remaining_bytes = 0;  ///< of the dump, behind this part
  bool is_last = false;          ///< `bytes` is the digest
};

class Snapshotter {
 public:
  struct Callbacks {
    std::function<void(raft::SnapshotReady)> ready;
    std::function<void(raft::SnapshotBytes)> bytes;
    std::function<void(SnapshotPart)> part;
    std::function<void(const Status&)> failed;  ///< a dump failed; the node goes on, the follower waits
  };
  Snapshotter(storage::FileSystem& file_system, std::string directory, Callbacks callbacks);
  ~Snapshotter();
  void start();
  void stop();

  /// Dumps the engine as it is now. `meta` is what it has applied. The engine lives until the dump is done.
  void make(std::shared_ptr<storage::Engine> engine, const raft::SnapshotMeta& meta);
  void read(const raft::SnapshotRead& request);
  /// kStart dumps `engine` and gives the first part; kNext the next one; kEnd forgets it.
  void serve(const SnapshotJob& job, std::shared_ptr<storage::Engine> engine, const raft::SnapshotMeta& meta);

 private:
  struct Saving;
  void give_part(uint64_t id);
  void run();
  void do_read(const raft::SnapshotRead& request);
  storage::FileSystem& file_system_;
  std::string directory_;
  Callbacks callbacks_;
  std::unique_ptr<storage::SnapshotReader> reader_;  ///< of the newest dump
  std::map<uint64_t, std::unique_ptr<Saving>> saving_;
  Mailbox<std::function<void()>> jobs_;
  bool stopping_ = false;  ///< set by a job, so on the thread itself
  std::thread thread_;
};

}  // namespace rallypoint::server
