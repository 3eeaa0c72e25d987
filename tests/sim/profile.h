// Profile: the mix of one run - sizes, speeds and which faults come how often - drawn from the seed. Every
// run leaves some faults out (swarm testing): a fault that is always on hides what only happens without it.
#pragma once

#include <cstdint>

#include "raft/base/random.h"
#include "raft/base/units.h"
#include "raft/core.h"

namespace rallypoint::sim {

struct Profile {
  // The cluster.
  uint32_t nodes = 3;
  Duration chaos{};   ///< simulated time with faults, before healing
  raft::Config core;  ///< id and directory are filled in per node
  Duration tick = Duration::millis(10);
  uint32_t drift_percent = 0;  ///< a node's ticks are this much shorter or longer
  uint32_t batch_percent = 0;  ///< steps whose output is only taken with the next step's
  bool real_log = false;       ///< storage::Wal on a lossy file system instead of the model
  uint32_t wire_percent = 0;   ///< messages that go through encode and decode

  // Clients.
  Duration proposal_interval{};  ///< mean
  Duration read_interval{};      ///< mean
  uint32_t proposal_batch_max = 1;
  uint32_t value_bytes_max = 8;

  // The network.
  Duration latency{};    ///< least
  Duration jitter{};     ///< mean of what comes on top
  bool ordered = false;  ///< a link keeps its order, as TCP does
  uint32_t drop_permille = 0;
  uint32_t duplicate_permille = 0;

  // Disks and the state machine.
  Duration sync_latency{};       ///< mean
  Duration apply_latency{};      ///< mean
  Duration flush_interval{};     ///< mean; the engine's state is durable up to there, then the log may be cut
  uint32_t flush_keeps_max = 0;  ///< entries that a compaction may leave behind the flushed index
  Duration snapshot_latency{};   ///< mean, to make or to read one

  // Faults: mean intervals over the whole cluster; 0 = never.
  Duration crash_every{}, down_mean{};
  Duration wipe_every{};
  Duration pause_every{}, pause_mean{};
  Duration cut_every{}, cut_mean{};
  Duration depose_every{};  ///< the leader, with less than a quorum, is cut off and the others are told
  Duration stall_every{}, stall_mean{};
  Duration transfer_every{};
  Duration membership_every{};
  Duration false_hint_every{};  ///< "the leader is gone" though it is not
  Duration forge_every{};       ///< an append that contradicts what is committed
  uint32_t hint_percent = 0;    ///< peers that notice a crash at once

  [[nodiscard]] static Profile draw(Random& random);
};

/// Exponentially distributed around `mean`, at least 1 us, at most 10 means.
[[nodiscard]] Duration around(Random& random, Duration mean);

}  // namespace rallypoint::sim
