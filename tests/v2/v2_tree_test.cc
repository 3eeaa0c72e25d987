// The rules of the v2 keys API, one by one. Where a test says "as etcd", the expectation was read off a real etcd 3.4.
#include "storage/v2/v2_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/v2/support.h"

namespace rallypoint::v2 {
namespace {

using namespace testing;
using ::testing::ElementsAre;

class V2Tree : public ::testing::Test {
 protected:
  Event run(const WriteRequest& request) { return ok(tree.apply(request, now)); }
  std::string fail(const WriteRequest& request) {
    const uint64_t index = tree.index();
    const uint64_t digest = tree.digest();
    const auto foreseen = tree.would_fail(request);
    const Outcome outcome = tree.apply(request, now);
    EXPECT_EQ(tree.index(), index) << "a failed write changed the index";
    EXPECT_EQ(tree.digest(), digest) << "a failed write changed the state";
    EXPECT_TRUE(foreseen) << "would_fail() did not foresee it";
    if (const auto* error = std::get_if<Error>(&outcome); error && foreseen) {
      EXPECT_EQ(error->index, index);
      EXPECT_EQ(std::to_string(foreseen->code) + " " + foreseen->cause, failure(outcome));
    }
    return failure(outcome);
  }
  std::string get(std::string path, bool recursive = false) {
    return show(tree.read({std::move(path), recursive, false}, now));
  }
  std::vector<std::string> keys_in(std::string path) {
    std::vector<std::string> keys;
    for (const NodeView& child : ok(tree.read({std::move(path), false, true}, now)).node.nodes) keys.push_back(child.key);
    return keys;
  }

