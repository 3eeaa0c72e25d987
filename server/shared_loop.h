// SharedLoop: the peer loop, the node loop and the net loop on one thread, for machines with few cores. There every
// hand-over between threads is a system call, a context switch and a wait for a core that another node or the client
// has; without them a put through three nodes costs a third less, and waits less. With more cores the loops have a
// thread each and work side by side (Node, HttpServer).
//
// One round: sockets that are ready, of members and clients; what they brought goes to the node in one batch; if anything
// came or its tick is due, one turn of the node loop for all of it; what that sends goes out, one write a socket. So
// batches grow with load as they do between threads.
//
// After a round that took several requests the loop rests for 100 us. Clients that are answered together ask together
// again, so the next round is larger, and a system call or a message to a follower serves more of them: linearizable
// reads of 64 callers cost half the CPU with the rest, and more of them are answered in a second, sooner. A single caller
// never waits for it.
//
// What is given up: while the node loop is busy (a slice of a large range, an engine that stalls) no socket is read.
// Rounds are bounded, and the node's turns are sliced already.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <thread>

#include "server/rounds.h"

namespace rallypoint::server {

class NodeLoop;

class SharedLoop {
 public:
  SharedLoop() = default;
  SharedLoop(const SharedLoop&) = delete;
  ~SharedLoop();

  /// Whether so few cores want it.
  static bool pays_off();

  /// Of the transport and the net loop that share the thread; they close what they have open after join().
  Rounds& rounds() { return rounds_; }
  /// Makes the thread. Both must outlive join().
  void start(NodeLoop& node);
  /// When the node loop is done: it must have been told to shut down.
  void join();
  [[nodiscard]] bool is_running() const { return thread_.joinable(); }

 private:
  void run(NodeLoop& node);
  void serve_sockets();

  Rounds rounds_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{rounds_.context().get_executor()};
  std::thread thread_;
};

}  // namespace rallypoint::server
