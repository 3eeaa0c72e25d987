// What the bytes of a log segment mean. Pure: encodes and decodes, touches no file.
//
//   segment  = frame* zero*            a segment is pre-written with zeros; the first zero head ends the log
//   frame    = head body               one append(): it takes effect whole or not at all
//   head     = magic head_crc body_bytes body_crc offset durable                            24 bytes
//   body     = record*                 body_bytes long, a multiple of 8; empty = a mark
//   record   = type:u8 kind:u8 zero:u16 length:u32 content pad      `length` of content, zeros up to 8 * n
//
//   type         content
//   1 segment    version:u32 zero:u32 directory:u64 number:u64 previous_end:u32 previous_chain:u32
//                last_term:u64 last_index:u64 term:u64 vote:u64 commit:u64 start    only and always first
//   2 entry      term:u64 index:u64 payload           `kind` is the entry's EntryKind
//   3 hard state term:u64 vote:u64 commit:u64
//   4 compacted  start                                the log starts here; entries after it stay
//   5 restarted  start                                the log starts here; no entry stays
//   start      = term:u64 index:u64 membership        membership in raft.proto's form
//
// All numbers are little-endian. Offsets count from the start of the segment.
//   magic     "RWF1"; the digit is the format version, so that a reader can refuse others by name
//   head_crc  CRC32C of the 16 bytes after it, on top of a salt made of directory id and segment number (the
//             first frame: of 0), so that no frame of another place or time can pass for one of here
//   body_crc  CRC32C of the body on top of the body_crc of the frame before (first frame: 0): a frame can't
//             follow any but its true predecessor. The first record of a segment repeats where and with which
//             chain the segment before ended.
//   offset    of this very frame
//   durable   how many bytes of this segment were known durable when the frame was made
//
// The torn-tail rule. Pages of writes that no sync confirmed reach the disk in any order, or not. So behind
// the first frame that does not check out there may be anything, valid frames too. Let `damage` be where that
// frame starts and D the highest `durable` of any valid frame head in the segment, found by looking at every
// 8th byte behind the damage.
//   damage <  D   durable bytes are damaged: corruption, the node must not use this log
//   damage >= D   nothing behind `damage` was ever acknowledged: cut it off, write zeros over it
// A segment is synced before the first byte of the next one is written, so damage in any but the last is
// corruption.
//
// Worked example: one frame at offset 4096 with the entry (term 2, index 7, command "abc"), everything before
// durable:
//   "RWF1" head_crc 20 00 00 00  body_crc  00 10 00 00  00 10 00 00   32 bytes, offset 4096, durable 4096
//   02 01 00 00 13 00 00 00  02 00 .. 00  07 00 .. 00  61 62 63 00 00 00 00 00   length 19 = 8 + 8 + 3, pad 5
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "raft/base/status.h"
#include "raft/types.h"

namespace rallypoint::storage {

inline constexpr uint32_t kWalVersion = 1;
inline constexpr char kFrameMagic[4] = {'R', 'W', 'F', '0' + kWalVersion};
inline constexpr size_t kFrameHeadBytes = 24;
inline constexpr size_t kRecordHeadBytes = 8;
inline constexpr size_t kEntryHeadBytes = kRecordHeadBytes + 16;
/// A payload may be this long; far above what the server lets in (bytes).
inline constexpr size_t kEntryPayloadBytesMax = 256 << 20;
static_assert(kFrameHeadBytes % 8 == 0 && kEntryHeadBytes % 8 == 0);

/// `bytes` rounded up to the next multiple of 8.
constexpr uint64_t padded(uint64_t bytes) {
  return (bytes + 7) & ~uint64_t{7};
}

struct FrameHead {
  uint32_t body_bytes = 0;
  uint32_t body_crc = 0;
  uint32_t offset = 0;
  uint32_t durable = 0;
};

/// What head_crc starts from, for all frames of a segment but the first (0).
uint32_t segment_salt(DirectoryId id, uint64_t segment_number);

/// Writes the 24 bytes of `head` to `out`.
void encode_frame_head(const FrameHead& head, uint32_t salt, char* out);

/// The head at the front of `bytes` if magic, checksum and offset are right.
std::optional<FrameHead> decode_frame_head(std::string_view bytes, uint32_t salt, uint64_t offset);

// ---- records ----------------------------------------------------------------------------------------------

/// First record of each segment: who owns it, what came before it, and all state that earlier segments hold.
struct SegmentRecord {
  uint32_t version = kWalVersion;
  DirectoryId directory;
  uint64_t number = 0;
  uint32_t previous_end = 0;    ///< bytes of the segment before; 0 = there is none
  uint32_t previous_chain = 0;  ///< body_crc of its last frame
  raft::EntryId last;           ///< last entry of the log when the segment began
  raft::HardState hard_state;
  raft::SnapshotMeta start;
};
struct StartRecord {
  raft::SnapshotMeta start;
  bool keep_entries = false;  ///< compacted (4), not restarted (5)
};
/// An entry whose payload is a view into the decoded body.
struct EntryRecord {
  raft::EntryId id;
  raft::EntryKind kind;
  std::string_view payload;
};
using Record = std::variant<SegmentRecord, EntryRecord, raft::HardState, StartRecord>;

/// Appends the record's bytes, padding included.
void encode_record(const SegmentRecord& record, std::string& out);
void encode_record(const StartRecord& record, std::string& out);
void encode_record(const raft::HardState& record, std::string& out);
/// Only the head: the payload and padded(size) - size zeros follow it.
void encode_entry_head(const raft::Entry& entry, std::string& out);

/// Bytes that the entry takes, padding included.
constexpr uint64_t entry_record_bytes(size_t payload_bytes) {
  return kEntryHeadBytes + padded(payload_bytes);
}

/// Decodes the record at the front of `body` and removes it from there. DataLoss: not a record (the message
/// says why, not where). Total: any bytes at all are fine as input.
Result<Record> decode_record(std::string_view& body);

}  // namespace rallypoint::storage
