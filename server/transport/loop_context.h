// LoopContext: what all connections of one peer loop share: its io_context, settings, counters, a coarse clock, and
// a way to log. Owned by Transport::Loop; peer loop only.
//
// The clock counts housekeeping rounds, not time: after the process was suspended it has advanced by one, not by
// the time that passed, so that a node that slept does not hang up on peers whose bytes wait in its sockets.
#pragma once

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <string>

#include "server/transport/transport.h"

namespace rallypoint::server {

struct LoopContext {
  boost::asio::io_context& io;
  const TransportOptions& options;
  TransportHandler& handler;
  TransportStats& stats;
  uint64_t now = 0;           ///< housekeeping rounds so far
  Duration round;             ///< how long one lasts
  ClusterFacts facts = {};

  /// A length of time in rounds, at least one.
  [[nodiscard]] uint64_t rounds(Duration duration) const {
    return static_cast<uint64_t>((duration.us + round.us - 1) / round.us);
  }
};

/// One line with the transport's logger. In a .cc of its own: spdlog's headers are heavy.
void log_info(const std::string& line);
void log_warning(const std::string& line);

/// Lets one line pass per period and counts the others; what strangers can cause must not fill a disk.
class LogLimiter {
 public:
  /// Whether to log now; then `suppressed` is how many were not logged since the last one.
  bool allow(uint64_t now, uint64_t period, uint64_t& suppressed) {
    if (next_ != 0 && now < next_) return ++suppressed_, false;
    next_ = now + period;
    suppressed = suppressed_;
    suppressed_ = 0;
    return true;
  }

 private:
  uint64_t next_ = 0;
  uint64_t suppressed_ = 0;
};

}  // namespace rallypoint::server
