#include "tests/v3/queue_support.h"

namespace rallypoint::server {
namespace {

using namespace v3electionpb;

const Status kNotLeader{Code::kUnknown, "election: not leader"};
const Status kNoLeader{Code::kUnknown, "election: no leader"};
const Status kMissing{Code::kUnknown, "\"leader\" field must be provided"};

class V3Election : public QueueTest {
 protected:
  void campaign() {
    CampaignRequest request;
    request.set_name("e");
    request.set_lease(0x1f);
    request.set_value("me");
    open("/v3electionpb.Election/Campaign", request);
  }
  static LeaderKey leader_key() {
    LeaderKey leader;
    leader.set_name("e");
    leader.set_key("e/1f");
    leader.set_rev(10);
    leader.set_lease(0x1f);
    return leader;
  }
  void expect_elected(int64_t header_revision) {
    const auto response = sent<CampaignResponse>();
    EXPECT_EQ(response.leader().SerializeAsString(), leader_key().SerializeAsString());
    EXPECT_EQ(response.header().revision(), header_revision);
    expect_ended(Status::ok());
  }
  void finish_txn(const V3Write& write, bool succeeded, int64_t revision = 11) {
    TxnResponse response;
    response.set_succeeded(succeeded);
    response.mutable_header()->set_revision(revision);
    reply(write, response);
  }
};

TEST_F(V3Election, WhoIsAloneIsElected) {
  campaign();
  joined(take_join("e/1f", "me", 0x1f), 10, {"e/1f", 10});
  expect_elected(10);
}

TEST_F(V3Election, ACandidateWaitsForTheLeaderToGo) {
  campaign();
  joined(take_join("e/1f", "me", 0x1f), 10, {"e/a", 5});
  seen(take_look("e/1f", 10), 12, {{"e/a", 5}}, {{"e/1f", 10}});
  auto watch = take_watch("e/a", 13);
  take<V3KeepAlive>();
  tell(watch, {deleted("e/a", 15)});
  take<CancelCall>();
  seen(take_look("e/1f", 10), 15, {}, {{"e/1f", 10}});
  expect_elected(15);
}

TEST_F(V3Election, ACandidateWhoseLeaseIsLostIsNotElected) {
  campaign();
  joined(take_join("e/1f", "me", 0x1f), 10, {"e/a", 5});
  seen(take_look("e/1f", 10), 12, {}, {});
  expect_ended({Code::kUnknown, "election: session is expired"});
}

TEST_F(V3Election, ALeaderThatCampaignsAgainProclaimsItsNewValue) {
  campaign();
  was_there(take_join("e/1f", "me", 0x1f), 20, {"e/1f", 10, "old"}, {"e/1f", 10});
  auto write = take<V3Write>();
  const auto txn = parsed<TxnRequest>(write.message.view());
  EXPECT_EQ(txn.compare(0).create_revision(), 10);
  EXPECT_EQ(txn.success(0).request_put().value(), "me");
  EXPECT_EQ(txn.success(0).request_put().lease(), 0x1f);
  finish_txn(write, true, 21);
  seen(take_look("e/1f", 10), 21, {}, {{"e/1f", 10}});
  expect_elected(21);
}

TEST_F(V3Election, ALeaderThatCampaignsAgainWithTheSameValueStays) {
  campaign();
  was_there(take_join("e/1f", "me", 0x1f), 20, {"e/1f", 10, "me"}, {"e/1f", 10});
  expect_elected(20);
}

TEST_F(V3Election, ACandidateThatGoesLeavesTheQueue) {
  campaign();
  joined(take_join("e/1f", "me", 0x1f), 10, {"e/a", 5});
  take_look("e/1f", 10);
  handler->on_cancel();
  take<CancelCall>();
  expect_left("e/1f", 10);
}

TEST_F(V3Election, AProclamationIsTheLeadersAlone) {
  ProclaimRequest request;
  *request.mutable_leader() = leader_key();
  request.set_value("news");
  open("/v3electionpb.Election/Proclaim", request);
  auto write = take<V3Write>();
  const auto txn = parsed<TxnRequest>(write.message.view());
  EXPECT_EQ(txn.compare(0).key(), "e/1f");
  EXPECT_EQ(txn.compare(0).create_revision(), 10);
  EXPECT_EQ(txn.success(0).request_put().value(), "news");
  EXPECT_EQ(txn.success(0).request_put().lease(), 0x1f);
  finish_txn(write, true);
  EXPECT_EQ(sent<ProclaimResponse>().header().revision(), 11);
  expect_ended(Status::ok());
  rpc.finished.reset();
  open("/v3electionpb.Election/Proclaim", request);
  finish_txn(take<V3Write>(), false);
  expect_ended(kNotLeader);
}

TEST_F(V3Election, AProclamationWithoutALeaseKeepsTheKeysOwn) {
  ProclaimRequest request;
  *request.mutable_leader() = leader_key();
  request.mutable_leader()->clear_lease();
  open("/v3electionpb.Election/Proclaim", request);
  const auto txn = parsed<TxnRequest>(take<V3Write>().message.view());
  EXPECT_TRUE(txn.success(0).request_put().ignore_lease());
}

TEST_F(V3Election, ResigningDeletesTheKeyOfThatLeadership) {
  ResignRequest request;
  *request.mutable_leader() = leader_key();
  open("/v3electionpb.Election/Resign", request);
  auto write = take<V3Write>();
  const auto txn = parsed<TxnRequest>(write.message.view());
  EXPECT_EQ(txn.compare(0).create_revision(), 10);
  EXPECT_EQ(txn.success(0).request_delete_range().key(), "e/1f");
  finish_txn(write, false, 30);
  EXPECT_EQ(sent<ResignResponse>().header().revision(), 30);
  expect_ended(Status::ok());
}

TEST_F(V3Election, TheLeaderFieldIsNeeded) {
  open("/v3electionpb.Election/Proclaim", ProclaimRequest());
  expect_ended(kMissing);
  rpc.finished.reset();
  open("/v3electionpb.Election/Resign", ResignRequest());
  expect_ended(kMissing);
}

class V3Leader : public QueueTest {
 protected:
  void ask(std::string_view path) {
    LeaderRequest request;
    request.set_name("e");
    open(path, request);
  }
  V3Read take_first() {
    auto read = take<V3Read>();
    EXPECT_EQ(read.kind, V3Read::Kind::kRange);
    EXPECT_TRUE(read.linearizable);
    if (read.message) {
      const auto& range = static_cast<const RangeRequest&>(*read.message);
      EXPECT_EQ(range.key(), "e/");
      EXPECT_EQ(range.range_end(), "e0");
      EXPECT_EQ(range.sort_target(), RangeRequest::CREATE);
      EXPECT_EQ(range.sort_order(), RangeRequest::ASCEND);
      EXPECT_EQ(range.limit(), 1);
    }
    return read;
  }
  void found(const V3Read& read, int64_t revision, const std::vector<Pair>& pairs) {
    etcdserverpb::RangeResponse response;
    response.mutable_header()->set_revision(revision);
    for (const Pair& pair : pairs) {
      auto& kv = *response.add_kvs();
      kv.set_key(pair.key);
      kv.set_mod_revision(pair.created);
      kv.set_value(pair.value);
    }
    reply(read, response);
  }
  std::vector<std::string> told() {
    std::vector<std::string> values;
    for (size_t i = 0; i < rpc.sent.size(); ++i) values.push_back(sent<LeaderResponse>(i).kv().value());
    return values;
  }
};

TEST_F(V3Leader, IsTheOldestInTheQueue) {
  ask("/v3electionpb.Election/Leader");
  found(take_first(), 12, {{"e/1f", 10, "me"}});
  EXPECT_EQ(sent<LeaderResponse>().kv().key(), "e/1f");
  EXPECT_EQ(sent<LeaderResponse>().header().revision(), 12);
  expect_ended(Status::ok());
}

TEST_F(V3Leader, MayNotBeThere) {
  ask("/v3electionpb.Election/Leader");
  found(take_first(), 12, {});
  expect_ended(kNoLeader);
}

TEST_F(V3Leader, AnObserverHearsEachProclamationAndEachNextLeader) {
  ask("/v3electionpb.Election/Observe");
  found(take_first(), 12, {{"e/1f", 10, "a"}});
  auto watch = take_watch("e/1f", 13);
  tell(watch, {put("e/1f", 14, "b"), put("e/1f", 15, "c")});
  EXPECT_EQ(sent<LeaderResponse>(1).header().revision(), 14) << "its own revision, not the batch's";
  tell(watch, {deleted("e/1f", 16)});
  take<CancelCall>();
  found(take_first(), 16, {{"e/2f", 11, "d"}});
  take_watch("e/2f", 17);
  EXPECT_EQ(told(), (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_FALSE(rpc.finished);
}

TEST_F(V3Leader, AnObserverWaitsForTheFirstLeader) {
  ask("/v3electionpb.Election/Observe");
  found(take_first(), 12, {});
  auto watch = take_watch("e/", 13, "e0");
  tell(watch, {deleted("e/0", 13), put("e/1f", 14, "a"), put("e/2f", 14, "b")});
  take<CancelCall>();
  take_watch("e/1f", 15);
  EXPECT_EQ(told(), std::vector<std::string>{"a"});
}

TEST_F(V3Leader, AnObserverHearsNothingTwiceAfterACompaction) {
  ask("/v3electionpb.Election/Observe");
  found(take_first(), 12, {{"e/1f", 10, "a"}});
  auto watch = take_watch("e/1f", 13);
  etcdserverpb::WatchResponse compacted;
  compacted.set_canceled(true);
  compacted.set_compact_revision(100);
  tell(watch, compacted);
  take<CancelCall>();
  found(take_first(), 120, {{"e/1f", 10, "a"}});
  take_watch("e/1f", 121);
  EXPECT_EQ(told(), std::vector<std::string>{"a"});
}

TEST_F(V3Leader, ASlowObserverHoldsTheEventsBack) {
  ask("/v3electionpb.Election/Observe");
  found(take_first(), 12, {{"e/1f", 10, "a"}});
  auto watch = take_watch("e/1f", 13);
  rpc.queued = kRpcStreamHighWater + 1;
  tell(watch, {put("e/1f", 14, "b")});
  EXPECT_FALSE(take<V3WatchFlow>().open);
  handler->on_writable();
  EXPECT_TRUE(take<V3WatchFlow>().open);
}

TEST_F(V3Leader, AnObserverThatGoesLeavesNothing) {
  ask("/v3electionpb.Election/Observe");
  found(take_first(), 12, {{"e/1f", 10, "a"}});
  auto watch = take_watch("e/1f", 13);
  handler->on_cancel();
  EXPECT_EQ(take<CancelCall>().call.token, watch.call.token);
  EXPECT_TRUE(idle());
}

}  // namespace
}  // namespace rallypoint::server
