// server/cluster_info.h: by which rules the membership may change, and what a change leaves behind.
#include "server/cluster_info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rallypoint::server {
namespace {

using Kind = ChangeMember::Kind;
using CoreKind = raft::ChangeMembership::Kind;

/// Voters 1, 2, 3 at http://h<id>:2380, all started.
struct ClusterInfoRules : testing::Test {
  ClusterInfoRules() {
    for (uint64_t id : {1, 2, 3}) {
      raft::put_in(membership.voters, {NodeId(id), DirectoryId(id * 10)});
      auto* member = info.add_members();
      member->set_id(id);
      member->add_peer_urls("http://h" + std::to_string(id) + ":2380");
      started.push_back(NodeId(id));
    }
    membership.context = encode(info);
  }
  pb::MemberChange change(Kind kind, uint64_t id, std::vector<std::string> urls = {}) {
    pb::MemberChange out;
    out.mutable_by()->set_node(1);
    out.mutable_by()->set_incarnation(5);
    out.mutable_by()->set_sequence(++sequence);
    out.set_kind(static_cast<uint32_t>(kind));
    out.set_id(id);
    for (std::string& url : urls) out.add_peer_urls(std::move(url));
    return out;
  }
  Result<raft::ChangeMembership> plan(const pb::MemberChange& change) const {
    return plan_change(change, membership, [&](NodeId id) { return std::find(started.begin(), started.end(), id) != started.end(); });
  }
  std::string refusal(const pb::MemberChange& change) const {
    auto planned = plan(change);
    return planned.is_ok() ? "planned" : std::string(code_name(planned.status().code())) + ": " + planned.status().message();
  }
  /// As if the change was made.
  void make(const raft::ChangeMembership& planned) {
    for (const auto& item : planned.changes) {
      if (item.kind == CoreKind::kRemove) raft::drop_from(membership.voters, item.id), raft::drop_from(membership.learners, item.id);
      if (item.kind == CoreKind::kAddVoter) raft::put_in(membership.learners, {item.id, {}}), membership.returning.push_back(item.id);
      if (item.kind == CoreKind::kAddLearner) raft::put_in(membership.learners, {item.id, {}});
    }
    membership.context = planned.context;
  }