  Tree tree;
  Clock now = at(100);
};

TEST_F(V2Tree, IsBornWithTorchsStoreDirectoryAndNoHistory) {
  EXPECT_EQ(get("/torch/elastic/store"), "get /torch/elastic/store/ 3,3");
  EXPECT_EQ(get("/"), "get / 0,0 [/torch/ 3,3; ]");
  EXPECT_EQ(tree.index(), 3u);
  EXPECT_TRUE(tree.history().events().empty());
}

TEST_F(V2Tree, SetCreatesAndThenReplacesWithANewCreatedIndex) {
  Event created = run(put("/a", "1"));
  EXPECT_EQ(show(created), "set /a=1 4,4");
  EXPECT_TRUE(created.is_created());
  EXPECT_EQ(created.etcd_index, 4u);
  Event replaced = run(put("/a", "2"));
  EXPECT_EQ(show(replaced), "set /a=2 5,5 <- /a=1 4,4");
  EXPECT_FALSE(replaced.is_created());
}

TEST_F(V2Tree, SetMakesMissingParentsWithTheSameIndex) {
  run(put("/c/d/e", "1"));
  EXPECT_EQ(get("/c", true), "get /c/ 4,4 [/c/d/ 4,4 [/c/d/e=1 4,4; ]; ]");
}

TEST_F(V2Tree, ReadOfAMissingKeyNamesTheFirstMissingComponent) {
  run(put("/c/d/e", "1"));
  EXPECT_EQ(get("/c/x/y"), "100 /c/x @4");
  EXPECT_EQ(get("/x"), "100 /x @4");
}

TEST_F(V2Tree, NothingLiesBelowAFile) {
  run(put("/c/d", "1"));
  EXPECT_EQ(get("/c/d/e/f"), "104 /c/d @4");
  EXPECT_EQ(fail(put("/c/d/e")), "104 /c/d");
  EXPECT_EQ(fail(post("/c/d")), "104 /c/d");
  EXPECT_EQ(fail(post("/c/d/e")), "104 /c/d");
  EXPECT_EQ(fail(erase("/c/d/e")), "104 /c/d");
  EXPECT_EQ(fail(with_prev_exist(put("/c/d/e"), true)), "104 /c/d");
}

TEST_F(V2Tree, SetMakesADirectoryOfAFileButNeverTouchesADirectory) {
  run(put("/f", "1"));
  EXPECT_EQ(show(run(make_dir("/f"))), "set /f/ 5,5 <- /f=1 4,4");
  EXPECT_EQ(fail(make_dir("/f")), "102 /f");
  EXPECT_EQ(fail(put("/f", "1")), "102 /f");
}

TEST_F(V2Tree, CreateFailsOnAnythingThatExists) {
  EXPECT_EQ(show(run(with_prev_exist(put("/a", "1"), false))), "create /a=1 4,4");
  EXPECT_EQ(fail(with_prev_exist(put("/a", "2"), false)), "105 /a");
  run(make_dir("/d"));
  EXPECT_EQ(fail(with_prev_exist(make_dir("/d"), false)), "105 /d");
  // As etcd: prevExist=false makes it forget the other compares.
  EXPECT_EQ(show(run(with_prev_exist(with_prev_value(put("/b", "1"), "x"), false))), "create /b=1 6,6");
}

TEST_F(V2Tree, UpdateKeepsTheCreatedIndex) {
  run(put("/a", "1"));
  EXPECT_EQ(show(run(with_prev_exist(put("/a", "2"), true))), "update /a=2 5,4 <- /a=1 4,4");
  EXPECT_EQ(fail(with_prev_exist(put("/b/c", "2"), true)), "100 /b");
}

TEST_F(V2Tree, UpdateOfADirectoryShowsAnIndexThatTheDirectoryDoesNotKeep) {
  run(make_dir("/d"));
  EXPECT_EQ(show(run(with_prev_exist(put("/d", "", 100), true))),
            "update /d/ 5,4 ttl 100 until 1000000200000000000 <- /d/ 4,4");
  EXPECT_EQ(get("/d"), "get /d/ 4,4 ttl 100 until 1000000200000000000");
  EXPECT_EQ(fail(with_prev_exist(put("/d", "x"), true)), "102 /d");
  // Without a TTL the old one goes.
  run(with_prev_exist(put("/d"), true));
  EXPECT_EQ(get("/d"), "get /d/ 4,4");
}

TEST_F(V2Tree, CompareAndSwapTestsValueAndIndex) {
  run(put("/a", "1", 50));
  EXPECT_EQ(show(run(with_prev_value(put("/a", "2"), "1"))),
            "compareAndSwap /a=2 5,4 <- /a=1 4,4 ttl 50 until 1000000150000000000");
  EXPECT_EQ(show(run(with_prev_index(put("/a", "3"), 5))), "compareAndSwap /a=3 6,4 <- /a=2 5,4");
  EXPECT_EQ(fail(with_prev_value(put("/a", "4"), "9")), "101 [9 != 3]");
  EXPECT_EQ(fail(with_prev_index(put("/a", "4"), 9)), "101 [9 != 6]");
  EXPECT_EQ(fail(with_prev_index(with_prev_value(put("/a", "4"), "9"), 8)), "101 [9 != 3] [8 != 6]");
  EXPECT_EQ(fail(with_prev_index(with_prev_value(put("/a", "4"), "3"), 8)), "101 [8 != 6]");
  EXPECT_EQ(fail(with_prev_exist(with_prev_value(put("/a", "4"), "9"), true)), "101 [9 != 3]");
  EXPECT_EQ(fail(with_prev_value(put("/b", "4"), "9")), "100 /b");
  run(make_dir("/d"));
  EXPECT_EQ(fail(with_prev_value(put("/d", "4"), "9")), "102 /d");
}

TEST_F(V2Tree, CompareAndDeleteDeletesTheWinnersKey) {
  run(put("/a", "1"));
  EXPECT_EQ(fail(with_prev_value(erase("/a"), "2")), "101 [2 != 1]");
  EXPECT_EQ(show(run(with_prev_value(erase("/a"), "1"))), "compareAndDelete /a 5,4 <- /a=1 4,4");
  EXPECT_EQ(fail(with_prev_value(erase("/a"), "1")), "100 /a");
  run(make_dir("/d"));
  EXPECT_EQ(fail(with_prev_index(erase("/d", true), 6)), "102 /d");
}

TEST_F(V2Tree, DeleteWantsADirectoryToBeMeant) {
  run(put("/d/a", "1"));
  EXPECT_EQ(fail(erase("/d")), "102 /d");
  EXPECT_EQ(fail(erase("/d", true)), "108 /d");
  EXPECT_EQ(show(run(erase("/d/a", true, true))), "delete /d/a 5,4 <- /d/a=1 4,4");
  EXPECT_EQ(show(run(erase("/d", true))), "delete /d/ 6,4 <- /d/ 4,4");
  run(put("/d/e/f", "1"));
  EXPECT_EQ(show(run(erase("/d", false, true))), "delete /d/ 8,7 <- /d/ 7,7");
  EXPECT_EQ(get("/d/e/f"), "100 /d @8");
}

TEST_F(V2Tree, TheRootIsReadOnlyButTakesInOrderKeys) {
  for (const WriteRequest& request :
       {put("/", "1"), make_dir("/"), with_prev_exist(put("/"), true), with_prev_exist(put("/"), false),
        with_prev_value(put("/"), "1"), erase("/"), erase("/", true, true)}) {
    EXPECT_EQ(fail(request), "107 /");
  }
  EXPECT_EQ(fail(with_prev_value(erase("/"), "1")), "102 ");  // As etcd.
  EXPECT_EQ(show(run(post("/", "1"))), "create /00000000000000000004=1 4,4");
}

TEST_F(V2Tree, InOrderKeysAreNamedAfterTheIndexAndSortLikeIt) {
  EXPECT_EQ(show(run(post("/q/r", "a"))), "create /q/r/00000000000000000004=a 4,4");
  EXPECT_EQ(show(run(post("/q/r", "b"))), "create /q/r/00000000000000000005=b 5,5");
  WriteRequest directory = post("/q/r");
  directory.dir = true;
  EXPECT_EQ(show(run(directory)), "create /q/r/00000000000000000006/ 6,6");
  run(put("/q/r/00000000000000000008", "squatter"));
  EXPECT_EQ(fail(post("/q/r", "c")), "105 /q/r/00000000000000000008");
}

TEST_F(V2Tree, HiddenNamesAreReadableButNotListed) {
  run(put("/d/_h/x", "1"));
  run(put("/d/a", "1"));
  EXPECT_THAT(keys_in("/d"), ElementsAre("/d/a"));
  EXPECT_EQ(get("/d", true), "get /d/ 4,4 [/d/a=1 5,5; ]");
  EXPECT_THAT(keys_in("/d/_h"), ElementsAre("/d/_h/x"));
}

TEST_F(V2Tree, ListingsAreSorted) {
  for (const char* key : {"/d/b", "/d/a0", "/d/a", "/d/c", "/d/B"}) run(put(key));
  EXPECT_THAT(keys_in("/d"), ElementsAre("/d/B", "/d/a", "/d/a0", "/d/b", "/d/c"));
}

TEST_F(V2Tree, TtlRunsOnClusterTimeAndIsShownRoundedUp) {
  run(put("/a", "1", 5));
  now = at(102.5);
  EXPECT_EQ(get("/a"), "get /a=1 4,4 ttl 3 until 1000000105000000000");
  EXPECT_EQ(tree.next_deadline(), Instant{105'000'000});
  EXPECT_TRUE(tree.expire(at(104.999999)).empty());
  std::vector<EventPtr> events = tree.expire(at(105));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(show(*events[0]), "expire /a 5,4 <- /a=1 4,4 until 1000000105000000000");
  EXPECT_EQ(events[0]->etcd_index, 5u);
  EXPECT_EQ(get("/a"), "100 /a @5");
  EXPECT_EQ(tree.next_deadline(), std::nullopt);
}

TEST_F(V2Tree, ATtlOfZeroIsDueAtOnceAndShowsNoSecondsLeft) {
  EXPECT_EQ(show(run(put("/a", "1", 0))), "set /a=1 4,4 until 1000000100000000000");
  EXPECT_EQ(tree.expire(now).size(), 1u);
}

TEST_F(V2Tree, AnAbsurdTtlIsCutInsteadOfOverflowing) {
  run(put("/a", "1", INT64_MAX));
  EXPECT_TRUE(tree.expire(at(1e9)).empty());
  run(put("/b", "1", -5));
  EXPECT_EQ(tree.expire(now).size(), 1u);
}

TEST_F(V2Tree, ExpiryGoesInDeadlineOrderAndEqualDeadlinesByPath) {
  run(put("/z", "", 5));
  run(put("/y", "", 6));
  run(put("/b", "", 5));
  run(put("/a", "", 7));
  std::vector<std::string> keys;
  for (const EventPtr& event : tree.expire(at(106))) keys.push_back(event->node.key);
  EXPECT_THAT(keys, ElementsAre("/b", "/z", "/y"));
}

TEST_F(V2Tree, ADirectoryExpiresWithAllBelowInOneEvent) {
  run(make_dir("/d", 5));
  run(put("/d/a", "1", 5));
  run(put("/d/b", "1", 3));
  run(put("/d/c/x", "1"));
  std::vector<std::string> events;
  for (const EventPtr& event : tree.expire(at(105))) events.push_back(show(*event));
  EXPECT_THAT(events, ElementsAre("expire /d/b 8,6 <- /d/b=1 6,6 until 1000000103000000000",
                                  "expire /d/ 9,4 <- /d/ 4,4 until 1000000105000000000"));
  EXPECT_EQ(tree.next_deadline(), std::nullopt);
}

TEST_F(V2Tree, AWriteWithoutTtlRemovesTheDeadline) {
  run(put("/a", "1", 5));
  run(put("/a", "2"));
  run(put("/b", "1", 5));
  run(with_prev_exist(put("/b", "2"), true));
  run(put("/c", "1", 5));
  run(with_prev_value(put("/c", "2"), "1"));
  run(put("/d", "1", 5));
  run(erase("/d"));
  run(put("/d", "2"));
  EXPECT_EQ(tree.next_deadline(), std::nullopt);
  EXPECT_TRUE(tree.expire(at(1000)).empty());
}

TEST_F(V2Tree, RefreshMovesTheDeadlineKeepsTheValueAndIsNoEvent) {
  run(put("/a", "1", 5));
  Event event = run(with_prev_exist(as_refresh(put("/a", "", 9)), true));
  EXPECT_TRUE(event.refresh);
  EXPECT_EQ(show(event),
            "update /a=1 5,4 ttl 9 until 1000000109000000000 <- /a=1 4,4 ttl 5 until 1000000105000000000");
  EXPECT_EQ(tree.history().events().size(), 1u);
  event = run(as_refresh(put("/a", "", 10)));  // As etcd: a set, with a new createdIndex.
  EXPECT_TRUE(event.refresh);
  EXPECT_EQ(show(event),
            "set /a=1 6,6 ttl 10 until 1000000110000000000 <- /a=1 5,4 ttl 9 until 1000000109000000000");
  event = run(as_refresh(with_prev_value(put("/a", "", 11), "1")));
  EXPECT_TRUE(event.refresh);
  EXPECT_EQ(event.node.value->view(), "1");
  EXPECT_EQ(tree.history().events().size(), 1u);

  EXPECT_EQ(fail(as_refresh(put("/b", "", 5))), "100 /b");
  EXPECT_EQ(fail(with_prev_exist(as_refresh(put("/b", "", 5)), true)), "100 /b");
  run(make_dir("/d"));
  EXPECT_EQ(fail(as_refresh(put("/d", "", 5))), "102 /d");
  EXPECT_TRUE(run(with_prev_exist(as_refresh(put("/d", "", 5)), true)).refresh);
  // A create is an event, whatever it says about itself.
  EXPECT_FALSE(run(with_prev_exist(as_refresh(put("/n", "", 5)), false)).refresh);
}

TEST_F(V2Tree, ValuesAreSharedWithTheAnswers) {
  WriteRequest request = put("/a", std::string(100, 'x'));
  run(request);
  Event read = ok(tree.read({"/a", false, false}, now));
  EXPECT_EQ(read.node.value->data(), request.value.data());
}

TEST_F(V2Tree, AbsurdlyDeepKeysAreRefused) {
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "/a";
  EXPECT_EQ(fail(put(deep)), "209 a key may have at most 1000 components");
  EXPECT_EQ(fail(post(deep)), "209 a key may have at most 1000 components");
  deep.resize(deep.size() - 2);
  run(put(deep));
  run(erase("/a", false, true));
}

TEST_F(V2Tree, StatsCountByKindOfRequest) {
  run(put("/a", "1"));
  fail(with_prev_exist(put("/a"), false));
  fail(with_prev_value(put("/a"), "2"));
  run(with_prev_value(erase("/a"), "1"));
  fail(erase("/a"));
  fail(with_prev_exist(put("/a"), true));
  get("/a");
  run(put("/a", "1", 0));
  tree.expire(now);
  const StoreStats& stats = tree.stats();
  EXPECT_EQ(stats.sets.success, 2u);
  EXPECT_EQ(stats.creates.fail, 1u);
  EXPECT_EQ(stats.compare_and_swaps.fail, 1u);
  EXPECT_EQ(stats.compare_and_deletes.success, 1u);
  EXPECT_EQ(stats.deletes.fail, 1u);
  EXPECT_EQ(stats.updates.fail, 1u);
  EXPECT_EQ(stats.gets.fail, 1u);
  EXPECT_EQ(stats.expired, 1u);
}

}  // namespace
}  // namespace rallypoint::v2
