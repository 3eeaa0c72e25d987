// server/member_requests.h: a client's change of the membership, from the request to its one answer.
#include "server/member_requests.h"

#include <gtest/gtest.h>

#include "server/cluster_info.h"

namespace rallypoint::server {
namespace {

using Kind = ChangeMember::Kind;

struct MemberRequestsTest : testing::Test {
  MemberRequestsTest() { requests.set_incarnation(7); }
  void ask(Kind kind, uint64_t id = 0) {
    ChangeMember change;
    change.call.token = ++token;
    change.kind = kind;
    change.id = id;
    if (kind == Kind::kAdd) change.peer_urls = {"http://h:1"};
    requests.take(std::move(change), now);
  }
  pb::MemberChange sent() {
    auto due = requests.take_due(now);
    EXPECT_EQ(due.size(), 1u);
    return due.empty() ? pb::MemberChange() : due[0];
  }
  void answer(const pb::MemberChange& change, const Status& status, bool again) {
    pb::MemberChangeAnswer out;
    *out.mutable_by() = change.by();
    out.set_code(static_cast<uint32_t>(status.code()));
    out.set_text(status.message());
    out.set_again(again);
    requests.answered(out, now);
  }
  /// Of the only reply: "OK", "member <id>" or the status.
  std::string outcome() {
    auto replies = requests.take_replies();
    if (replies.size() != 1) return std::to_string(replies.size()) + " replies";
    EXPECT_EQ(replies[0].first.token, token);
    if (const auto* member = std::get_if<Member>(&replies[0].second.body)) return "member " + std::to_string(member->id);
    const Status& status = std::get<Status>(replies[0].second.body);
    return status.is_ok() ? "OK" : status.to_string();
  }
  static pb::ClusterInfo with(const pb::MemberChange& change) {
    pb::ClusterInfo info;
    *info.add_recent() = change.by();
    return info;
  }

  MemberRequests requests{NodeId(1)};
  Instant now{1'000'000};
  uint64_t token = 0;
};

TEST_F(MemberRequestsTest, ItIsAnsweredWhenTheEntryIsApplied) {
  ask(Kind::kAdd);
  const pb::MemberChange change = sent();
  EXPECT_TRUE(requests.take_due(now).empty()) << "under way";
  answer(change, Status::ok(), false);
  EXPECT_EQ(outcome(), "0 replies") << "this node does not have it yet";
  requests.applied(with(change));
  EXPECT_EQ(outcome(), "member " + std::to_string(change.id()));
}

TEST_F(MemberRequestsTest, NothingIsSentBeforeItHasAName) {
  MemberRequests fresh(NodeId(1));
  fresh.take({}, now);
  EXPECT_TRUE(fresh.take_due(now).empty());
  fresh.set_incarnation(3);
  EXPECT_EQ(fresh.take_due(now).size(), 1u);
}

TEST_F(MemberRequestsTest, ANewLeaderIsAskedForTheVerySame) {
  ask(Kind::kAdd);
  const pb::MemberChange first = sent();
  requests.send_again();
  EXPECT_EQ(sent().SerializeAsString(), first.SerializeAsString());
  now = now + Duration::millis(1001);
  EXPECT_EQ(sent().SerializeAsString(), first.SerializeAsString()) << "no word for long";
}

TEST_F(MemberRequestsTest, NotNowIsAskedAgainAndNoIsTheAnswer) {
  ask(Kind::kRemove, 5);
  answer(sent(), Status::unavailable("leadership is being handed over"), true);
  EXPECT_TRUE(requests.take_due(now).empty());
  now = now + Duration::millis(50);
  answer(sent(), Status::not_found("etcdserver: member not found"), false);
  EXPECT_EQ(outcome(), "NotFound: etcdserver: member not found");
  EXPECT_TRUE(requests.empty());
}

TEST_F(MemberRequestsTest, AnUnhealthyClusterIsCalledSoAfterAWhile) {
  ask(Kind::kRemove, 5);
  for (int i = 0; i < 100 && !requests.empty(); ++i) {
    for (const auto& change : requests.take_due(now)) answer(change, Status::unavailable("etcdserver: unhealthy cluster"), true);
    requests.tick(now);
    now = now + Duration::millis(50);
  }
  EXPECT_EQ(outcome(), "Unavailable: etcdserver: unhealthy cluster");
  EXPECT_LT(now.us, 5'000'000);
}

TEST_F(MemberRequestsTest, WithoutAWordTheOutcomeIsUnknownAndWithoutALeaderNothingWasDone) {
  ask(Kind::kRemove, 5);
  (void)sent();
  now = now + Duration::seconds(11);
  requests.tick(now);
  EXPECT_TRUE(outcome().starts_with("OutcomeUnknown: "));
  ask(Kind::kRemove, 5);
  now = now + Duration::seconds(11);
  requests.tick(now);
  EXPECT_EQ(outcome(), "Unavailable: etcdserver: no leader");
}

TEST_F(MemberRequestsTest, ARemovedMemberAnswersItsOwnRemovalFromTheLeadersWord) {
  ask(Kind::kRemove, 1);
  answer(sent(), Status::ok(), false);
  EXPECT_EQ(outcome(), "OK");
  ask(Kind::kRemove, 1);
  (void)sent();
  requests.removed_self();
  EXPECT_EQ(outcome(), "OK");
  ask(Kind::kUpdate, 2);
  (void)sent();
  requests.removed_self();
  EXPECT_TRUE(outcome().starts_with("OutcomeUnknown: "));
}

TEST_F(MemberRequestsTest, AnswersForOthersAndOfOldDoNothing) {
  ask(Kind::kRemove, 5);
  pb::MemberChange change = sent();
  change.mutable_by()->set_incarnation(6);
  answer(change, Status::not_found("x"), false);
  change.mutable_by()->set_incarnation(7);
  change.mutable_by()->set_node(2);
  answer(change, Status::not_found("x"), false);
  EXPECT_EQ(outcome(), "0 replies");
}

}  // namespace
}  // namespace rallypoint::server
