// Connection: what a net loop knows of a client's connection, whatever protocol it speaks. Owned by its loop (and by
// its own outstanding socket operations); touched by the loop's thread only.
#pragma once

#include <cstdint>
#include <memory>

#include "server/api/api.h"

namespace rallypoint::server {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  virtual ~Connection() = default;
  /// Begins to read. Called once, after the loop has taken it in.
  virtual void start() = 0;
  /// A reply whose token was made for this connection; perhaps for a call that is over (then it is dropped).
  virtual void on_reply(Reply&& reply) = 0;
  /// All replies of a batch have been given: send what they made, go on with what waits.
  virtual void resume() = 0;
  /// Time passes; `tick` counts the loop's ticks.
  virtual void on_tick(uint64_t tick) = 0;
  /// Closes the socket now, whatever is under way, and cancels its calls.
  virtual void close() = 0;

  /// Its place in the loop's table.
  uint32_t slot = 0;
  /// On the loop's list of connections to resume.
  bool resume_pending = false;
};

}  // namespace rallypoint::server
