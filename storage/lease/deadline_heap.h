// DeadlineHeap: which of many things is due next. Each thing knows its own place in the heap, so that it can be taken out
// in O(log n) and nothing stale is ever kept: a heap with lazy deletion grows with every lease that is granted for a year
// and revoked at once. 16 bytes per thing; the place is kept by its owner.
//
// Pure. Equal deadlines come out in an order that depends only on what was done before.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "raft/base/check.h"
#include "raft/base/units.h"

namespace rallypoint::lease {

/// `PlaceOf()(T&)` gives a reference to the thing's uint32_t; kNowhere = not in the heap.
template <class T, class PlaceOf>
class DeadlineHeap {
 public:
  static constexpr uint32_t kNowhere = UINT32_MAX;

  [[nodiscard]] bool empty() const { return items_.empty(); }
  [[nodiscard]] size_t size() const { return items_.size(); }
  [[nodiscard]] Instant next() const { return items_.front().at; }
  [[nodiscard]] T& top() const { return *items_.front().what; }

  /// `what` must not be in the heap.
  void push(Instant at, T& what) {
    RALLY_CHECK(PlaceOf()(what) == kNowhere && items_.size() < kNowhere, "place", PlaceOf()(what), "size", items_.size());
    items_.push_back({at, &what});
    rise(items_.size() - 1);
  }
  /// Nothing if it is not there.
  void erase(T& what) {
    const uint32_t place = std::exchange(PlaceOf()(what), kNowhere);
    if (place == kNowhere) return;
    const Item last = items_.back();
    items_.pop_back();
    if (last.what != &what) {
      items_[place] = last;
      sink(rise(place));
    }
    if (items_.size() * 4 < items_.capacity() && items_.capacity() > 1024) items_.shrink_to_fit();
  }
  /// The first one waits until `at`, which is not before now.
  void put_off(Instant at) {
    items_.front().at = at;
    sink(0);
  }
  void clear() {
    for (const Item& item : items_) PlaceOf()(*item.what) = kNowhere;
    items_ = {};
  }

 private:
  struct Item {
    Instant at;
    T* what = nullptr;
  };
  size_t rise(size_t place) {
    const Item item = items_[place];
    for (size_t above; place > 0 && item.at < items_[above = (place - 1) / 2].at; place = above) set(place, items_[above]);
    return set(place, item);
  }
  size_t sink(size_t place) {
    const Item item = items_[place];
    for (size_t below; (below = place * 2 + 1) < items_.size(); place = below) {
      if (below + 1 < items_.size() && items_[below + 1].at < items_[below].at) ++below;
      if (!(items_[below].at < item.at)) break;
      set(place, items_[below]);
    }
    return set(place, item);
  }
  size_t set(size_t place, const Item& item) {
    items_[place] = item;
    PlaceOf()(*item.what) = static_cast<uint32_t>(place);
    return place;
  }

  std::vector<Item> items_;
};

}  // namespace rallypoint::lease
