// Segment: one file of the log. Pre-written with zeros, because a sync of a file whose blocks are already
// there and written took 92-124 us where a growing one took 141-172 us (fallocate alone does not give that).
// Named by a number that counts up from 1, sixteen hex digits: wal/0000000000000001.log.
//
// SegmentWriter appends frames, SegmentPreparer makes the next file in small steps, scan_segment() reads one
// back and applies the torn-tail rule of record.h. Owned by Wal.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "raft/base/bytes.h"
#include "raft/base/status.h"
#include "storage/fs/file_system.h"
#include "storage/wal/record.h"

namespace rallypoint::storage {

std::string segment_name(uint64_t number);
std::string segment_path(const std::string& directory, uint64_t number);
/// The number, if the name is a segment's.
std::optional<uint64_t> parse_segment_name(std::string_view name);

/// Makes a file of zeros, bounded work per step; durable with its name when step() returns false. Goes on
/// with a file that an earlier life left half done.
class SegmentPreparer {
 public:
  SegmentPreparer(FileSystem& file_system, std::string directory, uint64_t number, uint64_t bytes);
  /// True = more to do.
  Result<bool> step(uint64_t step_bytes);
  /// Somebody waits: makes do with what is there, but at least `bytes_min`.
  Status finish(uint64_t bytes_min);
  [[nodiscard]] uint64_t number() const { return number_; }
  /// The finished file, and how much of it is zeros.
  std::unique_ptr<File> take_file() { return std::move(file_); }
  [[nodiscard]] uint64_t bytes() const { return written_; }

 private:
  Status open();
  Status write_zeros(uint64_t count);

  FileSystem& file_system_;
  std::string directory_;
  uint64_t number_;
  uint64_t bytes_;  ///< wanted
  std::unique_ptr<File> file_;
  uint64_t written_ = 0;
  bool finished_ = false;
};

/// Appends frames to a segment. Does not know what is in them.
class SegmentWriter {
 public:
  SegmentWriter() = default;
  /// At the front of a file of zeros.
  SegmentWriter(std::unique_ptr<File> file, DirectoryId id, uint64_t number, uint64_t bytes);
  /// Behind what a scan found; all of it durable.
  SegmentWriter(std::unique_ptr<File> file, DirectoryId id, uint64_t number, uint64_t bytes, uint64_t end,
                uint32_t chain);

  /// Writes one frame; `body` pieces are records, a multiple of 8 bytes in all.
  Status write_frame(const std::vector<std::string_view>& body);
  Status sync();

  [[nodiscard]] uint64_t number() const { return number_; }
  [[nodiscard]] uint64_t end() const { return end_; }
  [[nodiscard]] uint64_t durable() const { return durable_; }
  [[nodiscard]] uint32_t chain() const { return chain_; }
  /// True if a frame with this much body ends within the pre-written part.
  [[nodiscard]] bool fits(uint64_t body_bytes) const { return end_ + kFrameHeadBytes + body_bytes <= bytes_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<File> file_;
  uint32_t salt_ = 0;
  uint64_t number_ = 0;
  uint64_t bytes_ = 0;  ///< pre-written size
  uint64_t end_ = 0;
  uint64_t durable_ = 0;
  uint32_t chain_ = 0;
  std::vector<std::string_view> pieces_;  ///< kept for its memory
};

/// What a scan found. Without frames the segment was never begun (or never got a durable byte).
struct ScannedSegment {
  Bytes data;  ///< the file up to its last byte that is not zero, or more
  struct Frame {
    uint64_t body_offset = 0;
    uint64_t body_bytes = 0;
  };
  std::vector<Frame> frames;  ///< the valid ones, from the front without a gap
  uint64_t end = 0;           ///< behind the last of them
  uint32_t chain = 0;         ///< its body_crc
  uint64_t durable = 0;       ///< the highest known: every byte before it was synced
  uint64_t file_bytes = 0;
  uint64_t dirty_end = 0;  ///< bytes in [end, dirty_end) may be other than zero
  std::string damage;      ///< what is wrong at `end`; empty = zeros follow: a clean end
};

/// Reads the file and judges every frame. DataLoss: bytes known durable are damaged. FailedPrecondition: the
/// file has another format version.
Result<ScannedSegment> scan_segment(const File& file, const std::string& path, DirectoryId id,
                                    uint64_t number);

/// What an operator is told when a log is damaged.
extern const char* const kDamagedLogAdvice;

}  // namespace rallypoint::storage
