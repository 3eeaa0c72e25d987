// The payload of a command entry: everything that one drain of the leader's mailbox proposed, with the time.
//
//   payload = version:u8 (1) cluster_time_us:i64 wall_unix_ns:i64 (bytes:u32 Command)*      little-endian
//
// The leader stamps the time, so that every replica expires the same keys before the same commands. Commands are
// encoded once, by the node that a client spoke to, and are copied into the entry as they are.
#pragma once

#include <string_view>
#include <vector>

#include "raft/base/bytes.h"
#include "raft/base/status.h"
#include "raft/base/units.h"

namespace rallypoint::server {

struct EntryTime {
  Instant cluster_time;      ///< never runs backwards in the state; drives every deadline
  int64_t wall_unix_ns = 0;  ///< for display only
};

/// An entry is closed once its commands are this large, so that a follower's append stays bounded.
inline constexpr size_t kEntryBytesTarget = 512 << 10;

Bytes encode_entry(const EntryTime& time, const std::vector<Bytes>& commands);

struct DecodedEntry {
  EntryTime time;
  std::vector<std::string_view> commands;  ///< views into the payload
};
/// DataLoss if the payload is malformed or of an unknown version: the log is ours, so the node must stop.
Result<DecodedEntry> decode_entry(const Bytes& payload);

/// The same list of commands without a time, as one node forwards it to the leader.
Bytes encode_commands(const std::vector<Bytes>& commands);
/// InvalidArgument if malformed: it came from a peer. The parts share the payload's memory.
Result<std::vector<Bytes>> decode_commands(const Bytes& payload);

}  // namespace rallypoint::server
