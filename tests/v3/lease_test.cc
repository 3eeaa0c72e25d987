#include "tests/v3/fake_rpc.h"

namespace rallypoint::server {
namespace {

using namespace etcdserverpb;

class V3Lease : public V3Test {
 protected:
  LeaseGrantRequest granted(const LeaseGrantRequest& request) {
    open("/etcdserverpb.Lease/LeaseGrant", request);
    auto write = take<V3Write>();
    EXPECT_EQ(write.kind, V3WriteKind::kLeaseGrant);
    return parsed<LeaseGrantRequest>(write.message.view());
  }
  static LeaseKeepAliveRequest keep_alive(int64_t id) {
    LeaseKeepAliveRequest request;
    request.set_id(id);
    return request;
  }
  static LeaseKeepAliveResponse kept(int64_t id, int64_t ttl) {
    LeaseKeepAliveResponse response;
    response.set_id(id);
    response.set_ttl(ttl);
    return response;
  }
};

TEST_F(V3Lease, AnIdThatTheClientChoseIsKept) {
  LeaseGrantRequest request;
  request.set_ttl(5);
  request.set_id(-7);
  const LeaseGrantRequest logged = granted(request);
  EXPECT_EQ(logged.id(), -7);
  EXPECT_EQ(logged.ttl(), 5);
}

TEST_F(V3Lease, AnOpenIdIsChosenAtRandom) {
  LeaseGrantRequest request;
  request.set_ttl(5);
  const LeaseGrantRequest first = granted(request), second = granted(request);
  EXPECT_GT(first.id(), 0);
  EXPECT_GT(second.id(), 0);
  EXPECT_NE(first.id(), second.id());
  EXPECT_EQ(first.ttl(), 5);
}

TEST_F(V3Lease, ARetriedGrantAsksForTheSameLease) {
  rpc.headers["rallypoint-idempotency-key"] = "try";
  LeaseGrantRequest request;
  request.set_ttl(5);
  const LeaseGrantRequest first = granted(request), second = granted(request);
  EXPECT_GT(first.id(), 0);
  EXPECT_EQ(first.id(), second.id());
  rpc.headers["rallypoint-idempotency-key"] = "another";
  EXPECT_NE(granted(request).id(), first.id());
}

TEST_F(V3Lease, TooLongATimeToLiveIsRefused) {
  LeaseGrantRequest request;
  request.set_ttl(9'000'000'001);
  open("/etcdserverpb.Lease/LeaseGrant", request);
  expect_ended({Code::kOutOfRange, "etcdserver: too large lease TTL"});
}

TEST_F(V3Lease, RevokeIsAWriteAndTheRestAreLinearizableReads) {
  LeaseRevokeRequest revoke;
  revoke.set_id(5);
  open("/etcdserverpb.Lease/LeaseRevoke", revoke);
  EXPECT_EQ(take<V3Write>().kind, V3WriteKind::kLeaseRevoke);
  open("/etcdserverpb.Lease/LeaseTimeToLive", LeaseTimeToLiveRequest());
  auto read = take<V3Read>();
  EXPECT_EQ(read.kind, V3Read::Kind::kLeaseTimeToLive);
  EXPECT_TRUE(read.linearizable);
  open("/etcdserverpb.Lease/LeaseLeases", LeaseLeasesRequest());
  EXPECT_EQ(take<V3Read>().kind, V3Read::Kind::kLeaseLeases);
}

TEST_F(V3Lease, KeepAlivesAreAnsweredInTheirOrder) {
  open("/etcdserverpb.Lease/LeaseKeepAlive");
  message(keep_alive(1));
  message(keep_alive(2));
  auto first = take<V3KeepAlive>(), second = take<V3KeepAlive>();
  EXPECT_EQ(first.lease, 1);
  EXPECT_EQ(second.lease, 2);
  reply(first, kept(1, 10));
  reply(second, kept(2, 0));
  EXPECT_EQ(sent<LeaseKeepAliveResponse>(0).ttl(), 10);
  EXPECT_EQ(sent<LeaseKeepAliveResponse>(1).id(), 2);
  EXPECT_EQ(sent<LeaseKeepAliveResponse>(1).ttl(), 0);
  EXPECT_FALSE(rpc.finished) << "an unknown lease does not end the stream";
}

TEST_F(V3Lease, AStreamThatTheClientHasClosedEndsWithItsLastAnswer) {
  open("/etcdserverpb.Lease/LeaseKeepAlive");
  message(keep_alive(1));
  handler->on_half_close();
  EXPECT_FALSE(rpc.finished);
  reply(take<V3KeepAlive>(), kept(1, 10));
  expect_ended(Status::ok());
}

TEST_F(V3Lease, AStreamWithNothingOutstandingEndsWhenTheClientClosesIt) {
  open("/etcdserverpb.Lease/LeaseKeepAlive");
  handler->on_half_close();
  expect_ended(Status::ok());
}

TEST_F(V3Lease, AnErrorEndsTheStream) {
  open("/etcdserverpb.Lease/LeaseKeepAlive");
  message(keep_alive(1));
  reply(take<V3KeepAlive>(), Status::unavailable("etcdserver: no leader"));
  expect_ended(Status::unavailable("etcdserver: no leader"));
}

TEST_F(V3Lease, AClientThatDoesNotReadIsCutOff) {
  open("/etcdserverpb.Lease/LeaseKeepAlive");
  message(keep_alive(1));
  take<V3KeepAlive>();
  rpc.queued = kRpcStreamHighWater + 1;
  message(keep_alive(1));
  expect_ended(Status::resource_exhausted("etcdserver: too many requests"));
  take<CancelCall>();
}

TEST_F(V3Lease, AClientThatWantsALeaderIsRefusedWithoutOne) {
  rpc.headers["hasleader"] = "true";
  rpc.node.view.leader_id = 0;
  open("/etcdserverpb.Lease/LeaseKeepAlive");
  message(keep_alive(1));
  expect_ended(Status::unavailable("etcdserver: no leader"));
  EXPECT_TRUE(idle());
}

}  // namespace
}  // namespace rallypoint::server
