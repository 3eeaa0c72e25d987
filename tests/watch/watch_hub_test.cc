// Creating, canceling, and what a watcher that is up to date is told (contracts/etcd.md B.6).
#include "storage/watch/watch_hub.h"

#include "tests/watch/support.h"

namespace rallypoint::watch {
namespace {

using namespace testing;
using etcdserverpb::WatchCreateRequest;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

const std::string kZero(1, '\0');

TEST(WatchHub, TheCreatedResponseComesFirstAndOnce) {
  Store store;
  store.put("a", "1");
  store.watch(1, {.key = "a", .start = 2});
  EXPECT_THAT(store.told(), ElementsAre("1/0 created @2", "1/0 @2 a=1!"));
  store.put("a", "2");
  EXPECT_THAT(store.told(), ElementsAre("1/0 @3 a=2"));
}

TEST(WatchHub, EveryResponseNamesClusterMemberAndTerm) {
  Store store;
  store.watch(1, {.key = "a"});
  store.put("a", "1");
  store.ask_progress(1);
  store.cancel(1, 0);
  const auto responses = store.turn();
  ASSERT_EQ(responses.size(), 4u);
  for (const auto& [stream, response] : responses) {
    EXPECT_EQ(response.header().cluster_id(), 77u);
    EXPECT_EQ(response.header().member_id(), 1u);
    EXPECT_EQ(response.header().raft_term(), 3u);
  }
}

TEST(WatchHub, IdsAreTheLowestThatWereNotUsedFromZero) {
  Store store;
  store.watch(1, {.key = "a"});
  store.watch(1, {.key = "a", .id = 2});
  store.watch(1, {.key = "a"});
  store.watch(1, {.key = "a"});
  store.watch(2, {.key = "a"});  // a stream of its own
  EXPECT_THAT(store.told(), ElementsAre("1/0 created @1", "1/2 created @1", "1/1 created @1", "1/3 created @1", "2/0 created @1"));
  store.cancel(1, 0);
  store.watch(1, {.key = "a"});
  EXPECT_THAT(store.told(), ElementsAre("1/0 canceled @1", "1/4 created @1"));
}

TEST(WatchHub, CustomIdsMayBeAnyNumber) {
  Store store;
  store.watch(1, {.key = "a", .id = INT64_MAX});
  store.watch(1, {.key = "a", .id = -5});
  store.put("a", "1");
  EXPECT_THAT(store.told(), UnorderedElementsAre("1/9223372036854775807 created @1", "1/-5 created @1", "1/-5 @2 a=1!", "1/9223372036854775807 @2 a=1!"));
}

TEST(WatchHub, ADuplicateIdIsRefusedAndTheFirstLives) {
  Store store;
  store.watch(1, {.key = "a", .id = 7});
  store.watch(1, {.key = "b", .id = 7});
  EXPECT_THAT(store.told(), ElementsAre("1/7 created @1", "1/-1 created canceled @1: mvcc: duplicate watch ID provided on the WatchStream"));
  store.put("a", "1");
  store.put("b", "1");
  EXPECT_THAT(store.told(), ElementsAre("1/7 @2 a=1!"));
  store.cancel(1, 7);
  store.watch(1, {.key = "b", .id = 7});
  EXPECT_THAT(store.told(), ElementsAre("1/7 canceled @3", "1/7 created @3"));
}

TEST(WatchHub, WatcherZeroIsOneLikeAnyOther) {
  // etcd: PR 14562, id 0 meant "none" somewhere and was closed by mistake.
  Store store;
  store.watch(1, {.key = "a"});
  store.watch(1, {.key = "b", .id = 9});
  store.watch(1, {.key = "z", .range_end = "y"});
  store.cancel(1, 9);
  store.told();
  store.put("a", "1");
  EXPECT_THAT(store.told(), ElementsAre("1/0 @2 a=1!"));
  store.cancel(1, 0);
  EXPECT_THAT(store.told(), ElementsAre("1/0 canceled @2"));
  EXPECT_EQ(store.hub.watchers(), 0u);
}

TEST(WatchHub, AnEmptyRangeIsRefused) {
  Store store;
  store.watch(1, {.key = "b", .range_end = "a"});
  store.watch(1, {.key = "b", .range_end = "b"});
  EXPECT_THAT(store.told(), ElementsAre("1/-1 created canceled @1: mvcc: watcher range is empty", "1/-1 created canceled @1: mvcc: watcher range is empty"));
  EXPECT_EQ(store.hub.watchers(), 0u);
}

TEST(WatchHub, AnEmptyKeyIsTheFirstKey) {
  Store store;
  store.watch(1, {.key = "", .range_end = kZero});  // everything
  store.watch(2, {.key = ""});                      // the key "\0"
  store.told();
  store.put("a", "1");
  store.put(kZero, "2");
  EXPECT_THAT(store.told(), ElementsAre("1/0 @2 a=1!", "1/0 @3 " + kZero + "=2!", "2/0 @3 " + kZero + "=2!"));
}

TEST(WatchHub, RangesTakeTheFirstAndNotTheLast) {
  Store store;
  store.watch(1, {.key = "b", .range_end = "d"});
  store.watch(2, {.key = "c", .range_end = kZero});
  store.watch(3, {.key = "c"});
  store.told();
  for (const char* key : {"a", "b", "c", "cc", "d"}) store.put(key, "");
  EXPECT_THAT(store.told(), ElementsAre("1/0 @3 b=!", "1/0 @4 c=!", "1/0 @5 cc=!", "3/0 @4 c=!", "2/0 @4 c=!", "2/0 @5 cc=!", "2/0 @6 d=!"));
}

TEST(WatchHub, ANegativeStartIsRefusedAsCompacted) {
  // etcd: PR 20707.
  Store store;
  store.put("a", "1");
  store.watch(1, {.key = "a", .start = -1});
  EXPECT_THAT(store.told(), ElementsAre("1/-1 created canceled @2 compacted 1: etcdserver: mvcc: required revision has been compacted"));
  store.put("a", "2");
  EXPECT_THAT(store.told(), IsEmpty());
}

TEST(WatchHub, UnknownIdsAreCanceledInSilenceAndEmptyMessagesIgnored) {
  Store store;
  store.watch(1, {.key = "a"});
  store.told();
  store.cancel(1, 5);
  store.cancel(2, 0);
  store.hub.handle(1, {}, *store.keyspace, store.header, store.now);
  store.hub.handle(3, {}, *store.keyspace, store.header, store.now);
  EXPECT_THAT(store.told(), IsEmpty());
  store.put("a", "1");
  EXPECT_THAT(store.told(), ElementsAre("1/0 @2 a=1!"));
}

TEST(WatchHub, AfterItsCancelAWatcherIsToldNothing) {
  Store store;
  store.watch(1, {.key = "a"});
  store.watch(1, {.key = "a"});
  store.told();
  store.put("a", "1");
  store.cancel(1, 0);
  store.put("a", "2");
  EXPECT_THAT(store.told(), ElementsAre("1/0 @2 a=1!", "1/1 @2 a=1!", "1/0 canceled @2", "1/1 @3 a=2"));
}

TEST(WatchHub, EventsOfARevisionComeTogetherInTheirOrder) {
  Store store;
  store.put("c", "0");
  store.watch(1, {.key = "a", .range_end = "z"});
  store.watch(2, {.key = "b"});
  store.told();
  store.txn({"b=1", "a=1", "c-", "d=1"});
  EXPECT_THAT(store.told(), ElementsAre("2/0 @3 b=1!", "1/0 @3 b=1! a=1! c- d=1!"));
}

TEST(WatchHub, RevisionsThatAreAppliedTogetherAreToldTogether) {
  Store store;
  store.watch(1, {.key = "a"});
  store.watch(2, {.key = "b"});
  store.told();
  store.held = true;
  store.put("a", "1");
  store.put("b", "1");
  store.put("a", "2");
  store.put("x", "1");
  store.publish();
  EXPECT_THAT(store.told(), ElementsAre("1/0 @4 a=1! a=2", "2/0 @3 b=1!"));
}

TEST(WatchHub, FiltersDropEventsAtTheServer) {
  Store store;
  store.watch(1, {.key = "a", .filters = {WatchCreateRequest::NOPUT}});
  store.watch(2, {.key = "a", .filters = {WatchCreateRequest::NODELETE}});
  store.watch(3, {.key = "a", .filters = {WatchCreateRequest::NOPUT, WatchCreateRequest::NODELETE}});
  store.watch(4, {.key = "a", .filters = {5}});  // unknown: ignored
  store.told();
  store.put("a", "1");
  store.erase("a");
  EXPECT_THAT(store.told(), UnorderedElementsAre("2/0 @2 a=1!", "4/0 @2 a=1!", "1/0 @3 a-", "4/0 @3 a-"));
}

TEST(WatchHub, ThePairBeforeIsGivenToThoseWhoAskAndOnlyIfThereWasOne) {
  Store store;
  store.put("a", "1");
  store.watch(1, {.key = "a", .range_end = "c", .prev_kv = true});
  store.watch(2, {.key = "a", .range_end = "c"});
  store.told();
  store.put("a", "2");
  store.put("b", "1");
  store.erase("a", "c");
  store.put("a", "3");
  const std::vector<std::string> lines = store.told();
  EXPECT_THAT(lines, UnorderedElementsAre("1/0 @3 a=2<1", "1/0 @4 b=1!", "1/0 @5 a-<2 b-<1", "1/0 @6 a=3!", "2/0 @3 a=2", "2/0 @4 b=1!", "2/0 @5 a- b-", "2/0 @6 a=3!"));
}

TEST(WatchHub, ThePairBeforeADeletionInsideATransactionIsTheRightOne) {
  Store store;
  store.put("a", "1");
  store.watch(1, {.key = "a", .prev_kv = true});
  store.told();
  store.held = true;
  store.put("a", "2");
  store.put("a", "3");
  store.erase("a");
  store.put("a", "4");
  store.publish();
  EXPECT_THAT(store.told(), ElementsAre("1/0 @6 a=2<1 a=3<2 a-<3 a=4!"));
}

TEST(WatchHub, LargeResponsesAreCutBetweenRevisions) {
  // A client that takes 4 MB in a message must be able to read what a burst of writes makes.
  Store store({.fragment_bytes = 100});
  store.watch(1, {.key = "a", .range_end = "z"});
  store.told();
  store.held = true;
  for (int i = 0; i < 3; ++i) store.put("a", std::string(40, 'x'));
  store.txn({"b=" + std::string(90, 'y'), "c=" + std::string(90, 'z')});
  store.put("d", "1");
  store.publish();
  const auto lines = store.told();
  EXPECT_THAT(lines, ElementsAre("1/0 @2 a=" + std::string(40, 'x') + "!", "1/0 @3 a=" + std::string(40, 'x'), "1/0 @4 a=" + std::string(40, 'x'),
                                 "1/0 @5 b=" + std::string(90, 'y') + "! c=" + std::string(90, 'z') + "!", "1/0 @6 d=1!"));
}

TEST(WatchHub, FragmentsAreCutBetweenEventsAndAllButTheLastSaySo) {
  Store store({.fragment_bytes = 150});
  store.watch(1, {.key = "a", .range_end = "z", .fragment = true});
  store.watch(2, {.key = "a", .range_end = "z"});
  store.told();
  const std::string v(90, 'v');
  store.txn({"b=" + v, "c=" + v, "d=" + v});
  store.put("e", "1");
  EXPECT_THAT(store.told(), UnorderedElementsAre("1/0 @2.. b=" + v + "!", "1/0 @2.. c=" + v + "!", "1/0 @2 d=" + v + "!", "1/0 @3 e=1!",
                                                            "2/0 @2 b=" + v + "! c=" + v + "! d=" + v + "!", "2/0 @3 e=1!"));
  store.held = true;
  store.put("a", "1");
  store.txn({"b=" + v, "c=" + v, "d=1"});
  store.put("a", "2");
  store.publish();
  EXPECT_THAT(store.told(), ::testing::IsSupersetOf<std::string>({"1/0 @4 a=1!", "1/0 @5.. b=" + v, "1/0 @5 c=" + v + " d=1", "1/0 @6 a=2"}));
}

TEST(WatchHub, NoFragmentIsLargerThanAllowedUnlessItIsOneEvent) {
  Store store({.fragment_bytes = 500});
  store.watch(1, {.key = "a", .range_end = "z", .fragment = true});
  store.told();
  std::vector<std::string> operations;
  for (int i = 0; i < 60; ++i) operations.push_back("k" + std::to_string(i) + "=" + std::string(static_cast<size_t>(i * 7), 'v'));
  operations.push_back("z=" + std::string(1000, 'v'));
  store.txn(operations);
  int events = 0, open_ends = 0, parts = 0;
  for (const auto& [stream, response] : store.turn()) {
    ++parts;
    events += response.events_size();
    open_ends += response.fragment() ? 1 : 0;
    EXPECT_TRUE(response.events_size() == 1 || response.ByteSizeLong() <= 500u + 30) << response.ByteSizeLong();
  }
  EXPECT_EQ(events, 60);  // "z" is outside of the range
  EXPECT_EQ(open_ends, parts - 1);
  EXPECT_GT(parts, 20);
}

TEST(WatchHub, WatchersOfTheSameShareTheBytes) {
  Store store;
  for (StreamId stream = 1; stream <= 3; ++stream)
    for (int i = 0; i < 4; ++i) store.watch(stream, {.key = "a"});
  store.told();
  store.put("a", "1");
  std::set<const char*> places;
  size_t parts = 0;
  for (const StreamOutput& output : store.hub.take_output()) {
    parts += output.parts.size();
    for (const Part& part : output.parts) places.insert(part.response.data());
  }
  EXPECT_EQ(parts, 12u);
  EXPECT_EQ(places.size(), 1u);
}

TEST(WatchHub, TooManyWatchersOnAStreamAreRefused) {
  Store store({.watchers_per_stream_max = 2});
  for (int i = 0; i < 3; ++i) store.watch(1, {.key = "a"});
  EXPECT_THAT(store.told(), ElementsAre("1/0 created @1", "1/1 created @1", "1/-1 created canceled @1: rallypoint: too many watchers on one stream; open another stream"));
  store.cancel(1, 0);
  store.watch(1, {.key = "a"});
  EXPECT_EQ(store.hub.watchers(), 2u);
}

TEST(WatchHub, AClosedStreamIsForgottenWithAllItHas) {
  Store store;
  store.watch(1, {.key = "a"});
  store.watch(1, {.key = "a", .start = 100});
  store.watch(2, {.key = "a"});
  store.put("a", "1");
  store.ask_progress(1);
  store.hub.close(1);
  store.hub.close(5);
  EXPECT_THAT(store.told(), ElementsAre("2/0 created @1", "2/0 @2 a=1!"));
  EXPECT_EQ(store.hub.watchers(), 1u);
  EXPECT_EQ(store.hub.streams(), 1u);
  store.put("a", "2");
  EXPECT_THAT(store.told(), ElementsAre("2/0 @3 a=2"));
}

}  // namespace
}  // namespace rallypoint::watch
