#include "raft/config.h"

namespace rallypoint::raft {

Status Config::validate() const {
  if (id.is_zero()) return Status::invalid_argument("id is 0; a member's id is any other number");
  if (directory.is_zero()) return Status::invalid_argument("directory is 0; it is a random number, never 0");
  if (heartbeat_ticks < 1) return Status::invalid_argument("heartbeat_ticks is 0; it must be at least 1");
  if (election_ticks <= heartbeat_ticks)
    return Status::invalid_argument("election_ticks is " + std::to_string(election_ticks) +
                                    "; it must be above heartbeat_ticks (" + std::to_string(heartbeat_ticks) +
                                    ")");
  if (append_bytes_max == 0) return Status::invalid_argument("append_bytes_max is 0; it must be at least 1");
  if (append_entries_max == 0)
    return Status::invalid_argument("append_entries_max is 0; it must be at least 1");
  if (inflight_appends_max == 0)
    return Status::invalid_argument("inflight_appends_max is 0; it must be at least 1");
  if (inflight_bytes_max == 0)
    return Status::invalid_argument("inflight_bytes_max is 0; it must be at least 1");
  if (uncommitted_bytes_max == 0)
    return Status::invalid_argument("uncommitted_bytes_max is 0; it must be at least 1");
  if (snapshot_chunk_bytes == 0)
    return Status::invalid_argument("snapshot_chunk_bytes is 0; it must be at least 1");
  return Status::ok();
}

}  // namespace rallypoint::raft
