// RealLog: a storage::Wal on a lossy file system beside the model of a directory's log. It takes the same
// writes; what it recovers after a crash is for Disk to compare with what the model allows.
#pragma once

#include <memory>

#include "raft/base/random.h"
#include "storage/fs/memory_file_system.h"
#include "storage/wal/wal.h"
#include "tests/sim/log_model.h"

namespace rallypoint::sim {

class RealLog {
 public:
  RealLog(DirectoryId id, uint64_t seed);

  void append(const raft::Write& write);
  void sync();
  void restart_at(const raft::SnapshotMeta& meta);
  void release(Index index);
  /// Power is lost; handles are dead until recover().
  void crash();
  /// Opens the log and tells what it holds. An empty log has an empty start.
  LogModel recover();

 private:
  DirectoryId id_;
  Random random_;
  storage::WalOptions options_;
  storage::MemoryFileSystem files_;
  std::unique_ptr<storage::Wal> wal_;
};

}  // namespace rallypoint::sim
