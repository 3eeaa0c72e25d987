// A million leases, and what they take. Counts what the allocator really hands out.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>
#include <new>

#include "tests/lease/support.h"

namespace {
size_t live_bytes = 0;
}

// Not inlined: g++ would take malloc and free for a mismatched pair.
[[gnu::noinline]] void* operator new(size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) std::abort();
  live_bytes += malloc_usable_size(memory) + sizeof(size_t);  // and the allocator's own word
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  if (memory != nullptr) live_bytes -= malloc_usable_size(memory) + sizeof(size_t);
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }

namespace rallypoint::lease {
namespace {

using namespace testing;

constexpr int64_t kMany = 1'000'000;

TEST(LessorMemory, AMillionLeasesTakeAtMost150BytesEach) {
  const size_t before = live_bytes;
  auto lessor = leading();
  for (int64_t id = 1; id <= kMany; ++id) {
    ASSERT_TRUE(lessor->grant(id * 7919, 100 + id % 1000).is_ok());
    if (id % 1000 != 0) continue;
    storage::WriteBatch batch;
    lessor->collect_changes(batch);
    ASSERT_TRUE(due(*lessor, at(0)).empty());
  }
  RecordProperty("bytes_per_lease", static_cast<int>((live_bytes - before) / kMany));
  EXPECT_LE((live_bytes - before) / kMany, 150u);
  // They run out in portions, and nothing of them stays.
  size_t expired = 0;
  for (std::vector<int64_t> ids; !(ids = due(*lessor, at(2000))).empty();) {
    expired += ids.size();
    for (int64_t id : ids) ASSERT_TRUE(lessor->revoke(id).is_ok());
    storage::WriteBatch batch;
    lessor->collect_changes(batch);
  }
  EXPECT_EQ(expired, static_cast<size_t>(kMany));
  EXPECT_EQ(lessor->size(), 0u);
}

TEST(LessorMemory, RenewingAMillionTimesTakesNothing) {
  auto lessor = leading();
  grant(*lessor, 1, 100);
  grant(*lessor, 2, 10);
  const size_t before = live_bytes;
  for (int i = 1; i <= kMany; ++i) {
    const Instant now = at(i * 1e-3);
    ASSERT_TRUE(lessor->renew(1, now));
    ASSERT_TRUE(lessor->renew(2, now));
    ASSERT_TRUE(due(*lessor, now).empty());
  }
  EXPECT_LE(live_bytes, before);
}

TEST(LessorMemory, LeasesThatCameAndWentLeaveNothing) {
  // A heap with lazy deletion would keep a stale item of each for a year.
  auto lessor = leading();
  grant(*lessor, 1, 10);
  const size_t before = live_bytes;
  for (int64_t i = 0; i < 100'000; ++i) {
    grant(*lessor, 2 + i % 3, 365 * 86400);
    ASSERT_TRUE(lessor->revoke(2 + i % 3).is_ok());
    storage::WriteBatch batch;
    lessor->collect_changes(batch);
  }
  EXPECT_LE(live_bytes, before + 1000);
}

}  // namespace
}  // namespace rallypoint::lease
