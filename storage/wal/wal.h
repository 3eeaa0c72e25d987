// Wal: the Raft log and hard state of one node on its disk. It exists so that a whole drain of the log loop
// costs one write and one fdatasync: 256 entries of 300 bytes in about 130 us, where RocksDB's synced batch
// takes four times that.
//
// A directory of segments (segment.h) with records in frames (record.h). Owned by the log loop; not thread
// safe. It reads its entries only once, at open(); the core keeps what it still needs in memory. It never
// retries: after a write or a sync that failed, every later call fails with the first error, and the node
// must stop.
//
// Typical use, by the log loop:
//   append(all writes that waited); sync(); report the highest number as persisted;
//   idle: mark(), then prepare_next() until it says that nothing is left to do.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "raft/base/status.h"
#include "raft/types.h"
#include "storage/fs/file_system.h"
#include "storage/wal/frame_builder.h"
#include "storage/wal/log_image.h"
#include "storage/wal/segment.h"

namespace rallypoint::storage {

struct WalOptions {
  /// Size of a segment made ahead of need by prepare_next(). Bytes; default 16 MiB, 4 KiB .. 1 GiB. Larger:
  /// fewer changes of segment; smaller: disk space is given back sooner.
  uint64_t segment_bytes = 16 << 20;
  /// Size of a segment that must be made while somebody waits: the very first one, and any that
  /// prepare_next() did not get round to. Bytes; default 256 KiB, which takes about a millisecond. At most
  /// segment_bytes.
  uint64_t hasty_segment_bytes = 256 << 10;
  /// Zeros written by one call of prepare_next(), which bounds how long a write can be kept waiting by it.
  /// Bytes.
  uint64_t prepare_step_bytes = 1 << 20;
  /// Payloads below this are copied next to their heads, larger ones go to the kernel from where they are.
  /// Bytes.
  uint64_t gather_payload_bytes = 4 << 10;
  [[nodiscard]] Status validate() const;
};

class Wal {
 public:
  /// What a start finds. `entries` are contiguous from start.index + 1 on; their payloads share the buffers
  /// they were read into.
  struct Recovered {
    std::unique_ptr<Wal> wal;
    raft::HardState hard_state;
    raft::SnapshotMeta start;
    std::vector<raft::Entry> entries;
    /// The end of the last segment was damaged in a way that a crash explains; it was cut off and overwritten
    /// with zeros. Nothing acknowledged was in it.
    bool torn_tail_repaired = false;
  };

  /// True if the directory holds a log whose first frame is sound. Whether there ought to be one is known by
  /// the node's identity file alone (written once create() has returned): if it exists, call open(), never
  /// create().
  static Result<bool> exists(FileSystem& file_system, const std::string& directory);

  /// Starts an empty log that belongs to `id` and begins with `bootstrap` as the membership at (0, 0).
  /// AlreadyExists if there is one. Left-overs of a create() that a crash cut short are replaced, so a node
  /// may try again. Durable when it returns.
  static Result<Recovered> create(FileSystem& file_system, std::string directory, DirectoryId id,
                                  WalOptions options = {}, raft::Membership bootstrap = {});

  /// Opens the log of `id`. Everything it reports is durable (it syncs what a dead process left in the page
  /// cache). DataLoss: durable data is damaged or missing; the message says which file, where, and what to
  /// do. FailedPrecondition: the log belongs to another directory id or has a format this build does not
  /// know.
  static Result<Recovered> open(FileSystem& file_system, std::string directory, DirectoryId id,
                                WalOptions options = {});

  ~Wal();
  Wal(const Wal&) = delete;
  Wal& operator=(const Wal&) = delete;

  /// Takes the writes in order; durable after the next sync(). Of each: hard_state, entries (contiguous; a
  /// first entry at or below the last index cuts the log there), compact_to (its entry must be held). `chunk`
  /// is not looked at. InvalidArgument for writes that contradict the log, before any byte is written; that
  /// is the caller's bug.
  Status append(std::span<const raft::Write> writes);

  /// Makes everything appended durable: one fdatasync, none if nothing is waiting.
  Status sync();

  /// The log starts right after `meta` (a snapshot was installed). Drops all entries, unless the log holds
  /// the entry of that index with that term: then those after it stay. No effect if the log already starts
  /// there or later. Durable when it returns.
  Status restart_at(const raft::SnapshotMeta& meta);

  /// Deletes whole segments in which no entry is above `index` or above the (durable) start of the log. Hard
  /// state, start and membership stay recoverable: each segment begins with a copy. Call with what the state
  /// machine holds durably.
  Status release(Index index);

  /// A bounded step of making the next segment; true = call again when idle. Cheap when there is nothing to
  /// do.
  Result<bool> prepare_next();

  /// Notes in the log that all up to here is durable, if that is not noted yet, so that later damage anywhere
  /// before is told from a torn tail. Not synced: losing it loses only that certainty. For idle moments.
  Status mark();

  [[nodiscard]] Index last_index() const { return image_.last().index; }
  /// Where the log starts, as of the last append or restart.
  [[nodiscard]] const raft::SnapshotMeta& start() const { return image_.start(); }
  [[nodiscard]] const raft::HardState& hard_state() const { return image_.hard_state(); }
  /// Bytes appended that no sync covers yet.
  [[nodiscard]] uint64_t unsynced_bytes() const {
    return records_end_ > current_.durable() ? records_end_ - current_.durable() : 0;
  }
  [[nodiscard]] size_t segment_count() const { return older_.size() + 1; }
  /// OK, or why the log is unusable.
  [[nodiscard]] const Status& failure() const { return failure_; }

 private:
  struct Older {
    uint64_t number = 0;
    Index highest;  ///< highest index of any entry in it; 0 = none
  };

  Wal(FileSystem& file_system, std::string directory, DirectoryId id, WalOptions options);
  Status check(std::span<const raft::Write> writes) const;
  /// After it, a record of `record_bytes` may be added to the frame.
  Status make_room(uint64_t record_bytes);
  Status write_frame();
  Status roll(uint64_t body_bytes_min);
  Status begin_segment(uint64_t previous_end, uint32_t previous_chain);
  Status add_entry(const raft::Entry& entry);
  Status add_hard_state(const raft::HardState& state);
  Status add_start(const raft::SnapshotMeta& start, bool keep_entries);
  Status append_checked(std::span<const raft::Write> writes);
  /// Remembers the first error for ever; what is returned is it.
  Status fail(Status status);

  FileSystem& file_system_;
  std::string directory_;
  DirectoryId id_;
  WalOptions options_;
  LogImage image_;                    ///< what replaying all that was appended gives, payloads left out
  raft::SnapshotMeta durable_start_;  ///< image_.start() at the last sync; release() trusts no later one
  std::deque<Older> older_;           ///< full segments, oldest first; all of their bytes are durable
  SegmentWriter current_;
  Index current_highest_;       ///< as Older::highest
  uint64_t records_end_ = 0;    ///< end of the last frame in the current segment that is no mark
  uint64_t noted_durable_ = 0;  ///< newest durable offset that a frame of the current segment carries
  FrameBuilder frame_;          ///< empty between calls
  std::unique_ptr<SegmentPreparer> next_;
  Status failure_;
};

}  // namespace rallypoint::storage
