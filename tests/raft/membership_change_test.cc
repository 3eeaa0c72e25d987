// raft/membership_change.h: who votes, how that changes, and how a member comes back that lost its disk.
#include "raft/membership_change.h"

#include <gtest/gtest.h>

#include "tests/raft/support/cluster.h"

namespace rallypoint::raft {
namespace {

using test::Cluster;
using test::Node;
using Kind = ChangeMembership::Kind;

struct MembershipChange : testing::Test {
  Cluster cluster{{1, 2, 3}};
  uint64_t tags = 0;
  void SetUp() override {
    cluster.start_all();
    ASSERT_EQ(cluster.elect()->id, NodeId(1));
    cluster.propose(1, "a");
    cluster.settle();
  }
  /// Asks node `at`; returns what it answered after all settled.
  Status change(uint64_t at, std::vector<ChangeMembership::Change> changes) {
    const uint64_t tag = ++tags;
    cluster.step(at, ChangeMembership{tag, std::move(changes)});
    cluster.settle();
    for (const MembershipResult& result : cluster.node(at).membership_results)
      if (result.tag == tag) return result.status;
    return Status(Code::kUnknown, "no answer");
  }
  ChangeMembership::Change add(uint64_t id) {
    return {Kind::kAddLearner, NodeId(id), cluster.node(id).disk.directory};
  }
};

TEST_F(MembershipChange, LearnerFollowsButDoesNotVote) {
  cluster.node(4);
  cluster.start(4);
  EXPECT_TRUE(change(1, {add(4)}).is_ok());
  EXPECT_EQ(cluster.commands(4), "a");
  cluster.crash(2);
  cluster.crash(3);
  cluster.propose(1, "b");
  cluster.tick_all(3);
  EXPECT_EQ(cluster.commands(1), "a") << "the learner is no part of a majority";
}

TEST_F(MembershipChange, LearnerInSyncIsPromoted) {
  cluster.node(4);
  cluster.start(4);
  ASSERT_TRUE(change(1, {add(4)}).is_ok());
  EXPECT_TRUE(change(1, {{Kind::kPromote, NodeId(4)}}).is_ok());
  EXPECT_EQ(cluster.node(4).core->membership().voters.size(), 4u);
}

TEST_F(MembershipChange, LearnerThatIsBehindIsNotPromoted) {
  cluster.node(4);
  ASSERT_TRUE(change(1, {add(4)}).is_ok());
  const Status status = change(1, {{Kind::kPromote, NodeId(4)}});
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_EQ(status.message(), "etcdserver: can only promote a learner member which is in sync with leader");
}

TEST_F(MembershipChange, UnboundLearnerIsBoundByItsPromotion) {
  cluster.node(4);
  cluster.start(4);
  ASSERT_TRUE(change(1, {{Kind::kAddLearner, NodeId(4)}}).is_ok());
  ASSERT_TRUE(change(1, {{Kind::kPromote, NodeId(4)}}).is_ok());
  EXPECT_EQ(cluster.node(4).core->membership().voters.back().directory, cluster.node(4).disk.directory);
}

TEST_F(MembershipChange, NewVoterIsPromotedAndBoundOnceItCaughtUp) {
  cluster.node(4);
  ASSERT_TRUE(change(1, {{Kind::kAddVoter, NodeId(4)}}).is_ok());
  cluster.tick_all(30);
  EXPECT_EQ(cluster.node(1).core->membership().voters.size(), 3u) << "it has not started: it is in no majority";
  cluster.start(4);
  cluster.tick_all(10);
  const Membership& membership = cluster.node(4).core->membership();
  const Member* member = find_in(membership.voters, NodeId(4));
  ASSERT_NE(member, nullptr);
  EXPECT_EQ(member->directory, cluster.node(4).disk.directory);
  EXPECT_TRUE(membership.returning.empty());
}

TEST_F(MembershipChange, NewVoterIsPromotedByTheNextLeaderToo) {
  cluster.node(4);
  ASSERT_TRUE(change(1, {{Kind::kAddVoter, NodeId(4)}}).is_ok());
  cluster.crash(1);
  ASSERT_NE(cluster.elect(), nullptr);
  cluster.start(4);
  cluster.tick_all(30);
  EXPECT_NE(find_in(cluster.leader()->core->membership().voters, NodeId(4)), nullptr);
}

TEST_F(MembershipChange, NewVoterThatNeverStartedIsRemovedByTheOldMajority) {
  cluster.node(4);
  ASSERT_TRUE(change(1, {{Kind::kAddVoter, NodeId(4)}}).is_ok());
  cluster.crash(3);
  EXPECT_TRUE(change(1, {{Kind::kRemove, NodeId(4)}}).is_ok()) << "two of three suffice";
  EXPECT_TRUE(cluster.node(1).core->membership().returning.empty());
}

// The disk of a member that is to vote is replaced before it has caught up: only the one that caught up is bound.
TEST_F(MembershipChange, NewVoterThatChangesItsDiskIsBoundToTheOneThatCaughtUp) {
  cluster.node(4);
  cluster.start(4);
  cluster.lose = [](const Message& message) {
    return message.to == NodeId(4) && std::holds_alternative<AppendRequest>(message.body);
  };
  ASSERT_TRUE(change(1, {{Kind::kAddVoter, NodeId(4)}}).is_ok());
  cluster.tick_all(5);
  cluster.crash(4);
  cluster.wipe(4);
  cluster.lose = nullptr;
  cluster.start(4);
  cluster.tick_all(30);
  const Member* member = find_in(cluster.node(1).core->membership().voters, NodeId(4));
  ASSERT_NE(member, nullptr);
  EXPECT_EQ(member->directory, cluster.node(4).disk.directory);
}

TEST_F(MembershipChange, OnlyOneAtATime) {
  cluster.isolate(1);
  cluster.step(1, ChangeMembership{1, {{Kind::kRemove, NodeId(3)}}});
  cluster.step(1, ChangeMembership{2, {{Kind::kRemove, NodeId(2)}}});
  ASSERT_EQ(cluster.node(1).membership_results.size(), 1u);
  EXPECT_EQ(cluster.node(1).membership_results[0].tag, 2u);
  EXPECT_EQ(cluster.node(1).membership_results[0].status.code(), Code::kFailedPrecondition);
}

TEST_F(MembershipChange, UncommittedMembershipIsRolledBackWithItsEntry) {
  cluster.isolate(1);
  cluster.step(1, ChangeMembership{1, {{Kind::kRemove, NodeId(3)}}});
  EXPECT_EQ(cluster.node(1).core->membership().voters.size(), 2u);
  cluster.tick_all(60);
  cluster.heal();
  cluster.tick_all(30);
  EXPECT_EQ(cluster.node(1).core->membership().voters.size(), 3u);
  ASSERT_EQ(cluster.node(1).membership_results.size(), 1u);
  EXPECT_EQ(cluster.node(1).membership_results[0].status.code(), Code::kOutcomeUnknown);
}

TEST_F(MembershipChange, RemovedLeaderStepsDownOnceCommitted) {
  EXPECT_TRUE(change(1, {{Kind::kRemove, NodeId(1)}}).is_ok());
  EXPECT_FALSE(cluster.node(1).leads());
  ASSERT_NE(cluster.elect(3), nullptr) << "its best follower was told to campaign";
  EXPECT_NE(cluster.leader()->id, NodeId(1));
}

TEST_F(MembershipChange, SeveralVotersChangeThroughJointConsensus) {
  for (uint64_t id : {4, 5}) {
    cluster.node(id);
    cluster.start(id);
    ASSERT_TRUE(change(1, {add(id)}).is_ok());
  }
  EXPECT_TRUE(change(1, {{Kind::kPromote, NodeId(4)},
                         {Kind::kPromote, NodeId(5)},
                         {Kind::kRemove, NodeId(2)},
                         {Kind::kDemote, NodeId(3)}})
                  .is_ok());
  const Membership& membership = cluster.node(5).core->membership();
  EXPECT_TRUE(membership.outgoing.empty());
  ASSERT_EQ(membership.voters.size(), 3u);
  EXPECT_EQ(membership.voters[1].id, NodeId(4));
  ASSERT_EQ(membership.learners.size(), 1u);
  EXPECT_EQ(membership.learners[0].id, NodeId(3));
}

TEST_F(MembershipChange, JointPhaseNeedsBothMajorities) {
  for (uint64_t id : {4, 5}) {
    cluster.node(id);
    cluster.start(id);
    ASSERT_TRUE(change(1, {add(id)}).is_ok());
  }
  cluster.cut(1, 2);
  cluster.cut(1, 3);
  const Status status = change(1, {{Kind::kPromote, NodeId(4)},
                                   {Kind::kPromote, NodeId(5)},
                                   {Kind::kRemove, NodeId(2)},
                                   {Kind::kRemove, NodeId(3)}});
  EXPECT_EQ(status.code(), Code::kUnknown) << "1, 4, 5 are all of the new, but one of three of the old";
  cluster.heal();
  cluster.tick_all(15);
  EXPECT_TRUE(cluster.node(1).membership_results.back().status.is_ok());
  EXPECT_EQ(cluster.node(1).core->membership().voters.size(), 3u);
}

TEST_F(MembershipChange, NewLeaderLeavesTheJointPhaseOfItsPredecessor) {
  for (uint64_t id : {4, 5}) {
    cluster.node(id);
    cluster.start(id);
    ASSERT_TRUE(change(1, {add(id)}).is_ok());
  }
  cluster.lose = [](const Message& message) { return std::holds_alternative<AppendReply>(message.body); };
  (void)change(1, {{Kind::kPromote, NodeId(4)}, {Kind::kPromote, NodeId(5)}});
  cluster.crash(1);
  cluster.lose = nullptr;
  ASSERT_NE(cluster.elect(), nullptr);
  cluster.tick_all(5);
  EXPECT_TRUE(cluster.leader()->core->membership().outgoing.empty());
  EXPECT_EQ(cluster.leader()->core->membership().voters.size(), 5u);
}

TEST_F(MembershipChange, MemberWithAWipedDiskComesBackByItself) {
  cluster.crash(3);
  cluster.propose(1, "b");
  cluster.settle();
  cluster.wipe(3);
  cluster.start(3);
  cluster.tick_all(10);
  EXPECT_EQ(cluster.commands(3), "a b");
  const Member* member = find_in(cluster.node(1).core->membership().voters, NodeId(3));
  ASSERT_NE(member, nullptr) << "it votes again";
  EXPECT_EQ(member->directory, cluster.node(3).disk.directory);
  EXPECT_TRUE(cluster.node(1).core->membership().returning.empty());
}

TEST_F(MembershipChange, WipedMemberStaysOutWhileTheOthersAreNoMajority) {
  cluster.crash(3);
  cluster.wipe(3);
  cluster.crash(2);
  cluster.start(3);
  cluster.tick_all(60);
  cluster.start(2);
  cluster.tick_all(60);
  ASSERT_NE(cluster.elect(), nullptr);
  cluster.tick_all(20);
  EXPECT_EQ(cluster.commands(3), "a");
  EXPECT_NE(find_in(cluster.leader()->core->membership().voters, NodeId(3)), nullptr);
}

TEST_F(MembershipChange, ReturningMemberIsPromotedByTheNextLeaderToo) {
  cluster.crash(3);
  cluster.wipe(3);
  bool lose = true;
  cluster.lose = [&](const Message& message) {  // it never catches up under the first leader
    return lose && message.to == NodeId(3) && std::holds_alternative<AppendRequest>(message.body);
  };
  cluster.start(3);
  cluster.tick_all(5);
  ASSERT_EQ(cluster.node(1).core->membership().returning.size(), 1u);
  cluster.isolate(1);
  cluster.tick_all(60);
  cluster.heal();
  lose = false;
  cluster.step(1, TransferLeadership{NodeId(2)});
  ASSERT_NE(cluster.elect(), nullptr);
  cluster.tick_all(30);
  EXPECT_NE(find_in(cluster.leader()->core->membership().voters, NodeId(3)), nullptr);
}

TEST_F(MembershipChange, WipedDiskOfAPairComesBack) {
  Cluster pair({1, 2});
  pair.start_all();
  ASSERT_NE(pair.elect(), nullptr);
  pair.propose(1, "a");
  pair.settle();
  pair.crash(2);
  pair.wipe(2);
  pair.start(2);
  pair.tick_all(10);
  EXPECT_EQ(pair.commands(2), "a");
  EXPECT_EQ(pair.node(1).core->membership().voters.size(), 2u);
}

// Found by Random.ThreeNodesKeepAllPromises: 1 removes itself and demotes 2, only 3 is to stay. 1 and 2 hold
// the entry that says so, 3 does not; 3 can't win with its older log, and 1 and 2 are no voters any more by
// their own logs.
TEST_F(MembershipChange, LeavingVoterCampaignsIfItsLogIsNeeded) {
  cluster.lose = [](const Message& message) {
    const auto* append = std::get_if<AppendRequest>(&message.body);
    if (append == nullptr || message.to != NodeId(3)) return false;
    for (const Entry& entry : append->entries)
      if (entry.kind == EntryKind::kMembership && decode_membership(entry.payload)->outgoing.empty())
        return true;
    return false;
  };
  (void)change(1, {{Kind::kRemove, NodeId(1)}, {Kind::kDemote, NodeId(2)}});
  ASSERT_TRUE(is_joint(cluster.node(3).core->membership()));
  ASSERT_FALSE(is_voter(cluster.node(2).core->membership(), NodeId(2)));
  cluster.restart(1);
  cluster.lose = nullptr;
  cluster.tick_all(100);
  EXPECT_TRUE(cluster.node(3).leads());
}

// Found by the simulation (a disk wiped in a cluster of four whose leader had just removed itself): after a
// restart the commit index is forgotten, so the membership before the newest is not that of the commit index,
// where nothing was bound yet.
TEST_F(MembershipChange, LeavingVoterCampaignsThoughItForgotWhatIsCommitted) {
  Cluster four({1, 2, 3, 4});
  four.start_all();
  ASSERT_EQ(four.elect()->id, NodeId(1));
  four.lose = [](const Message& message) {
    const auto* append = std::get_if<AppendRequest>(&message.body);
    return append != nullptr && !append->entries.empty() && message.to != NodeId(3);
  };
  four.step(1, ChangeMembership{1, {{Kind::kRemove, NodeId(1)}}});
  four.settle();
  ASSERT_FALSE(is_voter(four.node(1).core->membership(), NodeId(1)));
  four.lose = nullptr;
  four.crash(3);  // for good: only 1 is left of those who hold the entry
  four.crash(1);
  four.node(1).disk.hard_state.commit = four.node(1).disk.applied = Index();  // back to the last flush
  four.node(1).disk.commands.clear();
  four.start(1);
  four.tick_all(150);
  ASSERT_NE(four.leader(), nullptr);
  EXPECT_TRUE(is_voter(four.leader()->core->membership(), four.leader()->id));
}

// Found by the simulation: a disk was wiped twice in a row, and a message from the one between arrived last.
// The leader bound the dead disk; the living one, by its own log still bound, was no longer heard nor told.
TEST_F(MembershipChange, LateWordFromADeadDiskKeepsNobodyOut) {
  const DirectoryId dead(0xdead);
  cluster.step(1, MessageReceived{{NodeId(3), NodeId(1), cluster.node(1).core->soft_state().term, dead,
                                   HeartbeatReply{0, Index(), true}}});
  cluster.tick_all(60);
  const Member* member = find_in(cluster.node(1).core->membership().voters, NodeId(3));
  ASSERT_NE(member, nullptr) << "it votes again";
  EXPECT_EQ(member->directory, cluster.node(3).disk.directory);
}

TEST_F(MembershipChange, IsRefusedIfItsMajorityDoesNotAnswer) {
  cluster.crash(3);
  cluster.tick_all(25);
  EXPECT_EQ(change(1, {{Kind::kRemove, NodeId(2)}}).code(), Code::kUnavailable);
  EXPECT_TRUE(change(1, {{Kind::kRemove, NodeId(3)}}).is_ok());
}

TEST(ApplyChanges, RefusesWhatMakesNoSense) {
  const Membership current{{{NodeId(1), DirectoryId(11)}}, {}, {{NodeId(2), DirectoryId(12)}}};
  auto code = [&](ChangeMembership::Change change) {
    return membership_change::apply_changes(current, {change}, {}).status().code();
  };
  EXPECT_EQ(code({Kind::kAddLearner, NodeId(1)}), Code::kAlreadyExists);
  EXPECT_EQ(code({Kind::kPromote, NodeId(3)}), Code::kFailedPrecondition);
  EXPECT_EQ(code({Kind::kDemote, NodeId(2)}), Code::kFailedPrecondition);
  EXPECT_EQ(code({Kind::kRemove, NodeId(9)}), Code::kNotFound);
  EXPECT_EQ(code({Kind::kRemove, NodeId(1)}), Code::kInvalidArgument);
  EXPECT_EQ(code({Kind::kPromote, NodeId(2)}), Code::kOk);
}

}  // namespace
}  // namespace rallypoint::raft
