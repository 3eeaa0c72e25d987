// raft/snapshotting.h: cutting the log, and bringing those up to date who need what was cut.
#include "raft/snapshotting.h"

#include <gtest/gtest.h>

#include "tests/raft/support/cluster.h"

namespace rallypoint::raft {
namespace {

using test::Cluster;
using test::Node;

Config small_pieces() {
  Config config;
  config.snapshot_chunk_bytes = 3;
  return config;
}

struct Snapshotting : testing::Test {
  Cluster cluster{{1, 2, 3}, small_pieces()};
  void SetUp() override {
    cluster.start_all();
    ASSERT_EQ(cluster.elect()->id, NodeId(1));
    cluster.crash(3);
    for (const char* word : {"alpha", "beta", "gamma"}) cluster.propose(1, word);
    cluster.settle();
    cluster.compact(1);
    cluster.settle();
  }
};

TEST_F(Snapshotting, CompactionKeepsStateAndMembership) {
  EXPECT_EQ(cluster.node(1).core->first_index(), cluster.node(1).core->commit() + 1);
  cluster.restart(1);
  EXPECT_EQ(cluster.node(1).core->membership().voters.size(), 3u);
  ASSERT_NE(cluster.elect(), nullptr);
  EXPECT_EQ(cluster.commands(1), "alpha beta gamma");
}

TEST_F(Snapshotting, FollowerBehindTheLogIsBroughtUpToDateInPieces) {
  cluster.start(3);
  cluster.tick_all(12);
  EXPECT_EQ(cluster.commands(3), "alpha beta gamma");
  cluster.propose(1, "delta");
  cluster.settle();
  EXPECT_EQ(cluster.commands(3), "alpha beta gamma delta");
}

TEST_F(Snapshotting, LostPieceIsSentAgain) {
  int pieces = 0;
  cluster.lose = [&](const Message& message) {
    return std::holds_alternative<InstallSnapshot>(message.body) && ++pieces % 2 == 1;
  };
  cluster.start(3);
  cluster.tick_all(200);
  EXPECT_EQ(cluster.commands(3), "alpha beta gamma");
}

TEST_F(Snapshotting, FollowerRestartsInTheMiddle) {
  int pieces = 0;
  cluster.lose = [&](const Message& message) {
    return std::holds_alternative<InstallSnapshot>(message.body) && ++pieces > 3;
  };
  cluster.start(3);
  cluster.tick_all(12);
  ASSERT_GT(pieces, 3);
  cluster.restart(3);
  cluster.lose = nullptr;
  cluster.tick_all(60);
  EXPECT_EQ(cluster.commands(3), "alpha beta gamma");
}

TEST_F(Snapshotting, NextLeaderSendsItsOwnFromTheStart) {
  int pieces = 0;
  cluster.lose = [&](const Message& message) {
    return std::holds_alternative<InstallSnapshot>(message.body) && ++pieces > 2;
  };
  cluster.start(3);
  cluster.tick_all(12);
  cluster.lose = nullptr;
  cluster.compact(2);
  cluster.step(1, TransferLeadership{NodeId(2)});
  cluster.settle();
  cluster.tick_all(40);
  ASSERT_TRUE(cluster.node(2).leads());
  EXPECT_EQ(cluster.commands(3), "alpha beta gamma");
}

TEST_F(Snapshotting, AckOfTheLastPieceWaitsForTheInstall) {
  cluster.start(3);
  Node& follower = cluster.node(3);
  for (int i = 0; i < 1000 && !follower.state().snapshots.installing; ++i) {
    cluster.tick_all();
    while (!follower.state().snapshots.installing && cluster.deliver_one())
      for (auto& [id, n] : cluster.nodes)
        if (!follower.state().snapshots.installing) cluster.sync(id);
    if (i == 0) follower.disk_stalls = true;
    if (!follower.unsynced.empty()) {
      follower.disk_stalls = false;
    }
    follower.disk_stalls = follower.state().snapshots.installing;
    if (follower.core->first_index() > Index(1)) break;
  }
  cluster.settle();
  follower.disk_stalls = false;
  cluster.tick_all(3);
  EXPECT_EQ(cluster.commands(3), "alpha beta gamma");
}

TEST_F(Snapshotting, OldSnapshotIsNotInstalledOverANewerLog) {
  const CoreState& state = cluster.node(2).state();
  SnapshotMeta meta{Term(1), Index(1), state.membership()};
  cluster.step(2, MessageReceived{{NodeId(1), NodeId(2), state.term, cluster.node(1).disk.directory,
                                   InstallSnapshot{meta, 0, Bytes(), true}}});
  cluster.settle();
  EXPECT_EQ(cluster.commands(2), "alpha beta gamma");
  EXPECT_FALSE(cluster.node(2).state().snapshots.installing);
}

TEST_F(Snapshotting, CompactionWaitsForARunningTransfer) {
  cluster.lose = [](const Message& message) { return std::holds_alternative<InstallSnapshot>(message.body); };
  cluster.start(3);
  cluster.tick_all(12);
  ASSERT_TRUE(cluster.node(1).state().leading->followers[1].transfer.has_value());
  const Index covered = cluster.node(1).state().leading->followers[1].transfer->meta.index;
  cluster.propose(1, "delta");
  cluster.settle();
  cluster.compact(1);
  EXPECT_LE(cluster.node(1).core->first_index(), covered + 1);
  cluster.lose = nullptr;
  cluster.tick_all(30);
  EXPECT_EQ(cluster.commands(3), "alpha beta gamma delta");
  EXPECT_EQ(cluster.node(1).core->first_index(), covered + 2) << "done once the transfer had ended";
}

TEST_F(Snapshotting, UnreadableSnapshotIsMadeAnew) {
  bool failed = false;
  cluster.lose = [&](const Message& message) {
    if (std::holds_alternative<InstallSnapshot>(message.body) && !failed) {
      failed = true;
      cluster.node(1).snapshots.clear();
    }
    return false;
  };
  cluster.start(3);
  cluster.tick_all(10);
  EXPECT_TRUE(failed);
  EXPECT_EQ(cluster.commands(3), "alpha beta gamma");
}

TEST_F(Snapshotting, WipedMemberReturnsThroughASnapshot) {
  cluster.wipe(3);
  cluster.start(3);
  cluster.tick_all(20);
  EXPECT_EQ(cluster.commands(3), "alpha beta gamma");
  EXPECT_NE(find_in(cluster.node(1).core->membership().voters, NodeId(3)), nullptr);
}

}  // namespace
}  // namespace rallypoint::raft
