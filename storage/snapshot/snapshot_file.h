// A snapshot file: the state machine's whole key space at one raft index, as plain rows. Not RocksDB's files
// but what they mean, so that any engine can write and load one, and a snapshot sent between versions stays
// readable.
//
//   file   = head block* foot
//   head   = "RALLYSNP" version:u32 membership_bytes:u32 term:u64 index:u64 membership crc:u32
//   block  = body_bytes:u32 rows:u32 crc:u32 body           body_bytes > 0; crc is of the counts and the body
//   body   = (key_bytes:u32 value_bytes:u32 key value)*     keys ascend strictly over the whole file
//   foot   = zero:u32 rows:u64 bytes:u64 total:u32 crc:u32 "RALLYEND"     bytes = of the file before the foot
//
// Little-endian; crc is CRC32C of what precedes it in its part; `total` is the CRC32C of all block crcs, in
// order, so that no block can be missing, doubled or moved. The membership is opaque here.
//
// Worked example, term 2, index 9, no membership, one row "k" -> "v1" (sizes 36 + 12 + 11 + 36):
//   "RALLYSNP" 01 00 00 00  00 00 00 00  02 00..  09 00..  crc | 0b 00 00 00  01 00 00 00  crc
//   01 00 00 00  02 00 00 00  'k' 'v' '1' | 00 00 00 00  01 00..  3b 00..  total  crc  "RALLYEND"
//
// Runs on the background loop. Reading a damaged or foreign file gives a Status, never wrong rows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "raft/base/bytes.h"
#include "raft/base/status.h"
#include "raft/base/units.h"
#include "storage/engine/engine.h"
#include "storage/fs/file_system.h"

namespace rallypoint::storage {

inline constexpr uint32_t kSnapshotVersion = 1;

/// The point that a snapshot stands for: SnapshotMeta with the membership in its encoded form.
struct SnapshotPoint {
  Term term;
  Index index;
  std::string membership;
  friend bool operator==(const SnapshotPoint&, const SnapshotPoint&) = default;
};

/// A finished, verified file.
struct SnapshotInfo {
  std::string path;
  SnapshotPoint point;
  uint64_t bytes = 0;  ///< of the file
  uint64_t rows = 0;
};

/// "<directory>/0000000000000009-0000000000000002.snap": index, then term, in hex, so that names sort by age.
std::string snapshot_path(const std::string& directory, Index index, Term term);

/// Dumps all of `view` to snapshot_path(directory, ...). Written under a temporary name, synced, read back
/// and checked, renamed, directory synced: a file under the final name is whole. An existing one is replaced.
Result<SnapshotInfo> write_snapshot(FileSystem& file_system, const std::string& directory,
                                    const SnapshotPoint& point, const EngineView& view);

/// Reads the whole file and checks everything. DataLoss: damaged or cut. FailedPrecondition: unknown version.
Result<SnapshotInfo> verify_snapshot(FileSystem& file_system, const std::string& path);

/// Calls `row` for every row in order, checking as it goes; rows of a block are seen only after its checksum
/// was right. A Status returned by `row` ends it.
Result<SnapshotInfo> read_snapshot(
    FileSystem& file_system, const std::string& path,
    const std::function<Status(std::string_view key, std::string_view value)>& row);

/// Writes all rows into `engine` (which should be empty) in batches of about `batch_bytes`, then flushes.
/// Stops at the first damage; the engine is then half filled and must be thrown away.
Result<SnapshotInfo> load_snapshot(FileSystem& file_system, const std::string& path, Engine& engine,
                                   size_t batch_bytes = 1 << 20);

/// The finished snapshots in the directory, newest first. No directory = none.
Result<std::vector<std::string>> list_snapshots(FileSystem& file_system, const std::string& directory);

/// Removes all but the newest `keep` finished snapshots. A reader that has one open keeps reading it.
Status remove_old_snapshots(FileSystem& file_system, const std::string& directory, size_t keep);

/// Removes what crashes left unfinished. At start, before anything writes or receives a snapshot there.
Status remove_unfinished_snapshots(FileSystem& file_system, const std::string& directory);

}  // namespace rallypoint::storage
