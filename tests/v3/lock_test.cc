#include "tests/v3/queue_support.h"

namespace rallypoint::server {
namespace {

using v3lockpb::LockRequest;
using v3lockpb::LockResponse;

const Status kExpired{Code::kUnknown, "mutex: session is expired"};

class V3Lock : public QueueTest {
 protected:
  void lock(int64_t lease = 0x1f) {
    LockRequest request;
    request.set_name("l");
    request.set_lease(lease);
    open("/v3lockpb.Lock/Lock", request);
  }
  /// Joins at revision 10 behind "l/a" of revision 5, and waits for it.
  void wait_behind_another() {
    lock();
    joined(take_join("l/1f", "", 0x1f), 10, {"l/a", 5});
    seen(take_look("l/1f", 10), 12, {{"l/a", 5}}, {{"l/1f", 10}});
    watch = take_watch("l/a", 13);
    renewal = take<V3KeepAlive>();
    EXPECT_EQ(renewal.lease, 0x1f);
    EXPECT_TRUE(idle());
  }
  V3WatchMessage watch;
  V3KeepAlive renewal;
};

TEST_F(V3Lock, AFreeLockIsHeldAtOnce) {
  lock();
  joined(take_join("l/1f", "", 0x1f), 10, {"l/1f", 10});
  EXPECT_EQ(sent<LockResponse>().key(), "l/1f");
  EXPECT_EQ(sent<LockResponse>().header().revision(), 10);
  expect_ended(Status::ok());
  EXPECT_TRUE(idle());
}

TEST_F(V3Lock, ALeaseThatHoldsItAlreadyGetsTheSameKey) {
  lock();
  was_there(take_join("l/1f", "", 0x1f), 20, {"l/1f", 10}, {"l/1f", 10});
  EXPECT_EQ(sent<LockResponse>().key(), "l/1f");
  expect_ended(Status::ok());
}

TEST_F(V3Lock, LeasesAreNamedAsGoPrintsThem) {
  lock(-0x1f);
  take_join("l/-1f", "", -0x1f);
}

TEST_F(V3Lock, AHeldLockIsWaitedFor) {
  wait_behind_another();
  tell(watch, std::vector<mvccpb::Event>{});  // created
  EXPECT_TRUE(idle());
  tell(watch, {deleted("l/a", 15)});
  EXPECT_EQ(take<CancelCall>().call.token, watch.call.token) << "the watch is not needed any more";
  seen(take_look("l/1f", 10), 15, {}, {{"l/1f", 10}});
  EXPECT_EQ(sent<LockResponse>().key(), "l/1f");
  EXPECT_EQ(sent<LockResponse>().header().revision(), 15) << "larger than any holder's before";
  expect_ended(Status::ok());
  EXPECT_TRUE(idle());
}

TEST_F(V3Lock, WhoeverIsStillBeforeUsIsWaitedForNext) {
  wait_behind_another();
  tell(watch, {deleted("l/a", 15)});
  take<CancelCall>();
  seen(take_look("l/1f", 10), 15, {{"l/b", 4}}, {{"l/1f", 10}});
  take_watch("l/b", 16);
  EXPECT_FALSE(rpc.finished);
}

/// etcd#11456: two holders of one lock.
TEST_F(V3Lock, ALeaseThatWasLostWhileItWaitedGetsNothing) {
  wait_behind_another();
  tell(watch, {deleted("l/a", 15)});
  take<CancelCall>();
  seen(take_look("l/1f", 10), 16, {}, {});
  expect_ended(kExpired);
  EXPECT_TRUE(rpc.sent.empty());
}

TEST_F(V3Lock, AKeyThatWasMadeAnewMeanwhileIsNotOurs) {
  wait_behind_another();
  tell(watch, {deleted("l/a", 15)});
  take<CancelCall>();
  seen(take_look("l/1f", 10), 18, {}, {{"l/1f", 17}});
  expect_ended(kExpired);
}

TEST_F(V3Lock, TheLeaseIsRenewedInThirdsOfItsTimeWhileItWaits) {
  wait_behind_another();
  kept(renewal, 9);
  EXPECT_EQ(rpc.wake, Duration::seconds(3));
  wake();
  auto again = take<V3KeepAlive>();
  EXPECT_EQ(again.lease, 0x1f);
  kept(again, 1);
  EXPECT_EQ(rpc.wake, Duration::millis(500)) << "not more often";
}

TEST_F(V3Lock, ALeaseThatIsLostEndsTheWaitAtOnce) {
  wait_behind_another();
  kept(renewal, 0);
  expect_ended(kExpired);
  take<CancelCall>();
  EXPECT_TRUE(idle()) << "the key went with the lease";
}

TEST_F(V3Lock, AClientThatGoesLeavesTheQueue) {
  wait_behind_another();
  handler->on_cancel();
  EXPECT_EQ(take<CancelCall>().call.token, watch.call.token);
  expect_left("l/1f", 10);
  EXPECT_TRUE(idle());
}

TEST_F(V3Lock, AClientThatGoesLeavesAKeyThatWasThereBeforeItsCall) {
  lock();
  was_there(take_join("l/1f", "", 0x1f), 20, {"l/1f", 10}, {"l/a", 5});
  take_look("l/1f", 10);
  handler->on_cancel();
  take<CancelCall>();
  EXPECT_TRUE(idle()) << "another call of the same lease waits with it";
}

TEST_F(V3Lock, AnErrorWhileWaitingLeavesTheQueue) {
  wait_behind_another();
  reply(watch, Status::unavailable("etcdserver: server stopped"));
  take<CancelCall>();
  expect_left("l/1f", 10);
  expect_ended(Status::unavailable("etcdserver: server stopped"));
}

TEST_F(V3Lock, AWatchThatCompactionPassedIsMadeAnew) {
  wait_behind_another();
  etcdserverpb::WatchResponse compacted;
  compacted.set_canceled(true);
  compacted.set_compact_revision(100);
  tell(watch, compacted);
  take<CancelCall>();
  seen(take_look("l/1f", 10), 120, {{"l/a", 5}}, {{"l/1f", 10}});
  take_watch("l/a", 121);
}

TEST_F(V3Lock, AWatchThatIsRefusedEndsTheWait) {
  wait_behind_another();
  etcdserverpb::WatchResponse refused;
  refused.set_canceled(true);
  refused.set_cancel_reason("too many watchers");
  tell(watch, refused);
  expect_ended(Status::unavailable("too many watchers"));
}

TEST_F(V3Lock, AnUnknownLeaseIsNotFound) {
  lock();
  reply(take_join("l/1f", "", 0x1f), Status::not_found("etcdserver: requested lease not found"));
  expect_ended(Status::not_found("etcdserver: requested lease not found"));
}

TEST_F(V3Lock, WithoutALeaseOneOfAMinuteIsGranted) {
  lock(0);
  auto write = take<V3Write>();
  ASSERT_EQ(write.kind, V3WriteKind::kLeaseGrant);
  const auto grant = parsed<etcdserverpb::LeaseGrantRequest>(write.message.view());
  EXPECT_EQ(grant.ttl(), 60);
  ASSERT_GT(grant.id(), 0);
  reply(write, etcdserverpb::LeaseGrantResponse());
  auto join = take<V3Write>();
  const auto txn = parsed<TxnRequest>(join.message.view());
  EXPECT_EQ(txn.success(0).request_put().lease(), grant.id());
  const std::string key = txn.success(0).request_put().key();
  joined(join, 10, {key, 10});
  EXPECT_EQ(sent<LockResponse>().key(), key);
  EXPECT_TRUE(idle());
}

TEST_F(V3Lock, ALeaseThatNobodyKnowsIsRevokedWhenTheClientGoes) {
  lock(0);
  auto write = take<V3Write>();
  const int64_t lease = parsed<etcdserverpb::LeaseGrantRequest>(write.message.view()).id();
  handler->on_cancel();
  take<CancelCall>();
  auto revoke = take<V3Write>();
  EXPECT_EQ(revoke.kind, V3WriteKind::kLeaseRevoke);
  EXPECT_EQ(parsed<etcdserverpb::LeaseRevokeRequest>(revoke.message.view()).id(), lease);
}

TEST_F(V3Lock, EachStepAsksForWhatIsLeftOfTheDeadline) {
  rpc.deadline = Duration::seconds(4);
  lock();
  auto join = take_join("l/1f", "", 0x1f);
  EXPECT_EQ(join.timeout, Duration::seconds(4));
  rpc.deadline = Duration::seconds(1);
  joined(join, 10, {"l/a", 5});
  EXPECT_EQ(take_look("l/1f", 10).timeout, Duration::seconds(1));
}

TEST_F(V3Lock, UnlockDeletesTheKey) {
  v3lockpb::UnlockRequest request;
  request.set_key("l/1f");
  open("/v3lockpb.Lock/Unlock", request);
  auto write = take<V3Write>();
  EXPECT_EQ(write.kind, V3WriteKind::kDeleteRange);
  EXPECT_EQ(parsed<etcdserverpb::DeleteRangeRequest>(write.message.view()).key(), "l/1f");
  etcdserverpb::DeleteRangeResponse removed;
  removed.mutable_header()->set_revision(9);
  reply(write, removed);
  EXPECT_EQ(sent<v3lockpb::UnlockResponse>().header().revision(), 9);
  expect_ended(Status::ok());
}

TEST_F(V3Lock, UnlockNeedsAKey) {
  open("/v3lockpb.Lock/Unlock", v3lockpb::UnlockRequest());
  expect_ended(Status::invalid_argument("etcdserver: key is not provided"));
}

}  // namespace
}  // namespace rallypoint::server
