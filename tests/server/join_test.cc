// server/join.h: what a node with an empty directory makes of what others say.
#include "server/join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace rallypoint::server {
namespace {

using testing::HasSubstr;

Url url(const std::string& text) { return *Url::parse(text); }

struct Join : testing::Test {
  Join() {
    options.name = "n3";
    options.initial_cluster = {{"n1", {url("http://h1:1")}}, {"n2", {url("http://h2:1")}}, {"n3", {url("http://h3:1")}}};
    options.initial_cluster_is_new = false;
  }
  /// The cluster as a member at log index `applied` knows it.
  static pb::ClusterAnswer cluster(uint64_t applied, std::vector<uint64_t> ids) {
    pb::ClusterAnswer answer;
    answer.set_cluster_id(77);
    answer.set_applied(applied);
    for (uint64_t id : ids) {
      auto* member = answer.mutable_info()->add_members();
      member->set_id(id);
      member->add_peer_urls("http://h" + std::to_string(id) + ":1");
    }
    return answer;
  }
  JoinTools tools() {
    return {[this](const HostPort& endpoint, Duration) -> Result<Bytes> {
              ++asked;
              auto it = says.find(endpoint);
              if (it == says.end()) return Status::unavailable(endpoint + ": Connection refused");
              return Bytes(it->second.SerializeAsString());
            },
            [this](Duration) {
              ++pauses;
              if (on_pause) on_pause();
            }};
  }

  Options options;
  std::map<HostPort, pb::ClusterAnswer> says;
  std::function<void()> on_pause;
  int asked = 0, pauses = 0;
};

TEST_F(Join, TheMemberIsFoundByItsPeerUrls) {
  says["h1:1"] = cluster(5, {1, 2, 3});
  auto joined = join_cluster(options, tools());
  ASSERT_TRUE(joined.is_ok()) << joined.status();
  EXPECT_EQ(joined->cluster_id, 77u);
  EXPECT_EQ(joined->member, NodeId(3));
  EXPECT_EQ(joined->info.members_size(), 3);
  EXPECT_EQ(pauses, 0);
}

TEST_F(Join, WhoKnowsMostIsBelieved) {
  says["h1:1"] = cluster(4, {1, 2});
  says["h2:1"] = cluster(5, {1, 2, 3});
  EXPECT_TRUE(join_cluster(options, tools()).is_ok());
}

TEST_F(Join, MembersThatLagBehindAreAskedAgain) {
  says["h1:1"] = cluster(4, {1, 2});
  on_pause = [&] { says["h1:1"] = cluster(5, {1, 2, 3}); };
  EXPECT_TRUE(join_cluster(options, tools()).is_ok());
  EXPECT_EQ(pauses, 1);
}

TEST_F(Join, WhatDoesNotAgreeIsNamed) {
  says["h1:1"] = cluster(5, {1, 2});
  EXPECT_THAT(join_cluster(options, tools()).status().message(), HasSubstr("no member has this node's peer URLs http://h3:1, add it first"));
  says["h1:1"] = cluster(5, {1, 2, 3, 4});
  EXPECT_THAT(join_cluster(options, tools()).status().message(), HasSubstr("member count is unequal, --initial-cluster lists 3; the cluster has 4"));
  says["h1:1"] = cluster(5, {1, 3, 4});
  EXPECT_THAT(join_cluster(options, tools()).status().message(), HasSubstr("nobody has those of n2 in --initial-cluster, http://h2:1"));
}

TEST_F(Join, WithoutAnAnswerItGivesUpAndSaysWhomItAsked) {
  const Status status = join_cluster(options, tools()).status();
  EXPECT_THAT(status.message(), HasSubstr("cannot fetch cluster info from peer urls"));
  EXPECT_THAT(status.message(), HasSubstr("h1:1: Connection refused; h2:1: Connection refused"));
  EXPECT_LT(asked, 100);
}

TEST_F(Join, AClusterThatIsNotFoundedYetCanNotBeJoined) {
  says["h1:1"] = cluster(0, {1, 2, 3});
  EXPECT_THAT(join_cluster(options, tools()).status().message(), HasSubstr("have not founded their cluster yet"));
}

TEST_F(Join, AFirstStartFindsNobodyOrBlankMembers) {
  auto founded = find_founded(options, tools());
  ASSERT_TRUE(founded.is_ok());
  EXPECT_FALSE(founded->has_value());
  says["h2:1"] = cluster(0, {1, 2, 3});
  founded = find_founded(options, tools());
  ASSERT_TRUE(founded.is_ok());
  EXPECT_FALSE(founded->has_value());
  EXPECT_EQ(pauses, 0) << "the start waits for it";
}

TEST_F(Join, ALostDirectoryIsRecognisedWhateverElseTheOptionsSay) {
  says["h2:1"] = cluster(9, {2, 3, 4, 5});
  auto founded = find_founded(options, tools());
  ASSERT_TRUE(founded.is_ok()) << founded.status();
  ASSERT_TRUE(founded->has_value());
  EXPECT_EQ((*founded)->member, NodeId(3));
}

TEST_F(Join, AClusterThatDoesNotCountTheNodeInIsNotFoundedAgain) {
  says["h2:1"] = cluster(9, {2, 4, 5});
  EXPECT_THAT(find_founded(options, tools()).status().message(), HasSubstr("does not count this node in"));
}

TEST_F(Join, AMalformedAnswerIsNoAnswer) {
  JoinTools bad = tools();
  bad.ask = [](const HostPort&, Duration) -> Result<Bytes> { return Bytes(std::string("\xff\xff")); };
  EXPECT_THAT(join_cluster(options, bad).status().message(), HasSubstr("its answer is malformed"));
  EXPECT_FALSE(find_founded(options, bad)->has_value());
}

}  // namespace
}  // namespace rallypoint::server