  raft::Membership membership;
  pb::ClusterInfo info;
  std::vector<NodeId> started;
  uint64_t sequence = 0;
};

TEST_F(ClusterInfoRules, AVoterIsAddedAsOneThatPromotesItself) {
  auto planned = plan(change(Kind::kAdd, 4, {"http://h4:2380"}));
  ASSERT_TRUE(planned.is_ok()) << planned.status();
  ASSERT_EQ(planned->changes.size(), 1u);
  EXPECT_EQ(planned->changes[0].kind, CoreKind::kAddVoter);
  make(*planned);
  EXPECT_TRUE(will_vote(membership, NodeId(4)));
  EXPECT_FALSE(is_learner_by_choice(membership, NodeId(4)));
  EXPECT_EQ(cluster_info_of(membership).members(3).peer_urls(0), "http://h4:2380");
}

TEST_F(ClusterInfoRules, PeerUrlsBelongToOneMember) {
  EXPECT_EQ(refusal(change(Kind::kAdd, 4, {"http://h9:1", "http://h2:2380"})), "FailedPrecondition: etcdserver: Peer URLs already exists");
  EXPECT_EQ(refusal(change(Kind::kUpdate, 1, {"http://h2:2380"})), "FailedPrecondition: etcdserver: Peer URLs already exists");
  EXPECT_EQ(refusal(change(Kind::kUpdate, 1, {"http://h1:2380"})), "planned") << "its own";
  EXPECT_EQ(refusal(change(Kind::kAdd, 4)), "InvalidArgument: etcdserver: given member URLs are invalid");
}

TEST_F(ClusterInfoRules, OneLearnerByChoiceAtATime) {
  pb::MemberChange learner = change(Kind::kAdd, 4, {"http://h4:2380"});
  learner.set_learner(true);
  auto planned = plan(learner);
  ASSERT_TRUE(planned.is_ok());
  EXPECT_EQ(planned->changes[0].kind, CoreKind::kAddLearner);
  make(*planned);
  EXPECT_TRUE(is_learner_by_choice(membership, NodeId(4)));
  learner = change(Kind::kAdd, 5, {"http://h5:2380"});
  learner.set_learner(true);
  EXPECT_EQ(refusal(learner), "FailedPrecondition: etcdserver: too many learner members in cluster");
  EXPECT_EQ(refusal(change(Kind::kAdd, 6, {"http://h6:2380"})), "planned") << "voters may come";
}

TEST_F(ClusterInfoRules, StartedMembersMustBeAMajorityAfterwards) {
  make(*plan(change(Kind::kAdd, 4, {"http://h4:2380"})));
  make(*plan(change(Kind::kAdd, 5, {"http://h5:2380"})));
  const std::string few = "FailedPrecondition: etcdserver: re-configuration failed due to not enough started members";
  EXPECT_EQ(refusal(change(Kind::kAdd, 6, {"http://h6:2380"})), few) << "three of six";
  started.pop_back();
  EXPECT_EQ(refusal(change(Kind::kRemove, 1)), few) << "one of four";
  EXPECT_EQ(refusal(change(Kind::kRemove, 3)), few) << "two of four are no majority either";
  started.push_back(NodeId(4));
  EXPECT_EQ(refusal(change(Kind::kRemove, 3)), "planned");
}

TEST_F(ClusterInfoRules, AClusterOfOneMayGrowButNotVanish) {
  raft::drop_from(membership.voters, NodeId(2));
  raft::drop_from(membership.voters, NodeId(3));
  EXPECT_EQ(refusal(change(Kind::kRemove, 1)), "FailedPrecondition: etcdserver: re-configuration failed due to not enough started members");
  make(*plan(change(Kind::kAdd, 4, {"http://h4:2380"})));
  EXPECT_EQ(refusal(change(Kind::kAdd, 5, {"http://h5:2380"})),
            "FailedPrecondition: etcdserver: re-configuration failed due to not enough started members");
  EXPECT_EQ(refusal(change(Kind::kRemove, 4)), "planned");
}

TEST_F(ClusterInfoRules, ARemovedIdIsSpentForEver) {
  const pb::MemberChange removal = change(Kind::kRemove, 3);
  make(*plan(removal));
  EXPECT_TRUE(was_removed(cluster_info_of(membership), NodeId(3)));
  EXPECT_EQ(cluster_info_of(membership).members_size(), 2);
  EXPECT_EQ(refusal(change(Kind::kRemove, 3)), "NotFound: etcdserver: member not found");
  EXPECT_EQ(refusal(change(Kind::kAdd, 3, {"http://h3:2380"})), "FailedPrecondition: etcdserver: member ID already exist");
  EXPECT_EQ(refusal(change(Kind::kUpdate, 9, {"http://h9:2380"})), "NotFound: etcdserver: member not found");
}

// etcd#21694: an update made a voter of a learner's entry.
TEST_F(ClusterInfoRules, AnUpdateChangesNothingButTheUrls) {
  const pb::ClusterInfo before = cluster_info_of(membership);
  auto planned = plan(change(Kind::kUpdate, 2, {"http://other:2380"}));
  ASSERT_TRUE(planned.is_ok());
  ASSERT_EQ(planned->changes.size(), 1u);
  EXPECT_EQ(planned->changes[0].kind, CoreKind::kSetContext);
  make(*planned);
  pb::ClusterInfo after = cluster_info_of(membership);
  EXPECT_EQ(after.members(1).peer_urls(0), "http://other:2380");
  after.mutable_members(1)->set_peer_urls(0, "http://h2:2380");
  after.clear_recent();
  EXPECT_EQ(after.SerializeAsString(), before.SerializeAsString());
}

TEST_F(ClusterInfoRules, OnlyLearnersArePromoted) {
  EXPECT_EQ(refusal(change(Kind::kPromote, 1)), "FailedPrecondition: etcdserver: can only promote a learner member");
  EXPECT_EQ(refusal(change(Kind::kPromote, 9)), "NotFound: etcdserver: member not found");
  raft::put_in(membership.learners, {NodeId(4), {}});
  EXPECT_EQ(refusal(change(Kind::kPromote, 4)), "planned") << "whether it is in sync the core knows";
}

TEST_F(ClusterInfoRules, ARequestIsKnownByItsNameOnceItTookEffect) {
  const pb::MemberChange first = change(Kind::kUpdate, 2, {"http://a:1"});
  EXPECT_FALSE(has_taken_effect(cluster_info_of(membership), first.by()));
  make(*plan(first));
  for (int i = 0; i < 31; ++i) make(*plan(change(Kind::kUpdate, 2, {"http://b:" + std::to_string(i)})));
  EXPECT_TRUE(has_taken_effect(cluster_info_of(membership), first.by()));
  make(*plan(change(Kind::kUpdate, 2, {"http://c:1"})));
  EXPECT_FALSE(has_taken_effect(cluster_info_of(membership), first.by())) << "the list is bounded";
  pb::ChangeId other = change(Kind::kUpdate, 2).by();
  EXPECT_FALSE(has_taken_effect(cluster_info_of(membership), other));
}

TEST_F(ClusterInfoRules, TheIdOfANewMemberIsTheSameAtEveryTry) {
  const pb::MemberChange once = change(Kind::kAdd, 0, {"http://h4:2380"});
  EXPECT_EQ(added_member_id(once), added_member_id(once));
  EXPECT_NE(added_member_id(once), added_member_id(change(Kind::kAdd, 0, {"http://h4:2380"}))) << "added anew: a new member";
}

TEST(ClusterInfo, AMalformedContextIsAnEmptyList) {
  raft::Membership membership;
  membership.context = Bytes(std::string("\xff\xff\xff"));
  EXPECT_EQ(cluster_info_of(membership).members_size(), 0);
}

}  // namespace
}  // namespace rallypoint::server
