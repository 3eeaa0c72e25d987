// SharedLoop: the peer loop, the node loop and the net loop on one thread, for machines with few cores. There every
// hand-over between threads is a system call, a context switch and a wait for a core that another node or the client
// has; without them a put through three nodes costs a third less, and waits less. With more cores the loops have a
// thread each and work side by side (Node, HttpServer).
//
// One round: sockets that are ready, of members and clients; then, if anything was posted to the node or its tick is
// due, one turn of the node loop for all of it. So batches grow with load as they do between threads.
//
// What is given up: while the node loop is busy (a slice of a large range, an engine that stalls) no socket is read.
// Rounds are bounded, and the node's turns are sliced already.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <thread>

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
  boost::asio::io_context& context() { return context_; }
  /// Makes the thread. Both must outlive join().
  void start(NodeLoop& node);
  /// When the node loop is done: it must have been told to shut down.
  void join();
  [[nodiscard]] bool is_running() const { return thread_.joinable(); }

 private:
  void run(NodeLoop& node);
  void serve_sockets();

  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{context_.get_executor()};
  std::thread thread_;
};

}  // namespace rallypoint::server
