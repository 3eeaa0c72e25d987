// Scheduler: virtual time. Actions run one after the other in the order of their moments; actions of one
// moment run in the order in which they were asked for, so that a run depends on its seed alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "raft/base/units.h"

namespace rallypoint::sim {

constexpr Duration operator+(Duration a, Duration b) {
  return {a.us + b.us};
}

class Scheduler {
 public:
  using Action = std::function<void()>;

  [[nodiscard]] Instant now() const { return now_; }
  [[nodiscard]] uint64_t actions_run() const { return actions_run_; }

  void after(Duration delay, Action action) {
    heap_.push_back({now_ + delay, next_order_++, std::move(action)});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  /// Runs the next action unless it lies beyond `end`; then time becomes `end` and false is returned.
  bool run_one(Instant end) {
    if (heap_.empty() || heap_.front().at > end) {
      now_ = end;
      return false;
    }
    std::pop_heap(heap_.begin(), heap_.end(), later);
    Item item = std::move(heap_.back());
    heap_.pop_back();
    now_ = item.at;
    ++actions_run_;
    item.action();
    return true;
  }

 private:
  struct Item {
    Instant at;
    uint64_t order;
    Action action;
  };
  static bool later(const Item& a, const Item& b) { return a.at != b.at ? a.at > b.at : a.order > b.order; }

  std::vector<Item> heap_;
  Instant now_;
  uint64_t next_order_ = 0;
  uint64_t actions_run_ = 0;
};

}  // namespace rallypoint::sim
