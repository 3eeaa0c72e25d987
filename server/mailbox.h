// Mailbox: many producers, one owner that takes everything at once. So batch size follows load by itself: alone, a
// message is taken at once; under load hundreds share one append, one sync, one engine batch, one socket write.
//
// The producer wakes the owner only if the box was empty. It never blocks a producer; what bounds it is that each kind
// of producer is bounded (connections x one request, links x their queues, one write per output of the core).
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace rallypoint::server {

template <class T>
class Mailbox {
 public:
  void post(T item) {
    bool wake;
    {
      std::lock_guard lock(mutex_);
      wake = items_.empty() && (waiting_ || waker_);
      items_.push_back(std::move(item));
    }
    if (!wake) return;
    if (waker_) waker_();
    else ready_.notify_one();
  }
  /// For an owner that waits for other things too, and uses try_take() only. Before anyone posts.
  void set_waker(std::function<void()> waker) { waker_ = std::move(waker); }
  [[nodiscard]] bool is_empty() const {
    std::lock_guard lock(mutex_);
    return items_.empty();
  }

  /// Everything that waits; empty if nothing came until `deadline`.
  std::vector<T> take_until(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    waiting_ = true;
    ready_.wait_until(lock, deadline, [&] { return !items_.empty(); });
    waiting_ = false;
    return std::exchange(items_, {});
  }
  /// Waits without a limit.
  std::vector<T> take() {
    std::unique_lock lock(mutex_);
    waiting_ = true;
    ready_.wait(lock, [&] { return !items_.empty(); });
    waiting_ = false;
    return std::exchange(items_, {});
  }
  std::vector<T> try_take() {
    std::lock_guard lock(mutex_);
    return std::exchange(items_, {});
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<T> items_;
  bool waiting_ = false;
  std::function<void()> waker_;
};

}  // namespace rallypoint::server
