// Rounds: an event loop's context, and work put off until the sockets of the present round have been served. Where a
// thread runs rounds (server/shared_loop.h), what it posts itself is queued here: a handler posted to the context would
// cost a wait for sockets between each two steps of a request, of which a round needs one. Everywhere else, and from
// other threads, posting is the context's own.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace rallypoint::server {

class Rounds {
 public:
  boost::asio::io_context& context() { return context_; }
  /// Any thread. The work runs on the loop's, never before post() has returned.
  void post(std::function<void()> work) {
    if (is_here()) later_.push_back(std::move(work));
    else boost::asio::post(context_, std::move(work));
  }

  // For the thread that runs rounds; without one these are not called.
  void begin() { runner_ = std::this_thread::get_id(); }
  [[nodiscard]] bool is_here() const { return runner_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }
  [[nodiscard]] bool has_posted() const { return !later_.empty(); }
  /// What was posted until now, in that order; what that posts waits for the next call.
  void run_posted() {
    running_.swap(later_);
    for (auto& work : running_) work();
    running_.clear();
  }

 private:
  boost::asio::io_context context_{1};
  std::atomic<std::thread::id> runner_{};
  std::vector<std::function<void()>> later_, running_;
};

}  // namespace rallypoint::server
