// AutoCompactor: forgets old revisions by itself, as etcd's auto-compaction-mode and -retention ask: all but the last so
// many revisions, or all that are older than so long. Every member keeps count, so that a new leader knows the past;
// only a leader proposes.
//
// Pure: time is handed in. Owned by the node loop.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "raft/base/units.h"

namespace rallypoint::server {

struct AutoCompaction {
  enum class Mode : uint8_t { kOff, kRevisions, kTime };
  Mode mode = Mode::kOff;
  int64_t revisions = 0;  ///< kept, at least 1
  Duration time;          ///< kept, at least 1 s
};

class AutoCompactor {
 public:
  explicit AutoCompactor(const AutoCompaction& settings) : settings_(settings) {}

  /// The revision to compact at now, if it is time for that; asks for each one once. `revision` and `compacted` are the
  /// keyspace's; `leads` = this member may propose.
  std::optional<int64_t> tick(Instant now, int64_t revision, int64_t compacted, bool leads);

 private:
  struct Sample {
    Instant at;
    int64_t revision;
  };
  [[nodiscard]] std::optional<int64_t> wanted(Instant now, int64_t revision);

  AutoCompaction settings_;
  std::deque<Sample> samples_;  ///< of the time that is kept and a little more, ascending
  Instant next_;                ///< the next look
  Instant compacted_at_;
};

}  // namespace rallypoint::server
