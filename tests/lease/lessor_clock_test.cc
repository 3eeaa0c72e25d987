// The leader's part of the lessor: when leases run out, and what survives a change of the leader.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lease/support.h"

namespace rallypoint::lease {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(LessorClock, ALeaseRunsOutWhenItsTimeIsOverAndNotBefore) {
  auto lessor = leading();
  grant(*lessor, 1, 10);
  EXPECT_THAT(due(*lessor, at(9.999999)), IsEmpty());
  EXPECT_THAT(due(*lessor, at(10)), ElementsAre(1));
}

TEST(LessorClock, AFollowerExpiresNothing) {
  Lessor lessor({});
  grant(lessor, 1, 10);
  EXPECT_THAT(due(lessor, at(1000)), IsEmpty());
  EXPECT_EQ(lessor.next_event(), std::nullopt);
  lessor.promote(at(1000), kGrace);
  lessor.demote();
  EXPECT_FALSE(lessor.is_promoted());
  EXPECT_THAT(due(lessor, at(5000)), IsEmpty());
  EXPECT_THAT(lessor.take_checkpoints(at(5000), 1000), IsEmpty());
}

TEST(LessorClock, RenewingGivesTheFullTimeAgain) {
  auto lessor = leading();
  grant(*lessor, 1, 10);
  const auto renewed = lessor->renew(1, at(9));
  ASSERT_TRUE(renewed);
  EXPECT_EQ(renewed->ttl_s, 10);
  EXPECT_FALSE(renewed->had_checkpoint);
  EXPECT_THAT(due(*lessor, at(18.9)), IsEmpty());
  EXPECT_THAT(due(*lessor, at(19)), ElementsAre(1));
}

TEST(LessorClock, ALeaseCanBeRenewedAtOnceAfterItWasGranted) {
  // Before the leader has looked at it at all (etcd: PR 14177, keepalive right after grant).
  auto lessor = leading();
  ASSERT_TRUE(lessor->grant(1, 10).is_ok());
  EXPECT_EQ(lessor->time_left_s(1, at(4)), 10);
  ASSERT_TRUE(lessor->renew(1, at(5)));
  EXPECT_THAT(due(*lessor, at(14)), IsEmpty());
  EXPECT_THAT(due(*lessor, at(15)), ElementsAre(1));
}

TEST(LessorClock, ALeaseThatHasRunOutIsNotRenewedAlsoWhileItsRevokeIsUnderWay) {
  // etcd: PR 20615, keepalive said OK for a lease that was being revoked.
  auto lessor = leading();
  grant(*lessor, 1, 10);
  EXPECT_EQ(lessor->renew(1, at(10)), std::nullopt);  // nobody has looked yet, but it is over
  EXPECT_THAT(due(*lessor, at(10)), ElementsAre(1));
  EXPECT_EQ(lessor->renew(1, at(10)), std::nullopt);
  EXPECT_EQ(lessor->renew(1, at(5)), std::nullopt);   // whatever the clock says: the revoke is on its way
  ASSERT_TRUE(lessor->revoke(1).is_ok());
  EXPECT_EQ(lessor->renew(1, at(11)), std::nullopt);
}

TEST(LessorClock, ARevokeThatIsLostIsHandedOutAgainUntilItIsApplied) {
  // etcd#9935, #10686, #11369: keys outlived their lease by hours.
  auto lessor = leading();
  grant(*lessor, 1, 10);
  for (int round = 0; round < 5; ++round) {
    const double now = 10 + round * 10;
    EXPECT_THAT(due(*lessor, at(now)), ElementsAre(1));
    EXPECT_THAT(due(*lessor, at(now + 9.9)), IsEmpty());
  }
  ASSERT_TRUE(lessor->revoke(1).is_ok());
  EXPECT_THAT(due(*lessor, at(1000)), IsEmpty());
}

TEST(LessorClock, NoMoreAreHandedOutThanAskedFor) {
  auto lessor = leading();
  for (int64_t id = 1; id <= 10; ++id) grant(*lessor, id, 10);
  std::vector<int64_t> all = due(*lessor, at(20), 4);
  EXPECT_EQ(all.size(), 4u);
  for (int64_t id : due(*lessor, at(20), 4)) all.push_back(id);
  for (int64_t id : due(*lessor, at(20), 4)) all.push_back(id);
  EXPECT_THAT(all, UnorderedElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
}

TEST(LessorClock, TheTimeLeftIsWholeSecondsAndNeverNegative) {
  auto lessor = leading();
  grant(*lessor, 1, 10);
  EXPECT_EQ(lessor->time_left_s(1, at(0)), 10);
  EXPECT_EQ(lessor->time_left_s(1, at(0.1)), 9);
  EXPECT_EQ(lessor->time_left_s(1, at(9.999)), 0);
  EXPECT_EQ(lessor->time_left_s(1, at(500)), 0);
  EXPECT_EQ(lessor->time_left_s(2, at(0)), std::nullopt);
  lessor->demote();
  EXPECT_EQ(lessor->time_left_s(1, at(5)), 10);
}

TEST(LessorClock, TheLongestTimeIsStillANumberOfSeconds) {
  // etcd#12381: 9223372036 s, the greatest duration that its clock knows, showed through.
  auto lessor = leading();
  grant(*lessor, 1, 9'000'000'000);
  EXPECT_EQ(lessor->time_left_s(1, at(100)), 8'999'999'900);
  lessor->promote(at(200), kGrace);
  EXPECT_EQ(lessor->time_left_s(1, at(200)), 9'000'000'001);
  Lessor::Settings settings;
  settings.ttl_max_s = INT64_MAX;
  auto endless = leading(settings);
  grant(*endless, 1, INT64_MAX);
  EXPECT_GT(*endless->time_left_s(1, at(1e9)), 0);
  EXPECT_THAT(due(*endless, at(1e9)), IsEmpty());
}

TEST(LessorClock, ANewLeaderGivesTheFullTimeAndTheGrace) {
  Lessor lessor({});
  grant(lessor, 1, 10);
  lessor.promote(at(100), kGrace);
  EXPECT_THAT(due(lessor, at(110.9)), IsEmpty());
  EXPECT_THAT(due(lessor, at(111)), ElementsAre(1));
}

TEST(LessorClock, ALeaderThatComesBackKnowsNothingOfWhatItHandedOut) {
  // Its revoke is void in the new term, so the lease lives and can be renewed (etcd#15247).
  auto lessor = leading();
  grant(*lessor, 1, 10);
  EXPECT_THAT(due(*lessor, at(10)), ElementsAre(1));
  lessor->promote(at(12), kGrace);
  EXPECT_TRUE(lessor->renew(1, at(13)));
  EXPECT_THAT(due(*lessor, at(22.9)), IsEmpty());
  EXPECT_THAT(due(*lessor, at(23)), ElementsAre(1));
}

TEST(LessorClock, AShortLeaseHasItsRemainderLoggedAtHalfItsTime) {
  auto lessor = leading();
  grant(*lessor, 1, 10);
  grant(*lessor, 2, 10);
  EXPECT_TRUE(lessor->renew(2, at(3.3)));  // as clients do
  EXPECT_THAT(lessor->take_checkpoints(at(4.9), 100), IsEmpty());
  const auto checkpoints = lessor->take_checkpoints(at(5), 100);
  ASSERT_EQ(checkpoints.size(), 1u);
  EXPECT_EQ(checkpoints[0].id, 1);
  EXPECT_EQ(checkpoints[0].remaining_s, 5);
  EXPECT_TRUE(lessor->renew(2, at(6.6)));
  EXPECT_THAT(lessor->take_checkpoints(at(9.9), 100), IsEmpty()) << "one that is renewed costs no log entry";
}

TEST(LessorClock, ALeaderThatChangesFasterThanALeaseRunsOutDoesNotKeepItForEver) {
  Lessor lessor({});
  grant(lessor, 1, 10);
  double now = 0;
  for (int changes = 0; changes < 100; ++changes, now += 8) {
    lessor.promote(at(now), kGrace);
    if (!due(lessor, at(now + 8)).empty()) break;
    for (const auto& checkpoint : lessor.take_checkpoints(at(now + 5), 10)) lessor.checkpoint(checkpoint.id, checkpoint.grant, checkpoint.remaining_s);
  }
  EXPECT_LE(now + 8, 24) << "ten seconds, and three of eight that a new leader did not know of";
}

TEST(LessorClock, ALongLeaseHasItsRemainderLoggedEveryMinute) {
  auto lessor = leading();  // every 60 s
  grant(*lessor, 2, 200);
  EXPECT_THAT(lessor->take_checkpoints(at(59.9), 100), IsEmpty());
  const auto checkpoints = lessor->take_checkpoints(at(60), 100);
  ASSERT_EQ(checkpoints.size(), 1u);
  EXPECT_EQ(checkpoints[0].id, 2);
  EXPECT_EQ(checkpoints[0].remaining_s, 140);
  note(*lessor, 2, 140);
  EXPECT_THAT(lessor->take_checkpoints(at(119.9), 100), IsEmpty());
  EXPECT_EQ(lessor->take_checkpoints(at(120), 100).at(0).remaining_s, 80);
  note(*lessor, 2, 80);
  EXPECT_EQ(lessor->take_checkpoints(at(180.5), 100).at(0).remaining_s, 20);  // rounded up: never less than what is left
  note(*lessor, 2, 20);
  EXPECT_THAT(lessor->take_checkpoints(at(300), 100), IsEmpty());
}

TEST(LessorClock, ANewLeaderGoesOnFromTheCheckpoint) {
  auto lessor = leading();
  grant(*lessor, 1, 200);
  note(*lessor, 1, 80);
  lessor->promote(at(1000), kGrace);
  EXPECT_EQ(lessor->time_left_s(1, at(1000)), 81);
  EXPECT_THAT(due(*lessor, at(1080.9)), IsEmpty());
  EXPECT_THAT(due(*lessor, at(1081)), ElementsAre(1));
}

TEST(LessorClock, ManyChangesOfTheLeaderDoNotImmortalise) {
  // etcd: PR 9924, 13508, 14253. A change every 100 s; each gives the grace and what had passed since the last checkpoint.
  Lessor lessor({});
  grant(lessor, 1, 1000);
  int changes = 0;
  double now = 0;
  for (; changes < 100; ++changes) {
    lessor.promote(at(now), kGrace);
    if (!due(lessor, at(now + 100)).empty()) break;
    for (const auto& checkpoint : lessor.take_checkpoints(at(now + 60), 10)) lessor.checkpoint(checkpoint.id, checkpoint.grant, checkpoint.remaining_s);
    now += 100;
  }
  EXPECT_LE(changes, 18);
}

TEST(LessorClock, RenewingAsksForTheRemovalOfTheCheckpoint) {
  auto lessor = leading();
  grant(*lessor, 1, 200);
  note(*lessor, 1, lessor->take_checkpoints(at(60), 10).at(0).remaining_s);
  EXPECT_FALSE(lessor->awaits_removal(1));
  EXPECT_TRUE(lessor->renew(1, at(70))->had_checkpoint);
  EXPECT_TRUE(lessor->awaits_removal(1));
  EXPECT_TRUE(lessor->renew(1, at(71))->had_checkpoint);
  note(*lessor, 1, 0);
  EXPECT_FALSE(lessor->awaits_removal(1));
  EXPECT_FALSE(lessor->renew(1, at(72))->had_checkpoint);
  lessor->promote(at(80), kGrace);
  EXPECT_EQ(lessor->time_left_s(1, at(80)), 201);
}

TEST(LessorClock, ARenewalWhileACheckpointIsOnItsWayRemovesItToo) {
  // The note says what was left before the renewal. Stored behind it, it would let the next leader cut the lease short.
  auto lessor = leading();
  grant(*lessor, 1, 200);
  const auto on_its_way = lessor->take_checkpoints(at(190), 10).at(0);
  EXPECT_EQ(on_its_way.remaining_s, 10);
  EXPECT_TRUE(lessor->renew(1, at(195))->had_checkpoint);
  note(*lessor, 1, on_its_way.remaining_s);  // now it arrives
  EXPECT_TRUE(lessor->awaits_removal(1));   // so the client is not answered yet
  note(*lessor, 1, 0);
  EXPECT_FALSE(lessor->awaits_removal(1));
  lessor->promote(at(200), kGrace);
  EXPECT_EQ(lessor->time_left_s(1, at(200)), 201);
}

TEST(LessorClock, NoNewCheckpointOvertakesARemoval) {
  auto lessor = leading();
  grant(*lessor, 1, 1000);
  const auto first = lessor->take_checkpoints(at(60), 10).at(0);
  EXPECT_THAT(lessor->take_checkpoints(at(130), 10), IsEmpty());  // one at a time
  EXPECT_TRUE(lessor->renew(1, at(140))->had_checkpoint);
  note(*lessor, 1, first.remaining_s);
  EXPECT_THAT(lessor->take_checkpoints(at(230), 10), IsEmpty());
  note(*lessor, 1, 0);
  EXPECT_EQ(lessor->take_checkpoints(at(300), 10).size(), 1u);
}

TEST(LessorClock, ACheckpointThatIsLostWithItsLeaderIsMadeAgain) {
  auto lessor = leading();
  grant(*lessor, 1, 1000);
  EXPECT_EQ(lessor->take_checkpoints(at(60), 10).size(), 1u);
  lessor->promote(at(100), kGrace);
  EXPECT_FALSE(lessor->awaits_removal(1));
  EXPECT_EQ(lessor->take_checkpoints(at(160), 10).at(0).remaining_s, 941);
}

TEST(LessorClock, ACheckpointNeverSaysMoreThanTheFullTime) {
  auto lessor = leading();
  ASSERT_TRUE(lessor->grant(1, 61).is_ok());
  lessor->promote(at(0), Duration::seconds(100));
  EXPECT_EQ(lessor->take_checkpoints(at(60), 10).at(0).remaining_s, 61);
}

TEST(LessorClock, CheckpointsAreHandedOutInPortions) {
  auto lessor = leading();
  for (int64_t id = 1; id <= 10; ++id) grant(*lessor, id, 1000);
  EXPECT_EQ(lessor->take_checkpoints(at(60), 4).size(), 4u);
  EXPECT_EQ(lessor->take_checkpoints(at(60), 4).size(), 4u);
  EXPECT_EQ(lessor->take_checkpoints(at(60), 4).size(), 2u);
  EXPECT_EQ(lessor->take_checkpoints(at(60), 4).size(), 0u);
}

TEST(LessorClock, TheNextEventIsNeverLaterThanTheFirstThatIsDue) {
  auto lessor = leading();
  EXPECT_EQ(lessor->next_event(), std::nullopt);
  ASSERT_TRUE(lessor->grant(1, 30).is_ok());
  EXPECT_LE(lessor->next_event(), at(0));  // its time has yet to begin
  EXPECT_THAT(due(*lessor, at(0)), IsEmpty());
  EXPECT_EQ(lessor->next_event(), at(15));  // its checkpoint
  grant(*lessor, 2, 200);
  grant(*lessor, 3, 20);
  EXPECT_EQ(lessor->next_event(), at(10));
  ASSERT_TRUE(lessor->revoke(3).is_ok());
  ASSERT_TRUE(lessor->revoke(1).is_ok());
  EXPECT_EQ(lessor->next_event(), at(60));  // the checkpoint of 2
  ASSERT_TRUE(lessor->revoke(2).is_ok());
  EXPECT_EQ(lessor->next_event(), std::nullopt);
}

}  // namespace
}  // namespace rallypoint::lease
