// Wire: bytes <-> Message, as it travels between members. Pure; used by the transport on its own loop.
//
// Format of one message (little endian); how messages are framed and summed is the transport's business:
//
//   head_size u32 | head: protobuf raft.pb.MessageHead | payloads, one after the other, nothing between
//
// Worked example: TimeoutNow from 1 to 2 in term 3 (directory 4) is
//   20 00 00 00   09 01 00.. 11 02 00.. 18 03  21 04 00..  D2 01 00     (fixed64 fields, 7 zeros at each "00..")
//
// Payloads (entries, snapshot pieces) are never copied: encode() hands out references to be gathered into one
// write, decode() slices them out of the received buffer, which lives as long as any of them.
//
// decode() is for input from outside: it is total, bounded in what it allocates, and never asserts.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "raft/base/bytes.h"
#include "raft/base/status.h"
#include "raft/message.h"

namespace rallypoint::raft {

/// A head larger than this is refused; it has room for kWireEntriesMax entries.
constexpr size_t kWireHeadBytesMax = 16 << 20;
/// Entries of one AppendRequest; far above any sensible Config::append_entries_max.
constexpr size_t kWireEntriesMax = 1 << 20;
/// Members in one list of a membership.
constexpr size_t kWireMembersMax = 1024;

/// Appends head_size and head to `head`, and the payloads that follow it to `payloads` (none is empty). The message
/// is ours: entries must be contiguous after `previous` (checked), and payloads below 4 GiB each.
void encode(const Message& message, std::string& head, std::vector<Bytes>& payloads);

/// The message in `body`, or InvalidArgument that names what is wrong with it.
Result<Message> decode(const Bytes& body);

}  // namespace rallypoint::raft
