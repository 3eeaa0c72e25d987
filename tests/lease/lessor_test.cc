// The replicated part of the lessor, and reads (contracts/etcd.md B.7).
#include "storage/lease/lessor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>

#include "tests/lease/support.h"

namespace rallypoint::lease {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Lessor, AShortTimeIsRaisedToTheMinimum) {
  Lessor lessor({});
  EXPECT_EQ(*lessor.grant(1, 1), 2);
  EXPECT_EQ(*lessor.grant(2, 0), 2);
  EXPECT_EQ(*lessor.grant(3, -5), 2);
  EXPECT_EQ(*lessor.grant(4, INT64_MIN), 2);
  EXPECT_EQ(*lessor.grant(5, 3), 3);
  EXPECT_EQ(lessor.find(4)->granted_s, 2);
}

TEST(Lessor, TooLongATimeIsRefused) {
  Lessor lessor({});
  EXPECT_EQ(*lessor.grant(1, 9'000'000'000), 9'000'000'000);
  const auto refused = lessor.grant(2, 9'000'000'001);
  EXPECT_EQ(refused.status().code(), Code::kOutOfRange);
  EXPECT_EQ(refused.status().message(), "etcdserver: too large lease TTL");
  EXPECT_FALSE(lessor.exists(2));
}

TEST(Lessor, AnIdIsGivenOnce) {
  Lessor lessor({});
  ASSERT_TRUE(lessor.grant(1, 10).is_ok());
  const auto refused = lessor.grant(1, 20);
  EXPECT_EQ(refused.status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(refused.status().message(), "etcdserver: lease already exists");
  EXPECT_EQ(lessor.find(1)->granted_s, 10);
  ASSERT_TRUE(lessor.revoke(1).is_ok());
  EXPECT_EQ(*lessor.grant(1, 20), 20);
}

TEST(Lessor, RevokeReturnsTheKeysInOrderAndForgetsTheLease) {
  Lessor lessor({});
  ASSERT_TRUE(lessor.grant(7, 10).is_ok());
  for (const char* key : {"b", "a", "c", "aa"}) lessor.attach(7, key);
  EXPECT_THAT(lessor.keys(7), ElementsAre("a", "aa", "b", "c"));
  EXPECT_THAT(*lessor.revoke(7), ElementsAre("a", "aa", "b", "c"));
  EXPECT_FALSE(lessor.exists(7));
  EXPECT_EQ(lessor.find(7), std::nullopt);
  const auto again = lessor.revoke(7);
  EXPECT_EQ(again.status().code(), Code::kNotFound);
  EXPECT_EQ(again.status().message(), "etcdserver: requested lease not found");
}

TEST(Lessor, AKeyCanBeAttachedAndDetachedAnyNumberOfTimes) {
  Lessor lessor({});
  ASSERT_TRUE(lessor.grant(1, 10).is_ok());
  lessor.attach(1, "a");
  lessor.attach(1, "a");
  EXPECT_THAT(lessor.keys(1), ElementsAre("a"));
  lessor.detach(1, "b");
  lessor.detach(1, "a");
  lessor.detach(1, "a");
  EXPECT_THAT(lessor.keys(1), IsEmpty());
  lessor.attach(1, std::string_view("\0\xff", 2));
  EXPECT_THAT(lessor.keys(1), ElementsAre(std::string("\0\xff", 2)));
}

TEST(Lessor, KeysOfALeaseThatIsGoneAreNobodysConcern) {
  Lessor lessor({});
  ASSERT_TRUE(lessor.grant(1, 10).is_ok());
  lessor.attach(1, "a");
  ASSERT_TRUE(lessor.revoke(1).is_ok());
  lessor.detach(1, "a");  // the keyspace deletes the keys after the lease is gone
  lessor.attach(1, "b");
  EXPECT_THAT(lessor.keys(1), IsEmpty());
  ASSERT_TRUE(lessor.grant(1, 10).is_ok());
  EXPECT_THAT(lessor.keys(1), IsEmpty());
}

TEST(Lessor, AllLeasesAreListedById) {
  Lessor lessor({});
  for (int64_t id : {5, -3, 9, 1}) ASSERT_TRUE(lessor.grant(id, 10).is_ok());
  EXPECT_THAT(lessor.leases(), ElementsAre(-3, 1, 5, 9));
  EXPECT_EQ(lessor.size(), 4u);
}

TEST(Lessor, RowsOfNegativeIdsLieInTheOrderOfTheNumbers) {
  // etcd#14239: members disagreed about the order of negative ids.
  Lessor lessor({});
  auto engine = std::make_shared<storage::MemoryEngine>();
  const std::vector<int64_t> ids = {INT64_MIN, -256, -255, -1, 1, 255, 256, INT64_MAX};
  for (int64_t id : {INT64_MAX, int64_t{-1}, int64_t{256}, INT64_MIN, int64_t{-256}, int64_t{1}, int64_t{-255}, int64_t{255}})
    ASSERT_TRUE(lessor.grant(id, 10).is_ok());
  write(lessor, *engine);
  std::vector<std::string> keys;
  for (const auto& [key, value] : engine->rows())
    if (key.size() == 9) keys.push_back(key);
  ASSERT_EQ(keys.size(), ids.size());
  // One row at a time, to see which row is whose.
  for (size_t i = 0; i < ids.size(); ++i) {
    ASSERT_TRUE(lessor.revoke(ids[i]).is_ok());
    write(lessor, *engine);
    EXPECT_FALSE(engine->rows().contains(keys[i])) << ids[i];
    EXPECT_EQ(engine->rows().size(), ids.size() - i);  // and the row of the newest grant
  }
}

TEST(Lessor, EverythingReplicatedComesBackFromItsRows) {
  Lessor lessor({});
  storage::MemoryEngine engine;
  for (int64_t id : {INT64_MIN, int64_t{-7}, int64_t{1}, int64_t{2}, INT64_MAX}) ASSERT_TRUE(lessor.grant(id, 500).is_ok());
  write(lessor, engine);
  note(lessor, 2, 77);
  ASSERT_TRUE(lessor.revoke(1).is_ok());
  ASSERT_TRUE(lessor.grant(3, 9'000'000'000).is_ok());
  write(lessor, engine);
  Lessor other({});
  ASSERT_TRUE(other.grant(99, 5).is_ok());  // what was there before is replaced
  ASSERT_TRUE(other.load(engine).is_ok());
  EXPECT_THAT(other.leases(), ElementsAre(INT64_MIN, -7, 2, 3, INT64_MAX));
  EXPECT_EQ(other.find(2)->remaining_s, 77);
  EXPECT_EQ(other.find(3)->granted_s, 9'000'000'000);
  EXPECT_EQ(other.digest(), lessor.digest());
  storage::WriteBatch batch;
  other.collect_changes(batch);
  EXPECT_TRUE(batch.empty());
}

TEST(Lessor, ChangesOfABatchAreWrittenOnce) {
  Lessor lessor({});
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(lessor.grant(1, 100).is_ok());
    note(lessor, 1, 50 + i);
    if (i == 9) break;
    ASSERT_TRUE(lessor.revoke(1).is_ok());
  }
  storage::WriteBatch batch;
  lessor.collect_changes(batch);
  ASSERT_EQ(batch.operations().size(), 2u);  // and the number of the newest grant
  storage::MemoryEngine engine;
  ASSERT_TRUE(engine.write(batch).is_ok());
  Lessor other({});
  ASSERT_TRUE(other.load(engine).is_ok());
  EXPECT_EQ(other.find(1)->remaining_s, 59);
}

TEST(Lessor, DamagedRowsAreDataLoss) {
  Lessor lessor({});
  ASSERT_TRUE(lessor.grant(1, 100).is_ok());
  storage::MemoryEngine sound;
  write(lessor, sound);
  const auto [key, value] = *sound.rows().rbegin();
  ASSERT_EQ(key.size(), 9u);
  const auto load = [](std::string key, std::string value) {
    storage::MemoryEngine engine;
    storage::WriteBatch batch;
    batch.put(std::move(key), std::move(value));
    EXPECT_TRUE(engine.write(batch).is_ok());
    return Lessor({}).load(engine).code();
  };
  EXPECT_EQ(load(key, value), Code::kOk);
  EXPECT_EQ(load(key, value.substr(1)), Code::kDataLoss);
  EXPECT_EQ(load(key + "x", value), Code::kDataLoss);
  EXPECT_EQ(load(key.substr(0, 8), value), Code::kDataLoss);
  EXPECT_EQ(load(key, std::string(24, '\0')), Code::kDataLoss);
  EXPECT_EQ(load(key, std::string(8, '\0') + std::string(16, '\1')), Code::kDataLoss);
  EXPECT_EQ(load(key, "\x80" + std::string(23, '\0')), Code::kDataLoss);
}

TEST(Lessor, TheDigestIsOfTheReplicatedPartAlone) {
  Lessor leader({}), follower({});
  leader.promote(at(0), kGrace);
  const auto both = [&](auto&& change) {
    change(leader);
    change(follower);
    EXPECT_EQ(leader.digest(), follower.digest());
  };
  both([](Lessor& lessor) { ASSERT_TRUE(lessor.grant(1, 100).is_ok()); });
  both([](Lessor& lessor) { ASSERT_TRUE(lessor.grant(2, 100).is_ok()); });
  EXPECT_THAT(due(leader, at(0)), IsEmpty());
  leader.renew(1, at(5));
  EXPECT_EQ(due(leader, at(200)).size(), 2u);
  EXPECT_EQ(leader.digest(), follower.digest());
  const uint64_t before = leader.digest();
  both([](Lessor& lessor) { note(lessor, 1, 50); });
  EXPECT_NE(leader.digest(), before);
  both([](Lessor& lessor) { note(lessor, 1, 0); });
  EXPECT_EQ(leader.digest(), before);
  leader.demote();
  EXPECT_EQ(leader.digest(), before);
  both([](Lessor& lessor) { ASSERT_TRUE(lessor.revoke(1).is_ok()); });
  both([](Lessor& lessor) { ASSERT_TRUE(lessor.revoke(2).is_ok()); });
  EXPECT_EQ(leader.digest(), Lessor({}).digest());
}

TEST(Lessor, ALateEntryOfALeaseDoesNotMeetAnotherOfTheSameId) {
  // The leader sees lease 1 run out, or logs its remainder; before that reaches the log, the client revokes it and grants it
  // anew. A revoke that is handed out again meets the same.
  Lessor lessor({});
  ASSERT_TRUE(lessor.grant(1, 100).is_ok());
  const Lessor::Grant first = lessor.find(1)->grant;
  lessor.attach(1, "a");
  EXPECT_EQ(lessor.expire(1, first), std::vector<std::string>({"a"}));
  EXPECT_EQ(lessor.expire(1, first), std::nullopt);
  ASSERT_TRUE(lessor.grant(1, 100).is_ok());
  EXPECT_EQ(lessor.expire(1, first), std::nullopt);
  lessor.checkpoint(1, first, 5);
  EXPECT_TRUE(lessor.exists(1));
  EXPECT_EQ(lessor.find(1)->remaining_s, 0);
}

TEST(Lessor, NumbersOfGrantsAreNotUsedAgainAfterARestart) {
  Lessor lessor({});
  storage::MemoryEngine engine;
  for (int64_t id : {1, 2}) ASSERT_TRUE(lessor.grant(id, 100).is_ok());
  const Lessor::Grant second = lessor.find(2)->grant;
  ASSERT_TRUE(lessor.revoke(2).is_ok());
  write(lessor, engine);
  Lessor other({});
  ASSERT_TRUE(other.load(engine).is_ok());
  EXPECT_EQ(other.find(1)->grant, lessor.find(1)->grant);
  ASSERT_TRUE(other.grant(2, 100).is_ok());
  EXPECT_GT(other.find(2)->grant, second);
}

TEST(Lessor, ACheckpointOutOfRangeIsClamped) {
  Lessor lessor({});
  ASSERT_TRUE(lessor.grant(1, 100).is_ok());
  note(lessor, 1, 1000);
  EXPECT_EQ(lessor.find(1)->remaining_s, 100);
  note(lessor, 1, -1000);
  EXPECT_EQ(lessor.find(1)->remaining_s, 0);
  lessor.checkpoint(2, 1, 5);  // no such lease
  EXPECT_FALSE(lessor.exists(2));
}

}  // namespace
}  // namespace rallypoint::lease
