// Watchers that are behind: history, compaction, flow control, a replaced state, and who is served when.
#include <map>

#include "tests/watch/support.h"

namespace rallypoint::watch {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(WatchCatchUp, APastStartIsToldFromHistoryWithTheCurrentRevision) {
  Store store;
  store.put("a", "1");
  store.txn({"a=2", "b=1"});
  store.erase("a");
  store.put("c", "1");
  store.watch(1, {.key = "a", .range_end = "c", .start = 3, .prev_kv = true});
  EXPECT_THAT(store.told(), ElementsAre("1/0 created @5", "1/0 @5 a=2<1 b=1! a-<2"));
  EXPECT_EQ(store.hub.slow_watchers(), 0u);
  store.put("a", "3");
  EXPECT_THAT(store.told(), ElementsAre("1/0 @6 a=3!"));
}

TEST(WatchCatchUp, BeforeAFutureStartThereIsSilence) {
  // etcd#20221: old events or a progress note came.
  Store store;
  store.put("a", "1");
  store.watch(1, {.key = "a", .start = 5, .progress = true});
  EXPECT_THAT(store.told(), ElementsAre("1/0 created @2"));
  store.put("a", "2");
  store.ask_progress(1);
  store.pass(10'000);
  store.tick();
  store.mark_compacted(2);
  store.put("a", "3");
  EXPECT_THAT(store.told(), IsEmpty());
  store.put("a", "4");
  EXPECT_THAT(store.told(), ElementsAre("1/0 @5 a=4", "1/-1 @5"));
  store.put("a", "5");
  EXPECT_THAT(store.told(), ElementsAre("1/0 @6 a=5"));
}

TEST(WatchCatchUp, AStartAtTheNextRevisionGetsNoNoteBeforeIt) {
  Store store;
  store.watch(1, {.key = "a", .start = 2, .progress = true});
  store.told();
  store.pass(1000);
  store.tick();
  store.ask_progress(1);
  EXPECT_THAT(store.told(), IsEmpty());
  store.put("x", "1");
  EXPECT_THAT(store.told(), ElementsAre("1/-1 @2"));
}

TEST(WatchCatchUp, AFutureStartInsideABatchLeavesOutWhatIsBefore) {
  Store store;
  store.watch(1, {.key = "a", .start = 4});
  store.watch(1, {.key = "a", .start = 2});
  store.watch(1, {.key = "a", .start = 6});
  store.told();
  store.held = true;
  for (const char* value : {"2", "3", "4", "5"}) store.put("a", value);
  store.publish();
  EXPECT_THAT(store.told(), ElementsAre("1/1 @5 a=2! a=3 a=4 a=5", "1/0 @5 a=4 a=5"));
  store.held = false;
  store.put("a", "6");
  EXPECT_THAT(store.told(), UnorderedElementsAre("1/0 @6 a=6", "1/1 @6 a=6", "1/2 @6 a=6"));
}

TEST(WatchCatchUp, AStartBelowTheCompactionIsCanceledAndAtItServed) {
  Store store;
  for (const char* value : {"2", "3", "4", "5"}) store.put("a", value);
  store.compact(4);
  store.watch(1, {.key = "a", .start = 3});
  store.watch(1, {.key = "a", .start = 4});
  store.watch(1, {.key = "a", .start = 1});
  EXPECT_THAT(store.told(), ElementsAre("1/0 created @5", "1/1 created @5", "1/2 created @5", "1/0 canceled @0 compacted 4", "1/2 canceled @0 compacted 4", "1/1 @5 a=4 a=5"));
  EXPECT_EQ(store.hub.watchers(), 1u);
}

TEST(WatchCatchUp, TheTombstoneAtTheCompactedRevisionIsDelivered) {
  // etcd#18089: the row of a delete at exactly the compacted revision was gone.
  Store store;
  store.put("a", "1");
  store.put("b", "1");
  store.erase("a", "c");
  store.compact(4);
  store.watch(1, {.key = "a", .range_end = "z", .start = 4});
  EXPECT_THAT(store.told(), ElementsAre("1/0 created @4", "1/0 @4 a- b-"));
}

TEST(WatchCatchUp, OpeningAWatchAndCompactingDoNotRace) {
  // etcd#19179: registered before, served after, with the rows gone.
  Store store;
  store.put("a", "1");
  store.erase("a");
  store.put("b", "1");
  store.watch(1, {.key = "a", .range_end = "z", .start = 3});
  store.watch(2, {.key = "a", .range_end = "z", .start = 2});
  store.compact(3);
  EXPECT_THAT(store.told(), ElementsAre("1/0 created @4", "1/0 @4 a- b=1!", "2/0 created @4", "2/0 canceled @0 compacted 3"));
}

TEST(WatchCatchUp, ThePairBeforeIsLeftOutWhenItIsCompactedAway) {
  Store store;
  store.put("a", "1");
  store.put("a", "2");
  store.put("b", "1");
  store.put("a", "3");
  store.compact(3);
  store.watch(1, {.key = "a", .start = 3, .prev_kv = true});
  EXPECT_THAT(store.told(), ElementsAre("1/0 created @5", "1/0 @5 a=2 a=3<2"));
}

TEST(WatchCatchUp, AFullStreamIsHeldBackAndServedLaterWithoutLossOrDoubles) {
  Store store;
  store.watch(1, {.key = "a"});
  store.watch(2, {.key = "a"});
  store.told();
  store.put("a", "1");
  store.hub.set_flow(1, false);
  store.put("a", "2");
  store.put("a", "3");
  EXPECT_EQ(store.hub.slow_watchers(), 1u);
  EXPECT_THAT(store.told(), UnorderedElementsAre("2/0 @2 a=1!", "2/0 @3 a=2", "2/0 @4 a=3", "1/0 @2 a=1!"));
  store.hub.set_flow(1, true);
  EXPECT_THAT(store.told(), ElementsAre("1/0 @4 a=2 a=3"));
  store.put("a", "4");
  EXPECT_THAT(store.told(), ElementsAre("2/0 @5 a=4", "1/0 @5 a=4"));
}

TEST(WatchCatchUp, AHeldStreamWithoutEventsMissesNothing) {
  Store store;
  store.watch(1, {.key = "a"});
  store.told();
  store.hub.set_flow(1, false);
  store.put("x", "1");
  store.hub.set_flow(1, true);
  store.hub.set_flow(1, true);
  EXPECT_EQ(store.hub.slow_watchers(), 0u);
  store.put("a", "1");
  EXPECT_THAT(store.told(), ElementsAre("1/0 @3 a=1!"));
}

TEST(WatchCatchUp, WatchersMadeOnAHeldStreamAreServedWhenItDrains) {
  Store store;
  store.put("a", "1");
  store.watch(1, {.key = "b"});
  store.hub.set_flow(1, false);
  store.watch(1, {.key = "a", .start = 2});
  store.watch(1, {.key = "a"});
  store.watch(1, {.key = "a", .start = 4});
  EXPECT_THAT(store.told(), ElementsAre("1/0 created @2", "1/1 created @2", "1/2 created @2", "1/3 created @2"));
  store.put("a", "2");
  store.put("a", "3");
  EXPECT_THAT(store.told(), IsEmpty());
  store.hub.set_flow(1, true);
  EXPECT_THAT(store.told(), UnorderedElementsAre("1/1 @4 a=1! a=2 a=3", "1/2 @4 a=2 a=3", "1/3 @4 a=3"));
}

TEST(WatchCatchUp, ALaggardThatACompactionPassedIsCanceledAndTheOthersAreNot) {
  // etcd#17529: it was left behind, and events were lost.
  Store store;
  store.watch(1, {.key = "a", .prev_kv = true});
  store.watch(1, {.key = "b", .prev_kv = true});
  store.told();
  store.hub.set_flow(1, false);
  for (const char* value : {"2", "3", "4"}) store.put("a", value);
  store.compact(4);
  store.put("b", "5");
  EXPECT_THAT(store.told(), IsEmpty());
  store.hub.set_flow(1, true);
  EXPECT_THAT(store.told(), ElementsAre("1/0 canceled @0 compacted 4", "1/1 @5 b=5!"));
  EXPECT_EQ(store.hub.watchers(), 1u);
}

TEST(WatchCatchUp, SlicesAreBoundedAndRevisionsWhole) {
  Store store({.catch_up_bytes = 300});
  for (int i = 0; i < 20; ++i) store.txn({"a=" + std::string(50, 'x'), "b=" + std::string(50, 'y'), "x=1"});
  store.watch(1, {.key = "a", .range_end = "c", .start = 2});
  int64_t expected = 2;
  int turns = 0;
  for (bool more = true; more; ++turns) {
    for (const auto& [stream, response] : store.turn(&more)) {
      if (response.created()) continue;
      EXPECT_LE(response.events_size(), 6);
      for (int i = 0; i < response.events_size(); i += 2, ++expected) {
        EXPECT_EQ(response.events(i).kv().mod_revision(), expected);
        EXPECT_EQ(response.events(i + 1).kv().mod_revision(), expected);
      }
      EXPECT_EQ(response.header().revision(), expected - 1) << "a response vouches for what it delivers, not for more";
    }
  }
  EXPECT_EQ(expected, 22);
  EXPECT_GT(turns, 5);
}

TEST(WatchCatchUp, ThoseWhoStandInTheSameSliceShareIt) {
  Store store;
  for (int i = 2; i <= 5; ++i) store.put("a", std::to_string(i));
  for (StreamId stream = 1; stream <= 3; ++stream) store.watch(stream, {.key = "a", .start = 3});
  store.watch(4, {.key = "a", .start = 5});
  EXPECT_TRUE(*store.hub.catch_up(*store.keyspace, store.header, store.now) == false);
  std::map<const char*, int> places;
  for (const StreamOutput& output : store.hub.take_output()) {
    ASSERT_EQ(output.parts.size(), 2u);
    ++places[output.parts[1].response.data()];
  }
  EXPECT_EQ(places.size(), 2u);
}

TEST(WatchCatchUp, SomebodyFarBehindDoesNotKeepOthersWaiting) {
  Store store({.catch_up_bytes = 1000});
  for (int i = 0; i < 1000; ++i) store.put("a", std::string(100, 'x'));
  store.watch(1, {.key = "a", .start = 2});
  store.turn();
  store.watch(2, {.key = "a", .start = 1000});
  int turns = 0;
  for (bool served = false; !served; ++turns)
    for (const auto& [stream, response] : store.turn()) served |= stream == 2 && response.events_size() == 2;
  EXPECT_LE(turns, 3);
  EXPECT_EQ(store.hub.slow_watchers(), 1u);
  store.watch(3, {.key = "b"});  // and those who are up to date do not notice
  store.turn();
  store.put("b", "1");
  bool told = false;
  for (const auto& [stream, response] : store.output()) told |= stream == 3 && response.events_size() == 1;
  EXPECT_TRUE(told);
}

TEST(WatchCatchUp, AStreamGetsBoundedBytesBetweenTwoTakings) {
  // 200 watchers of a large value on one stream: what can't be sent yet is not kept, but read again.
  Store store({.stream_bytes_max = 10'000});
  for (int i = 0; i < 200; ++i) store.watch(1, {.key = "a"});
  store.watch(2, {.key = "a"});
  store.told();
  store.put("a", std::string(1000, 'x'));
  std::map<int64_t, int> told;
  int turns = 0;
  for (bool more = true; more; ++turns) {
    size_t bytes = 0;
    for (const auto& [stream, response] : store.turn(&more)) {
      if (stream == 2) {
        EXPECT_EQ(turns, 0);
        continue;
      }
      bytes += response.ByteSizeLong();
      told[response.watch_id()] += response.events_size();
    }
    EXPECT_LE(bytes, 12'000u);
  }
  EXPECT_EQ(told.size(), 200u);
  for (const auto& [id, events] : told) EXPECT_EQ(events, 1) << id;
  EXPECT_GE(turns, 20);
}

TEST(WatchCatchUp, AfterASnapshotEverybodyGoesOnFromWhatItWasToldLast) {
  // etcd#15271: the watch went back in time, or missed what the snapshot brought.
  Store store;
  store.put("a", "1");
  store.watch(1, {.key = "a"});
  store.watch(2, {.key = "a", .start = 4});
  store.watch(3, {.key = "a", .start = 6});
  store.hub.set_flow(4, false);
  store.watch(4, {.key = "a"});
  store.told();
  store.held = true;  // what this member has not seen comes with the snapshot
  store.put("a", "2");
  store.put("a", "3");
  store.put("a", "4");
  store.write();
  store.keyspace->take_events();
  store.hub.state_replaced(*store.keyspace, store.header, store.now);
  EXPECT_THAT(store.told(), UnorderedElementsAre("1/0 @5 a=2 a=3 a=4", "2/0 @5 a=3 a=4", "4/0 @5 a=2 a=3 a=4"));
  store.held = false;
  store.put("a", "5");
  EXPECT_THAT(store.told(), UnorderedElementsAre("1/0 @6 a=5", "2/0 @6 a=5", "3/0 @6 a=5", "4/0 @6 a=5"));
}

TEST(WatchCatchUp, ASnapshotThatIsCompactedBeyondThemCancels) {
  Store store;
  store.watch(1, {.key = "a", .progress = true});
  store.told();
  store.held = true;
  for (int i = 0; i < 5; ++i) store.put("a", "1");
  store.write();
  store.keyspace->take_events();
  etcdserverpb::CompactionRequest request;
  request.set_revision(5);
  ASSERT_TRUE(store.keyspace->compact(request, nullptr).is_ok());
  store.write();
  store.hub.state_replaced(*store.keyspace, store.header, store.now);
  EXPECT_THAT(store.told(), ElementsAre("1/0 canceled @0 compacted 5"));
}

TEST(WatchCatchUp, ASnapshotThatBringsNothingNewChangesNothing) {
  Store store;
  store.watch(1, {.key = "a", .progress = true});
  store.told();
  store.hub.state_replaced(*store.keyspace, store.header, store.now);
  store.ask_progress(1);
  EXPECT_THAT(store.told(), ElementsAre("1/-1 @1"));
}

TEST(WatchCatchUp, AnEngineErrorIsReturnedAndNothingIsLost) {
  class Failing final : public storage::EngineView {
   public:
    Result<std::optional<std::string>> get(std::string_view) const override { return Status::data_loss("bad block"); }
    Status scan(std::string_view, std::string_view, const Visitor&) const override { return Status::data_loss("bad block"); }
  };
  class Engine final : public storage::Engine {
   public:
    Result<std::optional<std::string>> get(std::string_view key) const override { return broken ? failing.get(key) : inner.get(key); }
    Status scan(std::string_view from, std::string_view to, const Visitor& visit) const override {
      return broken ? failing.scan(from, to, visit) : inner.scan(from, to, visit);
    }
    Status write(const storage::WriteBatch& batch) override { return inner.write(batch); }
    std::unique_ptr<storage::EngineView> snapshot() const override { return inner.snapshot(); }
    Status start_flush() override { return Status::ok(); }
    Status start_compaction() override { return Status::ok(); }
    Status flush() override { return Status::ok(); }
    Result<std::optional<std::string>> get_persisted(std::string_view key) const override { return inner.get_persisted(key); }
    storage::MemoryEngine inner;
    Failing failing;
    bool broken = false;
  };
  auto engine = std::make_shared<Engine>();
  NoLeases leases;
  auto opened = mvcc::Keyspace::open(engine, {.cache_bytes_max = 0}, leases);
  const std::unique_ptr<mvcc::Keyspace> keyspace = std::move(*opened);
  WatchHub hub({});
  const auto put = [&](const char* value) {
    etcdserverpb::PutRequest request;
    request.set_key("a");
    request.set_value(value);
    ASSERT_TRUE(keyspace->put(request, nullptr).is_ok());
    storage::WriteBatch batch;
    keyspace->collect_changes(batch);
    ASSERT_TRUE(engine->write(batch).is_ok());
    keyspace->changes_written();
    hub.publish(keyspace->take_events(), *keyspace, {}, {});
  };
  put("1");
  put("2");
  etcdserverpb::WatchRequest request;
  request.mutable_create_request()->set_key("a");
  request.mutable_create_request()->set_prev_kv(true);
  hub.handle(1, request, *keyspace, {}, {});
  EXPECT_EQ(hub.take_output().size(), 1u);
  engine->broken = true;
  put("3");  // the pair before it can't be read: better late than wrong
  EXPECT_EQ(hub.take_output().size(), 0u);
  EXPECT_EQ(hub.catch_up(*keyspace, {}, {}).status().code(), Code::kDataLoss);
  engine->broken = false;
  EXPECT_TRUE(hub.catch_up(*keyspace, {}, {}).is_ok());
  const auto output = hub.take_output();
  ASSERT_EQ(output.size(), 1u);
  EXPECT_EQ(show(1, parse(output[0].parts.at(0))), "1/0 @4 a=3<2");
}

}  // namespace
}  // namespace rallypoint::watch
