// raft/transfer.h: leadership handed over on purpose.
#include "raft/transfer.h"

#include <gtest/gtest.h>

#include "tests/raft/support/cluster.h"

namespace rallypoint::raft {
namespace {

using test::Cluster;

struct Transfer : testing::Test {
  Cluster cluster{{1, 2, 3}};
  void SetUp() override {
    cluster.start_all();
    ASSERT_EQ(cluster.elect()->id, NodeId(1));
  }
};

TEST_F(Transfer, GoesToTheNamedVoter) {
  cluster.step(1, TransferLeadership{NodeId(3)});
  cluster.settle();
  EXPECT_TRUE(cluster.node(3).leads());
  ASSERT_EQ(cluster.node(1).transfer_results.size(), 1u);
  EXPECT_TRUE(cluster.node(1).transfer_results[0].status.is_ok());
}

TEST_F(Transfer, ZeroPicksTheMostUpToDateVoter) {
  cluster.cut(1, 2);
  cluster.propose(1, "a");
  cluster.settle();
  cluster.heal();
  cluster.step(1, TransferLeadership{NodeId()});
  cluster.settle();
  EXPECT_TRUE(cluster.node(3).leads());
}

TEST_F(Transfer, ProposalsAreRefusedMeanwhile) {
  cluster.isolate(3);
  cluster.step(1, TransferLeadership{NodeId(3)});
  cluster.propose(1, "a");
  ASSERT_EQ(cluster.node(1).rejections.size(), 1u);
  EXPECT_EQ(cluster.node(1).rejections[0].status.code(), Code::kUnavailable);
}

TEST_F(Transfer, IsGivenUpAfterAnElectionTimeout) {
  cluster.isolate(3);
  cluster.step(1, TransferLeadership{NodeId(3)});
  cluster.tick_all(11);
  EXPECT_TRUE(cluster.node(1).leads());
  ASSERT_EQ(cluster.node(1).transfer_results.size(), 1u);
  EXPECT_EQ(cluster.node(1).transfer_results[0].status.code(), Code::kUnavailable);
  cluster.propose(1, "a");
  cluster.settle();
  EXPECT_EQ(cluster.commands(2), "a");
}

TEST_F(Transfer, WaitsUntilTheTargetHasEverything) {
  cluster.cut(1, 3);
  cluster.propose(1, "a");
  cluster.settle();
  cluster.step(1, TransferLeadership{NodeId(3)});
  cluster.settle();
  EXPECT_TRUE(cluster.node(1).leads());
  cluster.heal();
  cluster.propose(2, "refused");  // any event
  cluster.tick_all(8);
  EXPECT_TRUE(cluster.node(1).leads() || cluster.node(3).leads());
  cluster.tick_all(10);
  EXPECT_EQ(cluster.commands(3), "a");
}

TEST_F(Transfer, OnlyALeaderHandsOverAndOnlyToAVoter) {
  cluster.step(2, TransferLeadership{NodeId(3)});
  EXPECT_EQ(cluster.node(2).transfer_results[0].status.code(), Code::kUnavailable);
  cluster.step(1, TransferLeadership{NodeId(9)});
  EXPECT_EQ(cluster.node(1).transfer_results[0].status.code(), Code::kInvalidArgument);
  cluster.step(1, TransferLeadership{NodeId(1)});
  EXPECT_TRUE(cluster.node(1).transfer_results[1].status.is_ok());
}

}  // namespace
}  // namespace rallypoint::raft
