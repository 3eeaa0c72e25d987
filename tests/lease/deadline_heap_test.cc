#include "storage/lease/deadline_heap.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "raft/base/random.h"

namespace rallypoint::lease {
namespace {

struct Thing {
  int64_t due = 0;
  uint32_t place = UINT32_MAX;
};
struct Place {
  uint32_t& operator()(Thing& thing) const { return thing.place; }
};
using Heap = DeadlineHeap<Thing, Place>;

TEST(DeadlineHeap, DoesWhatAScanWouldDo) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::deque<Thing> things(60);
    Heap heap;
    for (int step = 0; step < 3000; ++step) {
      Thing& thing = things[random.below(things.size())];
      const auto due = static_cast<int64_t>(random.below(50));
      switch (random.below(4)) {
        case 0:
        case 1:
          if (thing.place != Heap::kNowhere) break;
          thing.due = due;
          heap.push({due}, thing);
          break;
        case 2: heap.erase(thing); break;
        case 3:
          if (heap.empty()) break;
          heap.top().due += due;
          heap.put_off({heap.top().due});
          break;
      }
      int64_t first = INT64_MAX;
      size_t inside = 0;
      for (const Thing& one : things) {
        if (one.place == Heap::kNowhere) continue;
        ++inside;
        first = std::min(first, one.due);
      }
      ASSERT_EQ(heap.size(), inside);
      if (inside == 0) continue;
      ASSERT_EQ(heap.next().us, first);
      ASSERT_EQ(heap.top().due, first);
    }
    heap.clear();
    for (const Thing& thing : things) ASSERT_EQ(thing.place, Heap::kNowhere);
  }
}

}  // namespace
}  // namespace rallypoint::lease
