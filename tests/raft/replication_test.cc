// raft/replication.h and raft/following.h: the log's way to the followers and to the commit index.
#include "raft/replication.h"

#include <gtest/gtest.h>

#include "tests/raft/support/cluster.h"

namespace rallypoint::raft {
namespace {

using test::Cluster;
using test::Node;

struct Replication : testing::Test {
  Cluster cluster{{1, 2, 3}};
  void SetUp() override {
    cluster.start_all();
    ASSERT_EQ(cluster.elect()->id, NodeId(1));
  }
};

TEST_F(Replication, CommandReachesAllStateMachines) {
  cluster.propose(1, "a");
  cluster.propose(1, "b");
  cluster.settle();
  for (uint64_t id : {1, 2, 3}) EXPECT_EQ(cluster.commands(id), "a b");
}

TEST_F(Replication, CommandSurvivesARestartOfAll) {
  cluster.propose(1, "a");
  cluster.settle();
  for (uint64_t id : {1, 2, 3}) cluster.restart(id);
  cluster.elect();
  for (uint64_t id : {1, 2, 3}) EXPECT_EQ(cluster.commands(id), "a");
}

TEST_F(Replication, LeaderCountsItselfOnlyOnceDurable) {
  cluster.node(1).disk_stalls = true;
  cluster.node(3).disk_stalls = true;
  cluster.propose(1, "a");
  cluster.settle();
  EXPECT_EQ(cluster.commands(1), "");
  cluster.node(3).disk_stalls = false;
  cluster.settle();
  EXPECT_EQ(cluster.commands(2), "a") << "two followers are a majority without the leader's disk";
  EXPECT_EQ(cluster.commands(1), "") << "committed, but not durable here";
  cluster.node(1).disk_stalls = false;
  cluster.settle();
  EXPECT_EQ(cluster.commands(1), "a");
}

TEST_F(Replication, FollowerAcksOnlyWhatIsDurable) {
  cluster.crash(3);
  cluster.node(2).disk_stalls = true;
  cluster.propose(1, "a");
  cluster.settle();
  EXPECT_EQ(cluster.commands(1), "");
  cluster.crash(2);
  cluster.node(2).disk_stalls = false;
  cluster.start(2);
  cluster.tick_all(30);
  EXPECT_EQ(cluster.commands(2), "a") << "sent again after the loss";
}

TEST_F(Replication, FollowerThatIsNotLeaderRejectsProposals) {
  cluster.propose(2, "a");
  ASSERT_EQ(cluster.node(2).rejections.size(), 1u);
  EXPECT_EQ(cluster.node(2).rejections[0].status.code(), Code::kUnavailable);
  EXPECT_EQ(cluster.node(2).rejections[0].leader, NodeId(1));
}

TEST_F(Replication, ConflictingTailIsReplaced) {
  cluster.isolate(1);
  for (int i = 0; i < 5; ++i) cluster.propose(1, "lost" + std::to_string(i));
  cluster.settle();
  cluster.tick_all(60);
  ASSERT_NE(cluster.leader(), nullptr);
  const uint64_t leader = cluster.leader()->id.value();
  ASSERT_NE(leader, 1u);
  cluster.propose(leader, "kept");
  cluster.settle();
  cluster.heal();
  cluster.tick_all(10);
  for (uint64_t id : {1, 2, 3}) EXPECT_EQ(cluster.commands(id), "kept");
}

TEST_F(Replication, LostAppendIsSentAgainWithoutNewTraffic) {
  bool lose = true;
  cluster.lose = [&](const Message& message) {
    const auto* append = std::get_if<AppendRequest>(&message.body);
    return lose && append != nullptr && !append->entries.empty();
  };
  cluster.propose(1, "a");
  cluster.settle();
  EXPECT_EQ(cluster.commands(1), "");
  lose = false;
  cluster.tick_all(30);
  for (uint64_t id : {1, 2, 3}) EXPECT_EQ(cluster.commands(id), "a");
}

TEST_F(Replication, CompletionOfACutWriteDoesNotVouchForWhatReplacedIt) {
  // Node 3's disk is slow. It takes entry x from 1, then a new leader replaces it by y; only the first write
  // ends.
  Node& slow = cluster.node(3);
  slow.disk_stalls = true;
  cluster.cut(1, 2);
  cluster.propose(1, "x");
  cluster.settle();
  const WriteNumber first = slow.unsynced.back().number;
  ASSERT_FALSE(slow.unsynced.empty());
  const Index index = slow.state().log.last_index();
  const Message replacing{NodeId(2), NodeId(3), slow.state().term + 1, cluster.node(2).disk.directory,
                          AppendRequest{{*slow.state().log.term_at(index - 1), index - 1},
                                        slow.state().log.commit(),
                                        {{slow.state().term + 1, index, EntryKind::kNoop, Bytes()}}}};
  cluster.step(3, MessageReceived{replacing});
  ASSERT_EQ(slow.state().log.last_id().term, replacing.term);
  cluster.step(3, Persisted{first});
  EXPECT_LT(slow.state().log.durable(), index);
}

TEST_F(Replication, ProposalsBeyondTheBoundAreRejected) {
  Config config;
  config.uncommitted_bytes_max = 10;
  Cluster small({1, 2, 3}, config);
  small.start_all();
  small.elect();
  small.isolate(1);
  small.propose(1, "longer than ten bytes");
  small.propose(1, "b");
  ASSERT_EQ(small.node(1).rejections.size(), 1u);
  EXPECT_EQ(small.node(1).rejections[0].status.code(), Code::kResourceExhausted);
}

TEST_F(Replication, FlowControlBoundsWhatIsUnderWay) {
  Config config;
  config.append_bytes_max = 4;
  config.inflight_appends_max = 2;
  Cluster small({1, 2}, config);
  small.start_all();
  small.elect();
  small.network.clear();
  Propose event;
  for (int i = 0; i < 10; ++i) event.batch.push_back({0, Bytes::copy_of("word")});
  small.step(1, std::move(event));
  size_t appends = 0;
  for (const Message& message : small.network) appends += std::holds_alternative<AppendRequest>(message.body);
  EXPECT_EQ(appends, 2u);
  small.settle();
  EXPECT_EQ(small.node(2).disk.commands.size(), 10u);
}

TEST_F(Replication, AppendThatContradictsCommittedEntriesIsVoid) {
  cluster.propose(1, "a");
  cluster.settle();
  const CoreState& state = cluster.node(2).state();
  const Index index = state.log.commit();
  const EntryId before{*state.log.term_at(index - 1), index - 1};
  cluster.step(2, MessageReceived{
                      {NodeId(3), NodeId(2), state.term + 7, cluster.node(3).disk.directory,
                       AppendRequest{before, index, {{state.term + 7, index, EntryKind::kNoop, Bytes()}}}}});
  EXPECT_EQ(cluster.node(2).state().log.commit(), index);
  EXPECT_EQ(cluster.node(2).state().log.at(index).payload.view(), "a");
}

struct ReadIndex : Replication {};

TEST_F(ReadIndex, LeaderAnswersAfterARound) {
  cluster.propose(1, "a");
  cluster.settle();
  cluster.step(1, Read{7});
  EXPECT_TRUE(cluster.node(1).reads.empty());
  cluster.settle();
  ASSERT_EQ(cluster.node(1).reads.size(), 1u);
  EXPECT_TRUE(cluster.node(1).reads[0].status.is_ok());
  EXPECT_EQ(cluster.node(1).reads[0].index, cluster.node(1).core->commit());
}

TEST_F(ReadIndex, SingleNodeAnswersAtOnce) {
  Cluster one({1});
  one.start(1);
  one.settle();
  one.step(1, Read{7});
  EXPECT_EQ(one.node(1).reads.size(), 1u);
}

TEST_F(ReadIndex, DeposedLeaderDoesNotAnswer) {
  cluster.isolate(1);
  cluster.step(1, Read{7});
  cluster.tick_all(60);
  ASSERT_EQ(cluster.node(1).reads.size(), 1u);
  EXPECT_EQ(cluster.node(1).reads[0].status.code(), Code::kUnavailable);
}

TEST_F(ReadIndex, AnswersToAnEarlierRoundProveNothing) {
  cluster.step(1, Read{1});
  while (!cluster.network.empty() && std::holds_alternative<Heartbeat>(cluster.network.front().body))
    cluster.deliver_one();
  cluster.isolate(1);  // the replies to round one are under way
  cluster.step(1, Read{2});
  cluster.heal();
  cluster.lose = [](const Message& message) { return std::holds_alternative<Heartbeat>(message.body); };
  cluster.settle();
  ASSERT_EQ(cluster.node(1).reads.size(), 1u);
  EXPECT_EQ(cluster.node(1).reads[0].id, 1u);
}

TEST_F(ReadIndex, FollowerAsksTheLeader) {
  cluster.propose(1, "a");
  cluster.settle();
  cluster.step(2, Read{9});
  cluster.settle();
  ASSERT_EQ(cluster.node(2).reads.size(), 1u);
  EXPECT_EQ(cluster.node(2).reads[0].id, 9u);
  EXPECT_EQ(cluster.node(2).reads[0].index, cluster.node(1).core->commit());
}

TEST_F(ReadIndex, FollowerIsRefusedPromptlyWhenTheLeaderIsGone) {
  cluster.step(2, Read{9});
  cluster.step(2, LeaderGone{NodeId(1), cluster.node(2).state().term});
  ASSERT_EQ(cluster.node(2).reads.size(), 1u);
  EXPECT_EQ(cluster.node(2).reads[0].status.code(), Code::kUnavailable);
}

TEST_F(ReadIndex, NewLeaderAnswersOnlyAfterItsFirstCommit) {
  cluster.crash(1);
  cluster.lose = [](const Message& message) { return std::holds_alternative<AppendReply>(message.body); };
  for (int i = 0; i < 60 && !cluster.node(2).leads() && !cluster.node(3).leads(); ++i) cluster.tick_all();
  Node* leader = cluster.leader();
  ASSERT_NE(leader, nullptr);
  leader->core->step(Read{3});
  cluster.tick_all(2);
  EXPECT_TRUE(leader->reads.empty());
  cluster.lose = nullptr;
  cluster.tick_all(30);
  ASSERT_EQ(leader->reads.size(), 1u);
  EXPECT_TRUE(leader->reads[0].status.is_ok());
}

}  // namespace
}  // namespace rallypoint::raft
