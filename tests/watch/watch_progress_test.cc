// Progress notes: on request, at intervals, and before a compaction.
#include "tests/watch/support.h"

namespace rallypoint::watch {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(WatchProgress, ARequestIsAnsweredOnceForTheWholeStream) {
  Store store;
  store.watch(1, {.key = "a"});
  store.watch(1, {.key = "b"});
  store.watch(2, {.key = "b"});
  store.told();
  store.put("x", "1");
  store.ask_progress(1);
  EXPECT_THAT(store.told(), ElementsAre("1/-1 @2"));
  EXPECT_THAT(store.told(), IsEmpty());
}

TEST(WatchProgress, AStreamWithoutWatchersIsAnsweredToo) {
  Store store;
  store.ask_progress(1);
  EXPECT_THAT(store.told(), ElementsAre("1/-1 @1"));
}

TEST(WatchProgress, TheAnswerNeverOvertakesAnEventItVouchesFor) {
  // etcd#15220.
  Store store;
  store.watch(1, {.key = "a"});
  store.put("a", "1");
  store.ask_progress(1);
  store.put("a", "2");
  EXPECT_THAT(store.told(), ElementsAre("1/0 created @1", "1/0 @2 a=1!", "1/-1 @2", "1/0 @3 a=2"));
}

TEST(WatchProgress, TheAnswerWaitsForThoseWhoAreBehind) {
  Store store({.catch_up_bytes = 200});
  for (int i = 0; i < 10; ++i) store.put("a", std::string(100, 'x'));
  store.watch(1, {.key = "b"});
  store.watch(1, {.key = "a", .start = 2});
  store.ask_progress(1);
  store.ask_progress(1);
  const auto lines = store.told();
  ASSERT_GT(lines.size(), 5u);
  EXPECT_EQ(lines.back(), "1/-1 @11");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "1/-1 @11"), 1);
}

TEST(WatchProgress, TheAnswerWaitsForAStreamThatTakesNothing) {
  Store store;
  store.watch(1, {.key = "a"});
  store.told();
  store.hub.set_flow(1, false);
  store.ask_progress(1);
  store.put("a", "1");
  EXPECT_THAT(store.told(), IsEmpty());
  store.hub.set_flow(1, true);
  EXPECT_THAT(store.told(), ElementsAre("1/0 @2 a=1!", "1/-1 @2"));
}

TEST(WatchProgress, CancelingTheLaggardLetsTheAnswerGo) {
  Store store;
  store.watch(1, {.key = "a", .start = 100});
  store.ask_progress(1);
  EXPECT_THAT(store.told(), ElementsAre("1/0 created @1"));
  store.cancel(1, 0);
  EXPECT_THAT(store.told(), ElementsAre("1/0 canceled @1", "1/-1 @1"));
}

TEST(WatchProgress, NotesComeWhenNothingElseWasSentForAnInterval) {
  Store store({.progress_every = Duration::seconds(100)});
  store.watch(1, {.key = "a", .progress = true});
  store.watch(1, {.key = "a"});
  store.told();
  store.pass(60);
  store.tick();
  store.put("a", "1");
  EXPECT_THAT(store.told(), UnorderedElementsAre("1/0 @2 a=1!", "1/1 @2 a=1!"));
  store.pass(60);
  store.tick();
  EXPECT_THAT(store.told(), IsEmpty());
  store.pass(40);
  store.tick();
  EXPECT_THAT(store.told(), ElementsAre("1/0 @2"));
  store.pass(99);
  store.tick();
  EXPECT_THAT(store.told(), IsEmpty());
  store.pass(10);  // looked at ten times in an interval
  store.tick();
  EXPECT_THAT(store.told(), ElementsAre("1/0 @2"));
}

TEST(WatchProgress, AWatcherThatNeverHadAnEventGetsNotes) {
  // etcd: PR 17566. Also one whose events are all filtered.
  Store store({.progress_every = Duration::seconds(100)});
  store.watch(1, {.key = "a", .progress = true, .filters = {0, 1}});
  store.told();
  for (int round = 0; round < 3; ++round) {
    store.pass(60);
    store.put("a", "1");
    store.tick();
    EXPECT_THAT(store.told(), IsEmpty());
    store.pass(60);
    store.tick();
    EXPECT_THAT(store.told(), ElementsAre("1/0 @" + std::to_string(round + 2)));
  }
}

TEST(WatchProgress, OnlyThoseWhoAreUpToDateGetNotes) {
  Store store({.progress_every = Duration::seconds(100)});
  store.watch(1, {.key = "a", .progress = true});
  store.watch(2, {.key = "a", .progress = true});
  store.told();
  store.hub.set_flow(2, false);
  store.put("a", "1");
  store.told();
  store.pass(200);
  store.watch(3, {.key = "a", .start = 2, .progress = true});
  store.pass(200);
  store.tick();
  std::vector<std::string> lines;
  for (const auto& [stream, response] : store.output()) lines.push_back(show(stream, response));
  EXPECT_THAT(lines, UnorderedElementsAre("3/0 created @2", "1/0 @2"));
}

TEST(WatchProgress, BeforeACompactionEverybodyLearnsAPlaceToResumeFrom) {
  // etcd#20262.
  Store store;
  store.watch(1, {.key = "a", .progress = true});
  store.watch(1, {.key = "a"});
  store.watch(2, {.key = "b", .progress = true});
  store.watch(3, {.key = "a", .start = 9, .progress = true});
  store.told();
  for (int i = 0; i < 3; ++i) store.put("x", "1");
  store.compact(4);
  EXPECT_THAT(store.told(), UnorderedElementsAre("1/0 @4", "2/0 @4"));
}

}  // namespace
}  // namespace rallypoint::watch
