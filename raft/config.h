// Config: the settings of one node's Raft. Constant for the life of a Core.
#pragma once

#include <cstddef>

#include "raft/base/status.h"
#include "raft/base/units.h"

namespace rallypoint::raft {

/// Settings of one node. validate() names the first bad field.
struct Config {
  NodeId id;                            ///< this member; not 0
  DirectoryId directory;                ///< random id of this data directory; not 0
  Ticks heartbeat_ticks = 1;            ///< a leader speaks at least this often; >= 1
  Ticks election_ticks = 10;            ///< base election time-out, randomised in [n, 2n); > heartbeat_ticks
  Ticks disk_stall_ticks = 30;          ///< a leader whose oldest write is this old steps down; 0 = never
  size_t append_bytes_max = 1 << 20;    ///< payload bytes of one AppendEntries; one entry always fits
  size_t append_entries_max = 4096;     ///< entries of one AppendEntries
  size_t inflight_appends_max = 256;    ///< AppendEntries under way to one follower
  size_t inflight_bytes_max = 8 << 20;  ///< payload bytes under way to one follower
  size_t uncommitted_bytes_max = 64 << 20;  ///< proposals beyond this are rejected as ResourceExhausted
  size_t snapshot_chunk_bytes = 1 << 20;
  [[nodiscard]] Status validate() const;

  /// After this long without an answer something under way counts as lost: as long as a slow disk may take in
  /// good order, since what is sent twice for nothing is bulk.
  [[nodiscard]] Ticks resend_ticks() const { return election_ticks; }
};

}  // namespace rallypoint::raft
