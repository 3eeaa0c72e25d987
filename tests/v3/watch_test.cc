#include "tests/v3/fake_rpc.h"

namespace rallypoint::server {
namespace {

using namespace etcdserverpb;

class V3Watch : public V3Test {
 protected:
  V3WatchMessage create(std::string key = "k") {
    if (!handler) open("/etcdserverpb.Watch/Watch");
    WatchRequest request;
    request.mutable_create_request()->set_key(std::move(key));
    message(request);
    return take<V3WatchMessage>();
  }
  static WatchParts part(int64_t watch_id, int64_t revision) {
    WatchResponse response;
    response.mutable_header()->set_revision(revision);
    return {{{watch_id, Bytes(response.SerializeAsString())}}};
  }
};

TEST_F(V3Watch, EveryMessageGoesToTheNodeUnderOneCall) {
  auto first = create("a"), second = create("b");
  EXPECT_EQ(first.call.token, second.call.token);
  EXPECT_EQ(static_cast<WatchRequest&>(*first.message).create_request().key(), "a");
  WatchRequest cancel;
  cancel.mutable_cancel_request()->set_watch_id(1);
  message(cancel);
  EXPECT_EQ(static_cast<WatchRequest&>(*take<V3WatchMessage>().message).cancel_request().watch_id(), 1);
}

TEST_F(V3Watch, EachPartGetsItsWatchId) {
  auto watch = create();
  WatchParts parts;
  for (const int64_t id : {int64_t{0}, int64_t{5}, int64_t{300}, int64_t{-1}}) parts.parts.push_back(part(id, 10 + id).parts[0]);
  reply(watch, parts, false);
  ASSERT_EQ(rpc.sent.size(), 4u);
  EXPECT_EQ(sent<WatchResponse>(0).watch_id(), 0);
  EXPECT_EQ(sent<WatchResponse>(1).watch_id(), 5);
  EXPECT_EQ(sent<WatchResponse>(2).watch_id(), 300);
  EXPECT_EQ(sent<WatchResponse>(3).watch_id(), -1);
  EXPECT_EQ(sent<WatchResponse>(2).header().revision(), 310);
  EXPECT_FALSE(rpc.finished);
}

TEST_F(V3Watch, TheNodeHoldsEventsBackWhileTheConnectionIsFull) {
  auto watch = create();
  rpc.queued = kRpcStreamHighWater + 1;
  reply(watch, part(0, 2), false);
  EXPECT_FALSE(take<V3WatchFlow>().open);
  reply(watch, part(0, 3), false);
  EXPECT_TRUE(idle()) << "it has been told";
  rpc.queued = 0;
  handler->on_writable();
  EXPECT_TRUE(take<V3WatchFlow>().open);
  handler->on_writable();
  EXPECT_TRUE(idle());
}

TEST_F(V3Watch, AClientThatSendsNothingMoreStillGetsItsEvents) {
  auto watch = create();
  handler->on_half_close();
  EXPECT_FALSE(rpc.finished);
  reply(watch, part(0, 2), false);
  EXPECT_EQ(rpc.sent.size(), 1u);
}

TEST_F(V3Watch, TheWatchersGoWithTheClient) {
  auto watch = create();
  handler->on_cancel();
  EXPECT_EQ(take<CancelCall>().call.token, watch.call.token);
}

TEST_F(V3Watch, AStreamThatNeverAskedForAnythingLeavesNothingBehind) {
  open("/etcdserverpb.Watch/Watch");
  handler->on_cancel();
  EXPECT_TRUE(idle());
}

TEST_F(V3Watch, AMessageThatIsNoneEndsTheStreamAndFreesItsWatchers) {
  create();
  handler->on_message("\xff\xff");
  expect_ended(Status::internal("grpc: error unmarshalling request: malformed etcdserverpb.WatchRequest"));
  take<CancelCall>();
}

TEST_F(V3Watch, TheNodeCanEndTheStream) {
  reply(create(), Status::unavailable("etcdserver: server stopped"));
  expect_ended(Status::unavailable("etcdserver: server stopped"));
  EXPECT_TRUE(idle());
}

TEST_F(V3Watch, AClientThatWantsALeaderIsRefusedWithoutOne) {
  rpc.headers["hasleader"] = "true";
  rpc.node.view.leader_id = 0;
  open("/etcdserverpb.Watch/Watch");
  message(WatchRequest());
  expect_ended(Status::unavailable("etcdserver: no leader"));
  EXPECT_TRUE(idle());
}

TEST_F(V3Watch, AClientThatWantsALeaderIsPutOutWhenThereIsNoneForThreeElections) {
  rpc.headers["hasleader"] = "true";
  create();
  EXPECT_EQ(rpc.wake, Duration::seconds(1)) << "an election timeout";
  rpc.node.view.leader_id = 0;
  wake();
  wake();
  rpc.node.view.leader_id = 7;
  wake();
  rpc.node.view.leader_id = 0;
  wake();
  wake();
  EXPECT_FALSE(rpc.finished) << "there was a leader in between";
  wake();
  expect_ended(Status::unavailable("etcdserver: no leader"));
  take<CancelCall>();
}

TEST_F(V3Watch, OthersStayThroughAnyElection) {
  create();
  EXPECT_FALSE(rpc.wake);
}

}  // namespace
}  // namespace rallypoint::server
