// raft/election.h: who votes for whom, and when nobody need be disturbed.
#include "raft/election.h"

#include <gtest/gtest.h>

#include "tests/raft/support/cluster.h"

namespace rallypoint::raft {
namespace {

using test::Cluster;
using test::Node;

template <class Body>
size_t count_of(const std::deque<Message>& messages) {
  size_t n = 0;
  for (const Message& message : messages) n += std::holds_alternative<Body>(message.body);
  return n;
}

TEST(Election, SingleVoterLeadsAtOnceAndBindsItsDirectory) {
  Cluster cluster({1});
  cluster.start(1);
  cluster.settle();
  EXPECT_TRUE(cluster.node(1).leads());
  EXPECT_EQ(cluster.node(1).core->commit(), Index(1));
  EXPECT_EQ(cluster.node(1).core->membership().voters[0].directory, cluster.node(1).disk.directory);
}

TEST(Election, BlankClusterElectsItsLowestNodeWithinFewTicks) {
  Cluster cluster({1, 2, 3});
  cluster.start_all();
  Node* leader = cluster.elect(3);
  ASSERT_NE(leader, nullptr);
  EXPECT_EQ(leader->id, NodeId(1));
  for (uint64_t id : {1, 2, 3})
    for (const Member& voter : cluster.node(id).core->membership().voters)
      EXPECT_EQ(voter.directory, cluster.node(voter.id.value()).disk.directory);
}

TEST(Election, BlankClusterWaitsForAllItsVoters) {
  Cluster cluster({1, 2, 3});
  cluster.start(1);
  cluster.start(2);
  EXPECT_EQ(cluster.elect(200), nullptr);
  EXPECT_EQ(cluster.node(1).state().term, Term(0)) << "pre-votes alone raise no term";
  cluster.start(3);
  EXPECT_NE(cluster.elect(), nullptr);
}

TEST(Election, WipedNodeAndBlankNodeCannotMakeASecondFirstLeader) {
  Cluster cluster({1, 2, 3});
  cluster.start_all();
  ASSERT_EQ(cluster.elect()->id, NodeId(1));
  cluster.propose(1, "a");
  cluster.settle();
  for (uint64_t id : {1, 2, 3}) cluster.crash(id);
  cluster.wipe(1);
  cluster.wipe(3);  // as good as never started
  cluster.start(1);
  cluster.start(3);
  EXPECT_EQ(cluster.elect(100), nullptr);
}

TEST(Election, VoteIsSentOnlyOnceItIsDurable) {
  Cluster cluster({1, 2, 3});
  cluster.start_all();
  cluster.elect();
  cluster.crash(1);
  cluster.node(3).disk_stalls = true;
  for (int i = 0; i < 100 && cluster.node(2).state().role != Role::kCandidate; ++i) {
    cluster.tick_all();
  }
  ASSERT_EQ(cluster.node(2).state().role, Role::kCandidate);
  EXPECT_EQ(cluster.node(3).state().vote, NodeId(2));
  cluster.node(3).disk_stalls = false;
  cluster.settle();
  EXPECT_TRUE(cluster.node(2).leads());
}

TEST(Election, CandidateAsksOnlyOnceItsOwnVoteIsDurable) {
  Cluster cluster({1, 2, 3});
  cluster.start_all();
  cluster.elect();
  cluster.crash(1);
  cluster.crash(3);
  cluster.start(3);
  cluster.node(2).disk_stalls = true;
  for (int i = 0; i < 40 && cluster.node(2).state().role != Role::kCandidate; ++i) {
    cluster.tick(2);
    while (cluster.deliver_one()) {
    }
  }
  ASSERT_EQ(cluster.node(2).state().role, Role::kCandidate);
  EXPECT_EQ(count_of<VoteRequest>(cluster.network), 0u);
  EXPECT_EQ(cluster.node(3).state().vote, NodeId(1)) << "not asked yet";
  cluster.node(2).disk_stalls = false;
  cluster.settle();
  EXPECT_TRUE(cluster.node(2).leads());
}

TEST(Election, FollowerOfALiveLeaderRefuses) {
  Cluster cluster({1, 2, 3});
  cluster.start_all();
  cluster.elect();
  const Term term = cluster.node(2).state().term;
  Message message{NodeId(3), NodeId(2), term + 5, cluster.node(3).disk.directory,
                  VoteRequest{{term + 4, Index(100)}, false, false, false, {}}};
  cluster.step(2, MessageReceived{message});
  EXPECT_EQ(cluster.node(2).state().term, term);
  EXPECT_EQ(cluster.node(2).state().leader, NodeId(1));
}

TEST(Election, FollowerRejectsCandidateWithOlderLog) {
  Cluster cluster({1, 2, 3});
  cluster.start_all();
  cluster.elect();
  cluster.isolate(3);
  cluster.propose(1, "a");
  cluster.settle();
  cluster.crash(1);
  cluster.heal();
  ASSERT_NE(cluster.elect(), nullptr);
  EXPECT_TRUE(cluster.node(2).leads()) << "3 can never win";
  EXPECT_EQ(cluster.commands(2), "a");
}

TEST(Election, IsolatedNodeComesBackWithoutInflatingTheTerm) {
  Cluster cluster({1, 2, 3});
  cluster.start_all();
  cluster.elect();
  const Term term = cluster.node(1).state().term;
  cluster.isolate(3);
  cluster.tick_all(100);
  cluster.heal();
  cluster.tick_all(5);
  EXPECT_EQ(cluster.node(1).state().term, term);
  EXPECT_EQ(cluster.node(3).state().leader, NodeId(1));
}

TEST(Election, LeaderWithoutQuorumStepsDown) {
  Cluster cluster({1, 2, 3});
  cluster.start_all();
  cluster.elect();
  cluster.isolate(1);
  cluster.tick_all(25);
  EXPECT_FALSE(cluster.node(1).leads());
}

TEST(Election, LeaderGoneElectsWithoutWaitingForTheTimeout) {
  Cluster cluster({1, 2, 3});
  cluster.start_all();
  cluster.elect();
  const Term term = cluster.node(1).state().term;
  cluster.crash(1);
  cluster.step(2, LeaderGone{NodeId(1), term});
  cluster.step(3, LeaderGone{NodeId(1), term});
  EXPECT_NE(cluster.elect(4), nullptr);
}

TEST(Election, FollowerThatStillHearsTheLeaderRefusesAfterLeaderGoneElsewhere) {
  Cluster cluster({1, 2, 3});
  cluster.start_all();
  cluster.elect();
  const Term term = cluster.node(1).state().term;
  cluster.cut(1, 2);
  cluster.step(2, LeaderGone{NodeId(1), term});
  cluster.tick_all(5);
  EXPECT_TRUE(cluster.node(1).leads());
  EXPECT_EQ(cluster.node(3).state().term, term);
}

TEST(Election, VoteOfAnotherDiskDoesNotCount) {
  Cluster cluster({1, 2, 3});
  cluster.start_all();
  cluster.elect();
  for (uint64_t id : {1, 2, 3}) cluster.crash(id);
  cluster.wipe(3);
  cluster.start(2);
  cluster.start(3);
  EXPECT_EQ(cluster.elect(100), nullptr) << "2 is alone with a disk that knows nothing";
  cluster.start(1);
  EXPECT_NE(cluster.elect(), nullptr);
}

TEST(Election, LeaderWithAStalledDiskStepsDown) {
  Cluster cluster({1, 2, 3});
  cluster.start_all();
  cluster.elect();
  cluster.node(1).disk_stalls = true;
  cluster.propose(1, "a");
  cluster.tick_all(31);
  EXPECT_FALSE(cluster.node(1).leads());
  cluster.tick_all(60);
  ASSERT_NE(cluster.leader(), nullptr);
  EXPECT_NE(cluster.leader()->id, NodeId(1));
}

TEST(Election, NodeThatCannotWriteDoesNotCampaign) {
  Cluster cluster({1, 2, 3});
  cluster.start_all();
  cluster.elect();
  cluster.node(2).disk_stalls = true;
  cluster.propose(1, "a");
  cluster.tick_all(31);
  cluster.crash(1);
  cluster.crash(3);
  for (int i = 0; i < 50; ++i) cluster.tick(2);
  EXPECT_EQ(cluster.node(2).state().role, Role::kFollower);
}

}  // namespace
}  // namespace rallypoint::raft
