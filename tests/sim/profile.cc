#include "tests/sim/profile.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace rallypoint::sim {
namespace {

template <size_t N>
int64_t pick(Random& random, const int64_t (&choices)[N]) {
  return choices[random.below(N)];
}

/// A mean interval for a fault, or never.
Duration sometimes(Random& random, uint32_t percent, int64_t low_ms, int64_t high_ms) {
  if (!random.chance(percent, 100)) return {};
  return Duration::millis(static_cast<int64_t>(random.between(low_ms, high_ms)));
}

raft::Config draw_core(Random& random) {
  raft::Config config;
  config.heartbeat_ticks = static_cast<Ticks>(pick(random, {1, 1, 2, 3}));
  config.election_ticks = static_cast<Ticks>(pick(random, {8, 10, 10, 15}));
  config.disk_stall_ticks = static_cast<Ticks>(pick(random, {0, 15, 30, 30}));
  config.append_bytes_max = static_cast<size_t>(pick(random, {1, 40, 300, 1 << 20}));
  config.append_entries_max = static_cast<size_t>(pick(random, {1, 3, 16, 4096}));
  config.inflight_appends_max = static_cast<size_t>(pick(random, {1, 3, 16, 256}));
  config.inflight_bytes_max = static_cast<size_t>(pick(random, {64, 1000, 8 << 20, 8 << 20}));
  config.uncommitted_bytes_max = static_cast<size_t>(pick(random, {400, 4000, 64 << 20, 64 << 20}));
  // What is accepted must also get through: a narrow pipe takes less in.
  if (config.append_entries_max * config.inflight_appends_max <= 16 || config.append_bytes_max < 1000 ||
      config.inflight_bytes_max < 2000) {
    config.uncommitted_bytes_max = std::min<size_t>(config.uncommitted_bytes_max, 3000);
  }
  config.snapshot_chunk_bytes = static_cast<size_t>(pick(random, {24, 100, 300, 1 << 20}));
  return config;
}

}  // namespace

Duration around(Random& random, Duration mean) {
  if (mean.us <= 0) return Duration::micros(1);
  const double uniform = (static_cast<double>(random.below(1'000'000)) + 1) / 1'000'001;
  const auto us = static_cast<int64_t>(-std::log(uniform) * static_cast<double>(mean.us));
  return Duration::micros(std::clamp<int64_t>(us, 1, mean.us * 10));
}

Profile Profile::draw(Random& random) {
  Profile p;
  p.nodes = static_cast<uint32_t>(pick(random, {3, 3, 3, 5, 5, 4, 2, 1}));
  p.chaos = Duration::millis(static_cast<int64_t>(random.between(3000, 9000)));
  p.core = draw_core(random);
  p.drift_percent = static_cast<uint32_t>(pick(random, {0, 1, 10, 30}));
  p.batch_percent = static_cast<uint32_t>(pick(random, {0, 0, 20, 60}));
  p.real_log = random.chance(15, 100);
  p.wire_percent = static_cast<uint32_t>(pick(random, {0, 5, 5, 100}));

  p.proposal_interval = Duration::millis(pick(random, {3, 10, 30, 80}));
  p.read_interval = Duration::millis(pick(random, {5, 10, 30, 80}));
  p.proposal_batch_max = static_cast<uint32_t>(pick(random, {1, 1, 4, 16}));
  p.value_bytes_max = static_cast<uint32_t>(pick(random, {0, 8, 100, 400}));

  p.latency = Duration::micros(pick(random, {50, 200, 1000, 5000}));
  p.jitter = Duration::micros(pick(random, {20, 300, 3000, 12000}));
  p.ordered = random.chance(40, 100);
  if (!p.ordered) {
    // Every append that arrives too early is refused and sent again: keep that from growing without bound.
    p.core.inflight_appends_max = std::min<size_t>(p.core.inflight_appends_max, 8);
  }
  p.drop_permille = static_cast<uint32_t>(pick(random, {0, 0, 5, 50, 150}));
  p.duplicate_permille = static_cast<uint32_t>(pick(random, {0, 0, 20, 100}));

  p.sync_latency = Duration::micros(pick(random, {50, 200, 2000, 15000}));
  p.apply_latency = Duration::micros(pick(random, {10, 100, 2000, 20000}));
  p.flush_interval = Duration::millis(pick(random, {30, 150, 600, 3000}));
  p.flush_keeps_max = static_cast<uint32_t>(pick(random, {0, 0, 3, 30}));
  p.snapshot_latency = Duration::micros(pick(random, {50, 1000, 10000}));

  p.crash_every = sometimes(random, 70, 150, 2000);
  p.down_mean = Duration::millis(pick(random, {10, 100, 500, 1500}));
  p.wipe_every = sometimes(random, 40, 300, 2500);
  p.pause_every = sometimes(random, 45, 200, 2000);
  p.pause_mean = Duration::millis(pick(random, {30, 150, 600}));
  p.cut_every = sometimes(random, 65, 100, 1500);
  p.cut_mean = Duration::millis(pick(random, {50, 200, 800}));
  p.depose_every = sometimes(random, 35, 200, 1500);
  p.stall_every = sometimes(random, 30, 300, 2500);
  p.stall_mean = Duration::millis(pick(random, {50, 300, 900}));
  p.transfer_every = sometimes(random, 40, 100, 1500);
  p.membership_every = sometimes(random, 50, 30, 900);
  p.false_hint_every = sometimes(random, 35, 50, 1000);
  p.forge_every = sometimes(random, 20, 50, 500);
  p.hint_percent = static_cast<uint32_t>(pick(random, {0, 50, 100}));
  return p;
}

}  // namespace rallypoint::sim
