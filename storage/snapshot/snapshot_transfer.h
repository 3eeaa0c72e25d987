// The two ends of a snapshot on its way to another node: a reader that gives pieces by offset, and a receiver
// that puts them together and can go on after a pause. What carries the pieces is not their business.
// Background loop.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "raft/base/bytes.h"
#include "raft/base/status.h"
#include "storage/fs/file_system.h"
#include "storage/snapshot/snapshot_file.h"

namespace rallypoint::storage {

class SnapshotReader {
 public:
  /// Opens a finished file; checks its head only (it was verified when it was written, and is again by the
  /// receiver).
  static Result<std::unique_ptr<SnapshotReader>> open(FileSystem& file_system, const std::string& path);

  struct Piece {
    Bytes data;
    bool last = false;  ///< nothing follows
  };
  /// Up to `count` bytes from `offset` on; OutOfRange beyond the end.
  Result<Piece> read(uint64_t offset, size_t count) const;
  [[nodiscard]] uint64_t bytes() const { return info_.bytes; }
  [[nodiscard]] const SnapshotPoint& point() const { return info_.point; }

 private:
  SnapshotReader(std::unique_ptr<File> file, SnapshotInfo info)
      : file_(std::move(file)), info_(std::move(info)) {}
  std::unique_ptr<File> file_;
  SnapshotInfo info_;  ///< rows unknown (0)
};

/// Collects one snapshot in `<directory>/incoming.part`; one at a time. Lives through pauses, not through a
/// restart of the process: then the transfer starts anew.
class SnapshotReceiver {
 public:
  /// Starts with an empty file; whatever was being received before is forgotten.
  static Result<std::unique_ptr<SnapshotReceiver>> begin(FileSystem& file_system, std::string directory,
                                                         SnapshotPoint point);

  /// Takes a piece. One that lies wholly within what is there already is fine and changes nothing (a retry);
  /// one that would leave a gap is OutOfRange, and the sender goes on from received().
  Status append(uint64_t offset, std::string_view data);
  [[nodiscard]] uint64_t received() const { return received_; }
  [[nodiscard]] const SnapshotPoint& point() const { return point_; }

  /// The last piece is here: sync, verify everything, check that it is the promised point, give it its final
  /// name. On an error the collected bytes are gone and the transfer must start anew.
  Result<SnapshotInfo> finish();

 private:
  SnapshotReceiver(FileSystem& file_system, std::string directory, SnapshotPoint point,
                   std::unique_ptr<File> file)
      : file_system_(file_system),
        directory_(std::move(directory)),
        point_(std::move(point)),
        file_(std::move(file)) {}
  FileSystem& file_system_;
  std::string directory_;
  SnapshotPoint point_;
  std::unique_ptr<File> file_;
  uint64_t received_ = 0;
};

}  // namespace rallypoint::storage
