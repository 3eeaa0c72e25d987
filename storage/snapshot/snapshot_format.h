// The parts of a snapshot file as bytes (the grammar is in snapshot_file.h). Private to storage/snapshot.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "raft/base/status.h"
#include "storage/snapshot/snapshot_file.h"

namespace rallypoint::storage::snapshot_format {

inline constexpr size_t kHeadFixedBytes = 8 + 4 + 4 + 8 + 8;  ///< then the membership and 4 bytes of crc
inline constexpr size_t kBlockHeadBytes = 12;
inline constexpr size_t kFootBytes = 4 + 8 + 8 + 4 + 4 + 8;
/// A block is closed once it is this large; one with a larger row holds that row alone.
inline constexpr size_t kBlockBytesTarget = 64 << 10;
/// Larger claims are damage, not data; bounds what a reader allocates.
inline constexpr uint32_t kBlockBytesMax = 1 << 30;
inline constexpr uint32_t kMembershipBytesMax = 64 << 20;

std::string encode_head(const SnapshotPoint& point);
/// The size of the whole head, from its fixed part. DataLoss: not a snapshot; FailedPrecondition: another
/// version.
Result<size_t> head_bytes(std::string_view fixed);
Result<SnapshotPoint> decode_head(std::string_view head);

/// Head and body of a block; what total is carried on with is block_crc().
std::string encode_block_head(std::string_view body, uint32_t rows);
struct BlockHead {
  uint32_t body_bytes = 0;
  uint32_t rows = 0;
  uint32_t crc = 0;
};
BlockHead decode_block_head(std::string_view bytes);
uint32_t block_crc(const BlockHead& head, std::string_view body);
/// `total` carried on by one block's crc.
uint32_t add_to_total(uint32_t total, uint32_t crc);

void append_row(std::string& body, std::string_view key, std::string_view value);
struct Row {
  std::string_view key;
  std::string_view value;
};
/// Takes a row from the front of `body`; nullopt = malformed.
std::optional<Row> take_row(std::string_view& body);

struct Foot {
  uint64_t rows = 0;
  uint64_t bytes = 0;
  uint32_t total = 0;
};
std::string encode_foot(const Foot& foot);
Result<Foot> decode_foot(std::string_view bytes);

}  // namespace rallypoint::storage::snapshot_format
