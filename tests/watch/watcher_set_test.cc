#include "storage/watch/watcher_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "raft/base/random.h"

namespace rallypoint::watch {
namespace {

std::vector<std::string> names(const WatcherSet& set, std::string_view key) {
  std::vector<Group*> found;
  set.match(key, found);
  std::vector<std::string> names;
  for (const Group* group : found) names.push_back(std::string(group->key()) + "," + std::string(group->range_end()));
  std::sort(names.begin(), names.end());
  return names;
}
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(WatcherSet, FindsSingleKeysAndRanges) {
  WatcherSet set;
  set.join({"a", ""});
  set.join({"b", ""});
  set.join({"a", "c"});
  set.join({"b", std::string(1, '\0')});
  EXPECT_THAT(names(set, "a"), ElementsAre("a,", "a,c"));
  EXPECT_THAT(names(set, "b"), ElementsAre("a,c", "b,", "b," + std::string(1, '\0')));
  EXPECT_THAT(names(set, "c"), ElementsAre("b," + std::string(1, '\0')));
  EXPECT_THAT(names(set, "A"), IsEmpty());
}

TEST(WatcherSet, ThoseWhoWantTheSameShareAGroup) {
  WatcherSet set;
  Group& group = set.join({"a", "b"});
  EXPECT_EQ(&set.join({"a", "b"}), &group);
  Interest other{"a", "b"};
  other.prev_kv = true;
  EXPECT_NE(&set.join(other), &group);
  EXPECT_EQ(set.groups(), 2u);
  set.leave(group);
  EXPECT_EQ(set.groups(), 2u);
  set.leave(group);
  EXPECT_EQ(set.groups(), 1u);
  EXPECT_THAT(names(set, "a"), ElementsAre("a,b"));
}

TEST(WatcherSet, ABoundIsNotMistakenForPartOfTheKey) {
  WatcherSet set;
  set.join({"ab", "c"});
  set.join({"a", "bc"});
  EXPECT_EQ(set.groups(), 2u);
  EXPECT_THAT(names(set, "ab"), ElementsAre("a,bc", "ab,c"));
}

TEST(WatcherSet, DoesWhatAScanWouldDo) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    WatcherSet set;
    std::vector<std::pair<Interest, Group*>> joined;
    const auto some_key = [&] {
      std::string key(1 + random.below(3), 'a');
      for (char& c : key) c = static_cast<char>('a' + random.below(4));
      return key;
    };
    for (int step = 0; step < 2000; ++step) {
      if (joined.size() < 5 || (joined.size() < 200 && random.chance(1, 2))) {
        Interest interest{some_key(), ""};
        if (random.chance(1, 2)) interest.range_end = random.chance(1, 8) ? std::string(1, '\0') : interest.key + some_key();
        interest.no_put = random.chance(1, 4);
        joined.emplace_back(interest, &set.join(interest));
      } else {
        std::swap(joined[random.below(joined.size())], joined.back());
        set.leave(*joined.back().second);
        joined.pop_back();
      }
      const std::string key = some_key();
      std::vector<Group*> expected, found;
      for (const auto& [interest, group] : joined) {
        const bool covers = interest.range_end.empty() ? key == interest.key : key >= interest.key && (interest.to_the_end() || key < interest.range_end);
        if (covers) expected.push_back(group);
      }
      std::sort(expected.begin(), expected.end());
      expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
      set.match(key, found);
      std::sort(found.begin(), found.end());
      ASSERT_EQ(found, expected) << key;
    }
    for (auto& [interest, group] : joined) set.leave(*group);
    EXPECT_EQ(set.groups(), 0u);
  }
}

TEST(WatcherSet, RangesInOrderDoNotMakeTheTreeDeep) {
  // Recursion by depth: a list of 300,000 would overflow the stack.
  WatcherSet set;
  std::vector<Group*> groups;
  for (int i = 0; i < 300'000; ++i) {
    const std::string key = std::to_string(1'000'000 + i);
    groups.push_back(&set.join({key, key + "~"}));
  }
  EXPECT_THAT(names(set, "1234567x"), ElementsAre("1234567,1234567~"));
  for (Group* group : groups) set.leave(*group);
  EXPECT_THAT(names(set, "1234567x"), IsEmpty());
}

}  // namespace
}  // namespace rallypoint::watch
