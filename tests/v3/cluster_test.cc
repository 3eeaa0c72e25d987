#include "tests/v3/fake_rpc.h"

namespace rallypoint::server {
namespace {

using namespace etcdserverpb;

class V3Cluster : public V3Test {
 protected:
  void add(std::vector<std::string> urls, bool learner = false) {
    MemberAddRequest request;
    for (std::string& url : urls) request.add_peerurls(std::move(url));
    request.set_islearner(learner);
    open("/etcdserverpb.Cluster/MemberAdd", request);
  }
  const uint64_t first = 0x8e9e05c52164694d, second = 0x91bc3c398fb3c146;
};

TEST_F(V3Cluster, TheListNeedsNobody) {
  rpc.node.view.leader_id = 0;
  open("/etcdserverpb.Cluster/MemberList", MemberListRequest());
  const auto list = sent<MemberListResponse>();
  expect_ended(Status::ok());
  EXPECT_TRUE(idle());
  EXPECT_EQ(list.header().cluster_id(), 0xcdf818194e3a8c32);
  EXPECT_EQ(list.header().member_id(), first);
  EXPECT_EQ(list.header().raft_term(), 2u);
  EXPECT_EQ(list.header().revision(), 0);
  ASSERT_EQ(list.members_size(), 2);
  EXPECT_EQ(list.members(0).id(), first);
  EXPECT_EQ(list.members(0).name(), "n1");
  EXPECT_EQ(list.members(0).peerurls(0), "http://127.0.0.1:2380");
  EXPECT_EQ(list.members(0).clienturls(0), "http://127.0.0.1:2379");
  EXPECT_FALSE(list.members(0).islearner());
}

TEST_F(V3Cluster, ALinearizableListAsksAQuorumFirst) {
  MemberListRequest request;
  request.set_linearizable(true);
  open("/etcdserverpb.Cluster/MemberList", request);
  auto read = take<V3Read>();
  EXPECT_EQ(read.kind, V3Read::Kind::kMemberList);
  EXPECT_TRUE(read.linearizable);
  EXPECT_TRUE(rpc.sent.empty());
  rpc.node.view.members.pop_back();  // meanwhile
  reply(read, ResponseHeader());
  EXPECT_EQ(sent<MemberListResponse>().members_size(), 1);
}

TEST_F(V3Cluster, AnAddedMemberIsInTheAnswerThoughNotInThePictureYet) {
  add({"http://127.0.0.1:22380"}, true);
  auto change = take<ChangeMember>();
  EXPECT_EQ(change.kind, ChangeMember::Kind::kAdd);
  EXPECT_TRUE(change.learner);
  EXPECT_EQ(change.peer_urls, std::vector<std::string>{"http://127.0.0.1:22380"});
  reply(change, Member{0x90, "", change.peer_urls, {}, true});
  const auto response = sent<MemberAddResponse>();
  EXPECT_EQ(response.member().id(), 0x90u);
  EXPECT_TRUE(response.member().islearner());
  ASSERT_EQ(response.members_size(), 3);
  EXPECT_EQ(response.members(0).id(), 0x90u) << "in order of id";
}

TEST_F(V3Cluster, AnAddedMemberThatIsInThePictureIsThereOnce) {
  add({"http://127.0.0.1:12380"});
  reply(take<ChangeMember>(), rpc.node.view.members[1]);
  EXPECT_EQ(sent<MemberAddResponse>().members_size(), 2);
}

TEST_F(V3Cluster, UrlsThatAreNoneAreRefused) {
  for (const std::vector<std::string>& urls : std::vector<std::vector<std::string>>{
           {}, {"127.0.0.1:2380"}, {"http://127.0.0.1"}, {"http://127.0.0.1:2380/path"}, {"http://ok:1", "no"}}) {
    rpc.finished.reset();
    add(urls);
    expect_ended(Status::invalid_argument("etcdserver: given member URLs are invalid"));
    EXPECT_TRUE(idle());
  }
}

TEST_F(V3Cluster, ARemovedMemberIsNotInTheAnswer) {
  MemberRemoveRequest request;
  request.set_id(second);
  open("/etcdserverpb.Cluster/MemberRemove", request);
  auto change = take<ChangeMember>();
  EXPECT_EQ(change.kind, ChangeMember::Kind::kRemove);
  EXPECT_EQ(change.id, second);
  reply(change, Status::ok());
  const auto response = sent<MemberRemoveResponse>();
  ASSERT_EQ(response.members_size(), 1);
  EXPECT_EQ(response.members(0).id(), first);
}

TEST_F(V3Cluster, AnUpdatedMemberHasItsNewUrlsInTheAnswer) {
  MemberUpdateRequest request;
  request.set_id(second);
  request.add_peerurls("http://10.0.0.2:2380/");
  open("/etcdserverpb.Cluster/MemberUpdate", request);
  auto change = take<ChangeMember>();
  EXPECT_EQ(change.kind, ChangeMember::Kind::kUpdate);
  EXPECT_EQ(change.id, second);
  reply(change, Status::ok());
  EXPECT_EQ(sent<MemberUpdateResponse>().members(1).peerurls(0), "http://10.0.0.2:2380");
}

TEST_F(V3Cluster, APromotedMemberIsNoLearnerInTheAnswer) {
  rpc.node.view.members[1].is_learner = true;
  MemberPromoteRequest request;
  request.set_id(second);
  open("/etcdserverpb.Cluster/MemberPromote", request);
  auto change = take<ChangeMember>();
  EXPECT_EQ(change.kind, ChangeMember::Kind::kPromote);
  reply(change, Status::ok());
  EXPECT_FALSE(sent<MemberPromoteResponse>().members(1).islearner());
}

TEST_F(V3Cluster, ErrorsReadAsEtcds) {
  struct Case { Status node, client; };
  for (const Case& c : std::vector<Case>{
           {Status::not_found("no member 5"), Status::not_found("etcdserver: member not found")},
           {Status::already_exists("in use"), Status::failed_precondition("etcdserver: Peer URLs already exists")},
           {Status::failed_precondition("etcdserver: can only promote a learner member"),
            Status::failed_precondition("etcdserver: can only promote a learner member")},
           {Status::unavailable("etcdserver: unhealthy cluster"), Status::unavailable("etcdserver: unhealthy cluster")},
           {Status::outcome_unknown("etcdserver: request timed out"), Status::unavailable("etcdserver: request timed out")}}) {
    rpc.finished.reset();
    MemberRemoveRequest request;
    request.set_id(5);
    open("/etcdserverpb.Cluster/MemberRemove", request);
    reply(take<ChangeMember>(), c.node);
    expect_ended(c.client);
  }
}

}  // namespace
}  // namespace rallypoint::server
