// server/auto_compactor.h, in a time of our own.
#include "server/auto_compactor.h"

#include <gtest/gtest.h>

namespace rallypoint::server {
namespace {

using Mode = AutoCompaction::Mode;

TEST(AutoCompactor, OffAsksForNothing) {
  AutoCompactor compactor({});
  for (int s = 0; s < 1000; ++s) EXPECT_FALSE(compactor.tick(Instant{s * 1'000'000}, s, 0, true));
}

TEST(AutoCompactor, KeepsTheLastSoManyRevisions) {
  AutoCompactor compactor({Mode::kRevisions, 100, {}});
  Instant now{1'000'000};
  EXPECT_FALSE(compactor.tick(now, 90, 0, true)) << "there are not so many";
  now = now + Duration::seconds(20);
  EXPECT_EQ(compactor.tick(now, 250, 0, true), 150);
  now = now + Duration::seconds(20);
  EXPECT_FALSE(compactor.tick(now, 250, 150, true)) << "done already";
  EXPECT_FALSE(compactor.tick(now, 900, 150, true)) << "it does not look that often";
}

TEST(AutoCompactor, KeepsWhatIsYoungerThanTheTime) {
  AutoCompactor compactor({Mode::kTime, 0, Duration::seconds(100)});
  // A revision a second; what is asked for was the newest one at least 100 s ago, and hardly longer.
  int64_t compacted = 0;
  int asked = 0;
  for (int s = 1; s <= 1000; ++s) {
    const auto to = compactor.tick(Instant{s * 1'000'000}, s, compacted, true);
    if (!to) continue;
    ++asked;
    EXPECT_LE(*to, s - 100);
    EXPECT_GE(*to, s - 111);
    compacted = *to;
  }
  EXPECT_GE(asked, 8);
  EXPECT_LE(asked, 9) << "once in each such time";
}

TEST(AutoCompactor, AFollowerRemembersAndALeaderAsks) {
  AutoCompactor compactor({Mode::kTime, 0, Duration::seconds(100)});
  for (int s = 1; s <= 150; ++s) EXPECT_FALSE(compactor.tick(Instant{s * 1'000'000}, s, 0, false));
  std::optional<int64_t> to;
  for (int s = 151; s <= 165 && !to; ++s) to = compactor.tick(Instant{s * 1'000'000}, s, 0, true);
  ASSERT_TRUE(to) << "a new leader need not wait for the time again";
  EXPECT_GE(*to, 40);
}

TEST(AutoCompactor, AnIdleKeyspaceIsCompactedOnce) {
  AutoCompactor compactor({Mode::kTime, 0, Duration::seconds(10)});
  int64_t compacted = 0;
  int asked = 0;
  for (int s = 1; s <= 300; ++s)
    if (const auto to = compactor.tick(Instant{s * 1'000'000}, 7, compacted, true)) compacted = *to, ++asked;
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(compacted, 7);
}

}  // namespace
}  // namespace rallypoint::server
