// The works of the v3 load, each a closed loop: so many operations are under way at any moment, and each that ends
// begins the next. All run on the thread that calls them, through whatever Client they are given.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "tests/bench/v3_client.h"
#include "tests/bench/v3_meter.h"

namespace rallypoint::bench {

struct Plan {
  size_t connections = 8;
  size_t outstanding = 64;
  std::chrono::milliseconds warm_up{1000};
  std::chrono::milliseconds length{3000};
  uint64_t keys = 10'000;       ///< the fixed set that puts and ranges choose from; also how many `fill` writes
  size_t value_bytes = 256;
  size_t streams = 8;           ///< of watches and keepalives
  size_t watchers = 10'000;
  size_t leases = 1000;
  uint64_t seed = 1;
};

/// put | range | range-serializable | txn: for a time. fill: every key once, in order; ends when that is done.
/// Returns false if there is no such work.
bool run_unary(std::string_view work, Client& client, const Plan& plan, Meter& meter);

/// Watchers of one key on several streams, and one put after the other, each when all have seen the last. Counts events; a
/// latency is that of a put until its last event.
void run_watch(Client& client, const Plan& plan, Meter& meter);

/// Keepalives of a set of leases, `outstanding` of them under way, spread over the streams.
void run_keepalive(Client& client, const Plan& plan, Meter& meter);

/// Opens watchers of distinct keys; prints how much more memory the process `server` has when all are confirmed.
void run_idle_watchers(Client& client, const Plan& plan, pid_t server);

}  // namespace rallypoint::bench
