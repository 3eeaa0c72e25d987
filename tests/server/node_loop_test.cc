// server/node_loop.h: whole nodes on one thread, in virtual time.
#include "server/node_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/node_loop_support.h"

namespace rallypoint::server {
namespace {

using Kind = ChangeMember::Kind;
using testing::StartsWith;

bool is_write_to(const TestNode::Sent& sent, NodeId to) {
  return sent.to == to && sent.message && std::holds_alternative<raft::AppendRequest>(sent.message->body);
}

TEST(NodeLoop, ASingleNodeServesWithinAFewTurns) {
  TestNodes cluster({1});
  TestNode& node = cluster.node(1);
  const uint64_t put = node.put("/a", "x");
  cluster.run(Duration::millis(10));
  EXPECT_EQ(node.answer(put), "x");
  const uint64_t get = node.get("/a");
  cluster.step();
  EXPECT_EQ(node.answer(get), "x") << "a read of a single voter waits for nothing";
}

TEST(NodeLoop, NothingIsAcknowledgedBeforeItIsDurable) {
  TestNodes cluster({1});
  ASSERT_TRUE(cluster.settle());
  TestNode& node = cluster.node(1);
  node.disk_holds = true;
  const uint64_t put = node.put("/a", "x");
  cluster.run(Duration::millis(50));
  EXPECT_FALSE(node.answered(put));
  EXPECT_EQ(node.loop->view().v2.sets.success, 0u);
  node.disk_holds = false;
  cluster.run(Duration::millis(3));
  EXPECT_EQ(node.answer(put), "x");
}

TEST(NodeLoop, WhatComesInOneTurnIsOneWrite) {
  TestNodes cluster({1});
  ASSERT_TRUE(cluster.settle());
  cluster.run(Duration::millis(5));
  TestNode& node = cluster.node(1);
  const size_t before = node.writes_made;
  std::vector<uint64_t> puts;
  for (int i = 0; i < 100; ++i) puts.push_back(node.put("/k" + std::to_string(i), "v"));
  cluster.run(Duration::millis(5));
  for (uint64_t put : puts) EXPECT_EQ(node.answer(put), "v");
  EXPECT_LE(node.writes_made - before, 2u) << "the entry, and perhaps the commit index";
}

TEST(NodeLoop, AWriteThroughAFollowerIsAnsweredByIt) {
  TestNodes cluster({1, 2, 3});
  ASSERT_TRUE(cluster.settle());
  TestNode& follower = cluster.follower();
  const uint64_t put = follower.put("/a", "x");
  ASSERT_TRUE(cluster.run_until([&] { return follower.answered(put); }));
  EXPECT_EQ(follower.answer(put), "x");
  const uint64_t own = follower.get("/a", false);
  cluster.step();
  EXPECT_EQ(follower.answer(own), "x") << "it has applied what it answered";
}

TEST(NodeLoop, AReadThroughAFollowerSeesWhatWasAcknowledgedBeforeIt) {
  TestNodes cluster({1, 2, 3});
  ASSERT_TRUE(cluster.settle());
  TestNode& follower = cluster.follower();
  // Nothing reaches it while the others write.
  cluster.lose = [&](const TestNode::Sent& sent) { return is_write_to(sent, follower.id); };
  const uint64_t put = cluster.leader()->put("/a", "new");
  ASSERT_TRUE(cluster.run_until([&] { return cluster.leader()->answered(put); }));
  const uint64_t get = follower.get("/a");
  cluster.run(Duration::millis(100));
  EXPECT_FALSE(follower.answered(get)) << "it does not have the entry yet";
  cluster.lose = nullptr;
  ASSERT_TRUE(cluster.run_until([&] { return follower.answered(get); }));
  EXPECT_EQ(follower.answer(get), "new");
}

TEST(NodeLoop, ALeaderThatWasCutOffAnswersNothing) {
  TestNodes cluster({1, 2, 3});
  ASSERT_TRUE(cluster.settle());
  TestNode& old = *cluster.leader();
  old.cut_off = true;
  const uint64_t stale = old.get("/a"), lost = old.put("/b", "x");
  ASSERT_TRUE(cluster.run_until([&] { return cluster.leader() != nullptr; }));
  const uint64_t put = cluster.leader()->put("/a", "new");
  TestNode& writer = *cluster.leader();
  ASSERT_TRUE(cluster.run_until([&] { return writer.answered(put); }));
  EXPECT_FALSE(old.answered(stale));
  EXPECT_FALSE(old.answered(lost));
  old.cut_off = false;
  ASSERT_TRUE(cluster.run_until([&] { return old.answered(stale) && old.answered(lost); }));
  EXPECT_EQ(old.answer(stale), "new") << "held, then answered as of now";
  EXPECT_EQ(old.answer(lost), "x") << "proposed again to the new leader";
}

TEST(NodeLoop, AWriteIsMadeOnceThoughTheLeaderDiesBeforeItsAnswer) {
  for (int lost_after = 1; lost_after <= 6; ++lost_after) {
    TestNodes cluster({1, 2, 3});
    ASSERT_TRUE(cluster.settle());
    TestNode& follower = cluster.follower();
    V2Write write;  // POST makes a new key each time it is applied
    write.request.method = v2::WriteRequest::Method::kPost;
    write.request.path = "/queue";
    write.request.value = Bytes::copy_of("job");
    const uint64_t post = follower.ask(std::move(write));
    for (int i = 0; i < lost_after; ++i) cluster.step();
    cluster.leader()->stopped = true;
    ASSERT_TRUE(cluster.run_until([&] { return follower.answered(post); })) << "dies after " << lost_after << " ms";
    EXPECT_EQ(follower.answer(post), "job");
    cluster.run(Duration::seconds(3));
    EXPECT_EQ(follower.loop->view().v2.creates.success, 1u) << "dies after " << lost_after << " ms";
  }
}

TEST(NodeLoop, MissedTicksAreNotMadeUpForAfterAPause) {
  TestNodes cluster({1, 2, 3});
  ASSERT_TRUE(cluster.settle());
  const uint64_t term = cluster.leader()->loop->view().raft_term;
  for (int i = 0; i < 5; ++i) {
    cluster.clock.now = cluster.clock.now + Duration::seconds(10);  // the machine slept
    cluster.run(Duration::millis(20));
  }
  EXPECT_EQ(cluster.leader()->loop->view().raft_term, term) << "one tick passed each time: nobody had to be elected";
}

TEST(NodeLoop, KeysExpireInClusterTimeAndASleepIsNoTime) {
  TestNodes cluster({1});
  ASSERT_TRUE(cluster.settle());
  TestNode& node = cluster.node(1);
  node.put("/a", "x", 5);
  cluster.run(Duration::millis(10));
  cluster.clock.now = cluster.clock.now + Duration::seconds(3600);
  cluster.run(Duration::seconds(3));
  const uint64_t still = node.get("/a");
  cluster.run(Duration::seconds(3));
  EXPECT_EQ(node.answer(still), "x") << "an hour in which nobody could renew counts as half a second";
  const uint64_t gone = node.get("/a");
  cluster.step();
  EXPECT_EQ(node.answer(gone), "e100");
}

TEST(NodeLoop, AShutDownHandsLeadershipOverAndEnds) {
  TestNodes cluster({1, 2, 3});
  ASSERT_TRUE(cluster.settle());
  TestNode& old = *cluster.leader();
  const Instant asked = cluster.clock.now;
  old.post(Shutdown{});
  ASSERT_TRUE(cluster.run_until([&] { return old.loop->is_done(); }));
  EXPECT_LT((cluster.clock.now - asked).us, 60'000);
  old.stopped = true;
  EXPECT_TRUE(cluster.run_until([&] { return cluster.leader() != nullptr; }));
  EXPECT_LT((cluster.clock.now - asked).us, 60'000) << "nobody waited for an election";
}

// ---- members

TEST(NodeLoop, AMemberIsAddedThroughAFollowerAndVotesOnceItHasTheData) {
  TestNodes cluster({1, 2, 3});
  ASSERT_TRUE(cluster.settle());
  cluster.leader()->put("/a", "x");
  TestNode& follower = cluster.follower();
  const uint64_t add = follower.change_member(Kind::kAdd, 0, {"http://n4:2380"});
  ASSERT_TRUE(cluster.run_until([&] { return follower.answered(add); }));
  ASSERT_THAT(follower.answer(add), StartsWith("member "));
  ASSERT_EQ(follower.loop->view().members.size(), 4u) << "what it answered it shows";
  TestNode& added = cluster.join(std::stoull(follower.answer(add).substr(7)));
  ASSERT_TRUE(cluster.settle());
  const uint64_t get = added.get("/a", false);
  cluster.step();
  EXPECT_EQ(added.answer(get), "x");
  EXPECT_EQ(added.loop->view().find(added.id.value())->name, "n" + std::to_string(added.id.value())) << "it has registered";
  // Three of four: the old ones alone are enough only as long as all three are there.
  cluster.follower().stopped = true;
  const uint64_t put = added.put("/b", "y");
  ASSERT_TRUE(cluster.run_until([&] { return added.answered(put); }));
  EXPECT_EQ(added.answer(put), "y");
}

TEST(NodeLoop, AChangeIsMadeOnceThoughTheLeaderDiesBeforeItsAnswer) {
  for (int lost_after = 1; lost_after <= 6; ++lost_after) {
    TestNodes cluster({1, 2, 3});
    ASSERT_TRUE(cluster.settle());
    TestNode& follower = cluster.follower();
    const uint64_t add = follower.change_member(Kind::kAdd, 0, {"http://n4:2380"});
    for (int i = 0; i < lost_after; ++i) cluster.step();
    cluster.leader()->stopped = true;
    ASSERT_TRUE(cluster.run_until([&] { return follower.answered(add); })) << "dies after " << lost_after << " ms";
    EXPECT_THAT(follower.answer(add), StartsWith("member ")) << "dies after " << lost_after << " ms";
    cluster.run(Duration::seconds(3));
    EXPECT_EQ(follower.loop->view().members.size(), 4u);
  }
}

// The next leader has made the change under its predecessor; who asked for it does not know yet and asks again.
TEST(NodeLoop, AChangeThatTookEffectIsKnownByTheNextLeader) {
  TestNodes cluster({1, 2, 3, 4, 5});
  ASSERT_TRUE(cluster.settle());
  TestNode& asker = cluster.follower();
  TestNode& old = *cluster.leader();
  cluster.lose = [&](const TestNode::Sent& sent) { return is_write_to(sent, asker.id); };
  const uint64_t add = asker.change_member(Kind::kAdd, 0, {"http://n6:2380"});
  ASSERT_TRUE(cluster.run_until([&] { return old.loop->view().members.size() == 6; }));
  EXPECT_FALSE(asker.answered(add));
  old.stopped = true;
  ASSERT_TRUE(cluster.run_until([&] { return cluster.leader() != nullptr; }));
  cluster.run(Duration::millis(500));  // asked again meanwhile
  cluster.lose = nullptr;
  ASSERT_TRUE(cluster.run_until([&] { return asker.answered(add); }));
  EXPECT_THAT(asker.answer(add), StartsWith("member "));
  EXPECT_EQ(asker.loop->view().members.size(), 6u);
}

TEST(NodeLoop, TwoChangesAtOnceAreMadeOneAfterTheOther) {
  TestNodes cluster({1, 2, 3});
  ASSERT_TRUE(cluster.settle());
  const uint64_t first = cluster.node(1).change_member(Kind::kAdd, 0, {"http://n4:2380"});
  const uint64_t second = cluster.node(2).change_member(Kind::kUpdate, 3, {"http://moved:2380"});
  const uint64_t third = cluster.node(3).change_member(Kind::kAdd, 0, {"http://n4:2380"});
  ASSERT_TRUE(cluster.run_until([&] { return cluster.node(1).answered(first) && cluster.node(2).answered(second) && cluster.node(3).answered(third); }));
  EXPECT_EQ(cluster.node(2).answer(second), "OK");
  const std::string a = cluster.node(1).answer(first), b = cluster.node(3).answer(third);
  EXPECT_NE(a.starts_with("member "), b.starts_with("member ")) << "the URL is given to one of them: " << a << ", " << b;
  EXPECT_EQ(cluster.node(1).loop->view().members.size(), 4u);
}

TEST(NodeLoop, TheListOfMembersShowsWhatIsCommitted) {
  TestNodes cluster({1, 2, 3});
  ASSERT_TRUE(cluster.settle());
  TestNode& old = *cluster.leader();
  old.cut_off = true;
  old.change_member(Kind::kAdd, 0, {"http://n4:2380"});
  cluster.run(Duration::millis(50));
  EXPECT_EQ(old.loop->view().members.size(), 3u) << "it is in its log, but nobody else's";
}

TEST(NodeLoop, ARemovedLeaderHandsOverFirstAndIsTold) {
  TestNodes cluster({1, 2, 3});
  ASSERT_TRUE(cluster.settle());
  TestNode& old = *cluster.leader();
  const Instant asked = cluster.clock.now;
  const uint64_t removal = old.change_member(Kind::kRemove, old.id.value());
  ASSERT_TRUE(cluster.run_until([&] { return old.answered(removal); }));
  EXPECT_EQ(old.answer(removal), "OK");
  TestNode* next = cluster.leader();
  ASSERT_NE(next, nullptr);
  EXPECT_NE(next->id, old.id);
  EXPECT_LT((cluster.clock.now - asked).us, 1'500'000);
  const uint64_t put = next->put("/a", "x");
  ASSERT_TRUE(cluster.run_until([&] { return next->answered(put); }));
  old.post(PeerRemovedUs{next->id});  // as the transport tells it when it calls anybody
  cluster.step();
  EXPECT_TRUE(old.removed);
}

TEST(NodeLoop, ALeaderIsNotRemovedIfTheRestWouldBeNoMajority) {
  TestNodes cluster({1, 2, 3});
  ASSERT_TRUE(cluster.settle());
  TestNode& leader = *cluster.leader();
  TestNode& silent = cluster.follower();
  silent.stopped = true;
  cluster.run(Duration::seconds(2));
  // Without it two would be left, of which one is silent: no majority.
  const uint64_t removal = leader.change_member(Kind::kRemove, leader.id.value());
  ASSERT_TRUE(cluster.run_until([&] { return leader.answered(removal); }));
  EXPECT_EQ(leader.answer(removal), "Unavailable: etcdserver: unhealthy cluster");
  EXPECT_NE(cluster.leader(), nullptr);
}

TEST(NodeLoop, ALearnerStaysOneUntilItIsPromoted) {
  TestNodes cluster({1, 2, 3});
  ASSERT_TRUE(cluster.settle());
  TestNode& through = cluster.follower();
  const uint64_t add = through.change_member(Kind::kAdd, 0, {"http://n4:2380"}, true);
  ASSERT_TRUE(cluster.run_until([&] { return through.answered(add); }));
  const uint64_t id = std::stoull(through.answer(add).substr(7));
  uint64_t promotion = through.change_member(Kind::kPromote, id);
  ASSERT_TRUE(cluster.run_until([&] { return through.answered(promotion); }));
  EXPECT_EQ(through.answer(promotion), "FailedPrecondition: etcdserver: can only promote a learner member which is in sync with leader");
  TestNode& learner = cluster.join(id);
  ASSERT_TRUE(cluster.settle());
  cluster.run(Duration::seconds(2));
  EXPECT_TRUE(learner.loop->view().find(id)->is_learner);
  EXPECT_EQ(learner.loop->view().role, ViewRole::kLearner);
  promotion = through.change_member(Kind::kPromote, id);
  ASSERT_TRUE(cluster.run_until([&] { return through.answered(promotion); }));
  EXPECT_EQ(through.answer(promotion), "OK");
  ASSERT_TRUE(cluster.run_until([&] { return !learner.loop->view().find(id)->is_learner; }));
  EXPECT_EQ(learner.loop->view().role, ViewRole::kFollower);
}

TEST(NodeLoop, WithoutAQuorumAChangeIsAnsweredInTheEnd) {
  TestNodes cluster({1, 2, 3});
  ASSERT_TRUE(cluster.settle());
  TestNode& alone = cluster.node(1);
  cluster.node(2).stopped = cluster.node(3).stopped = true;
  const uint64_t add = alone.change_member(Kind::kAdd, 0, {"http://n4:2380"});
  const Instant asked = cluster.clock.now;
  ASSERT_TRUE(cluster.run_until([&] { return alone.answered(add); }));
  EXPECT_THAT(alone.answer(add), testing::AnyOf(StartsWith("OutcomeUnknown: "), StartsWith("Unavailable: ")));
  EXPECT_LT((cluster.clock.now - asked).us, 11'000'000);
}

TEST(NodeLoop, FramesThatSpeakForOthersOrAreMalformedDoNothing) {
  TestNodes cluster({1, 2, 3});
  ASSERT_TRUE(cluster.settle());
  TestNode& leader = *cluster.leader();
  pb::MemberChange change;
  change.mutable_by()->set_node(cluster.follower().id.value() + 100);
  change.set_kind(static_cast<uint32_t>(Kind::kRemove));
  change.set_id(cluster.follower().id.value());
  for (uint8_t type = 0; type < 10; ++type) {
    leader.post(PeerApp{cluster.follower().id, type, Bytes(change.SerializeAsString())});
    leader.post(PeerApp{cluster.follower().id, type, Bytes(std::string("\xff\xff\xff\xff"))});
    cluster.follower().post(PeerApp{leader.id, type, Bytes(std::string("\xff\xff\xff\xff"))});
    leader.post(PeerApp{cluster.follower().id, type, {}});
  }
  cluster.run(Duration::millis(200));
  EXPECT_EQ(leader.loop->view().members.size(), 3u);
  const uint64_t put = leader.put("/a", "x");
  ASSERT_TRUE(cluster.run_until([&] { return leader.answered(put); }));
}

}  // namespace
}  // namespace rallypoint::server
