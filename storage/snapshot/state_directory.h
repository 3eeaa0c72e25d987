// StateDirectory: which of the state machine's directories is the valid one, and how an installed snapshot
// takes its place without a moment in which a crash leaves none or a mixture.
//
//   <root>/CURRENT_STATE            names the valid directory and the point it began with
//   <root>/state-<index>-<term>/    an engine's own files; the first is state-0-0
//   <root>/snapshot/                snapshot files, finished and incoming
//
// Installing, by the node (each step durable before the next):
//   1. SnapshotReceiver::finish()    whole, checked file in snapshot/
//   2. prepare(point)                an empty directory of that name; left-overs of a try before are removed
//      open an engine in it, load_snapshot(), close or keep it
//   3. switch_to(point)              CURRENT_STATE is replaced by rename: from here on the new state counts
//   4. Wal::restart_at(point)        the log follows
//   5. remove_others()               the old directory, once its engine is closed
// A crash before 3 leaves the old state, whose log is untouched; the half-made directory is removed at the
// next open(). A crash between 3 and 4 leaves a state that is ahead of its log: so at every start, after
// Wal::open(), the node calls Wal::restart_at(current().point) if the point's index is above the log's start;
// it is a no-op otherwise.
#pragma once

#include <string>

#include "raft/base/status.h"
#include "storage/fs/file_system.h"
#include "storage/snapshot/snapshot_file.h"

namespace rallypoint::storage {

class StateDirectory {
 public:
  struct Current {
    std::string path;     ///< where the engine's files are (the directory exists)
    SnapshotPoint point;  ///< the snapshot it began with; all zero for the first one
  };

  /// Finds the valid state below `root`, or starts with an empty one; then removes left-overs of unfinished
  /// installs. DataLoss: CURRENT_STATE is damaged or names a directory that is not there.
  static Result<StateDirectory> open(FileSystem& file_system, std::string root);

  [[nodiscard]] const Current& current() const { return current_; }
  [[nodiscard]] std::string snapshots() const { return root_ + "/snapshot"; }

  /// Makes the empty directory for the state that begins with `point` and returns its path. Must not be the
  /// current.
  Result<std::string> prepare(const SnapshotPoint& point);
  /// Makes that directory the valid one. Its content must be durable.
  Status switch_to(const SnapshotPoint& point);
  /// Removes every state directory but the valid one.
  Status remove_others();

 private:
  StateDirectory(FileSystem& file_system, std::string root)
      : file_system_(&file_system), root_(std::move(root)) {}
  [[nodiscard]] std::string path_of(const SnapshotPoint& point) const;

  FileSystem* file_system_;
  std::string root_;
  Current current_;
};

}  // namespace rallypoint::storage
