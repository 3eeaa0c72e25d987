#include "tests/v3/fake_rpc.h"

namespace rallypoint::server {
namespace {

using namespace etcdserverpb;

class V3Kv : public V3Test {};

PutRequest put(std::string key, std::string value) {
  PutRequest request;
  request.set_key(std::move(key));
  request.set_value(std::move(value));
  return request;
}

TEST_F(V3Kv, APutTravelsAsTheBytesThatCame) {
  rpc.deadline = Duration::seconds(3);
  open("/etcdserverpb.KV/Put", put("k", "v"));
  auto write = take<V3Write>();
  EXPECT_EQ(write.kind, V3WriteKind::kPut);
  EXPECT_EQ(write.message.to_string(), put("k", "v").SerializeAsString());
  EXPECT_EQ(write.timeout, Duration::seconds(3));
  EXPECT_EQ(write.idempotency_key, "");
  PutResponse response;
  response.mutable_header()->set_revision(7);
  reply(write, response);
  EXPECT_EQ(sent<PutResponse>().header().revision(), 7);
  expect_ended(Status::ok());
  EXPECT_TRUE(idle());
}

TEST_F(V3Kv, AnErrorOfTheNodeEndsTheCallAsItIs) {
  open("/etcdserverpb.KV/Put", put("k", "v"));
  const Status wrong = Status::not_found("etcdserver: requested lease not found");
  reply(take<V3Write>(), wrong);
  expect_ended(wrong);
}

TEST_F(V3Kv, AnUnknownOutcomeReadsAsATimeOut) {
  open("/etcdserverpb.KV/Put", put("k", "v"));
  reply(take<V3Write>(), Status::outcome_unknown("the leader was lost"));
  expect_ended(Status::unavailable("etcdserver: request timed out"));
}

TEST_F(V3Kv, AnAnswerOfAnotherKindIsAnInternalError) {
  open("/etcdserverpb.KV/Put", put("k", "v"));
  reply(take<V3Write>(), Status::ok());
  expect_ended(Status::internal("the node gave an answer of another kind"));
}

TEST_F(V3Kv, AMessageThatIsNoneIsRefused) {
  open("/etcdserverpb.KV/Put");
  handler->on_message("\x0a\xff");
  expect_ended(Status::internal("grpc: error unmarshalling request: malformed etcdserverpb.PutRequest"));
  EXPECT_TRUE(idle());
}

TEST_F(V3Kv, AnIdempotencyKeyOfUpTo128BytesTravelsWithTheWrite) {
  rpc.headers["rallypoint-idempotency-key"] = std::string(128, 'x');
  open("/etcdserverpb.KV/Put", put("k", "v"));
  EXPECT_EQ(take<V3Write>().idempotency_key, std::string(128, 'x'));
}

TEST_F(V3Kv, ALongerIdempotencyKeyIsRefused) {
  rpc.headers["rallypoint-idempotency-key"] = std::string(129, 'x');
  open("/etcdserverpb.KV/Put", put("k", "v"));
  expect_ended(Status::invalid_argument("rallypoint-idempotency-key: at most 128 bytes"));
  EXPECT_TRUE(idle());
}

TEST_F(V3Kv, AClientThatWantsALeaderIsRefusedWithoutOne) {
  rpc.headers["hasleader"] = "true";
  rpc.node.view.leader_id = 0;
  open("/etcdserverpb.KV/Put", put("k", "v"));
  expect_ended(Status::unavailable("etcdserver: no leader"));
  EXPECT_TRUE(idle());
}

TEST_F(V3Kv, AClientThatWantsALeaderIsServedWithOne) {
  rpc.headers["hasleader"] = "true";
  open("/etcdserverpb.KV/Put", put("k", "v"));
  take<V3Write>();
}

TEST_F(V3Kv, ARequestIsAsLargeAsTheLimitAllows) {
  PutRequest request = put("k", std::string(3 << 19, 'x'));
  open("/etcdserverpb.KV/Put", request);
  expect_ended(Status::invalid_argument("etcdserver: request is too large"));
  const size_t over = request.ByteSizeLong() - (3 << 19);
  request.mutable_value()->resize((3 << 19) - over);
  ASSERT_EQ(request.ByteSizeLong(), size_t{3 << 19});
  rpc.finished.reset();
  open("/etcdserverpb.KV/Put", request);
  take<V3Write>();
}

TEST_F(V3Kv, TheNodeForgetsACallWhoseClientIsGone) {
  open("/etcdserverpb.KV/Put", put("k", "v"));
  const uint64_t token = take<V3Write>().call.token;
  handler->on_cancel();
  EXPECT_EQ(take<CancelCall>().call.token, token);
}

TEST_F(V3Kv, ARangeIsLinearizableUnlessItSaysOtherwise) {
  RangeRequest request;
  request.set_key("k");
  open("/etcdserverpb.KV/Range", request);
  auto read = take<V3Read>();
  EXPECT_EQ(read.kind, V3Read::Kind::kRange);
  EXPECT_TRUE(read.linearizable);
  EXPECT_EQ(read.message->SerializeAsString(), request.SerializeAsString());
  request.set_serializable(true);
  open("/etcdserverpb.KV/Range", request);
  EXPECT_FALSE(take<V3Read>().linearizable);
}

TEST_F(V3Kv, ADeleteAndACompactionAreWrites) {
  DeleteRangeRequest request;
  request.set_key("k");
  open("/etcdserverpb.KV/DeleteRange", request);
  EXPECT_EQ(take<V3Write>().kind, V3WriteKind::kDeleteRange);
  open("/etcdserverpb.KV/Compact", CompactionRequest());
  EXPECT_EQ(take<V3Write>().kind, V3WriteKind::kCompact);
}

TEST_F(V3Kv, ATransactionThatWritesGoesThroughTheLog) {
  TxnRequest request;
  request.add_success()->mutable_request_txn()->add_failure()->mutable_request_put()->set_key("k");
  open("/etcdserverpb.KV/Txn", request);
  auto write = take<V3Write>();
  EXPECT_EQ(write.kind, V3WriteKind::kTxn);
  EXPECT_EQ(write.message.to_string(), request.SerializeAsString());
}

TEST_F(V3Kv, ATransactionOfRangesIsARead) {
  TxnRequest request;
  RangeRequest& first = *request.add_success()->mutable_request_range();
  first.set_key("a");
  first.set_serializable(true);
  RangeRequest& second = *request.add_failure()->mutable_request_range();
  second.set_key("b");
  open("/etcdserverpb.KV/Txn", request);
  auto read = take<V3Read>();
  EXPECT_EQ(read.kind, V3Read::Kind::kTxn);
  EXPECT_TRUE(read.linearizable) << "one of the ranges wants it";
  second.set_serializable(true);
  open("/etcdserverpb.KV/Txn", request);
  EXPECT_FALSE(take<V3Read>().linearizable);
}

TEST_F(V3Kv, ATransactionOfComparesAloneIsLinearizable) {
  TxnRequest request;
  request.add_compare()->set_key("a");
  open("/etcdserverpb.KV/Txn", request);
  EXPECT_TRUE(take<V3Read>().linearizable);
}

TEST_F(V3Kv, TransactionsNestedDeeperThanCanBeReadSayWhy) {
  TxnRequest request;
  TxnRequest* inner = &request;
  for (int i = 0; i < 400; ++i) inner = inner->add_success()->mutable_request_txn();
  open("/etcdserverpb.KV/Txn", request);
  expect_ended(Status::invalid_argument("etcdserver: too many operations in txn request"));
}

// ---- RangeStream ----

class V3RangeStream : public V3Test {
 protected:
  void begin() {
    RangeRequest request;
    request.set_key("k");
    open("/etcdserverpb.KV/RangeStream", request);
    read = take<V3Read>();
    EXPECT_EQ(read.kind, V3Read::Kind::kRangeStream);
  }
  V3Read read;
};

TEST_F(V3RangeStream, ThePartsAreAskedForOneByOne) {
  begin();
  reply(read, Bytes::copy_of("one"), false);
  take<V3More>();
  EXPECT_TRUE(idle());
  reply(read, Bytes::copy_of("two"), true);
  EXPECT_EQ(rpc.sent, (std::vector<std::string>{"one", "two"}));
  expect_ended(Status::ok());
  EXPECT_TRUE(idle());
}

/// The transport calls on_writable() only after there was more than the mark.
TEST_F(V3RangeStream, AQueueAtTheMarkIsNotFull) {
  begin();
  rpc.queued = kRpcStreamHighWater;
  reply(read, Bytes::copy_of("one"), false);
  take<V3More>();
}

TEST_F(V3RangeStream, ASlowConnectionHoldsTheNextPartBack) {
  begin();
  rpc.queued = kRpcStreamHighWater + 1;
  reply(read, Bytes::copy_of("one"), false);
  EXPECT_TRUE(idle());
  rpc.queued = 0;
  handler->on_writable();
  take<V3More>();
  handler->on_writable();
  EXPECT_TRUE(idle()) << "one part, one request";
}

TEST_F(V3RangeStream, AnErrorOnTheWayEndsIt) {
  begin();
  reply(read, Bytes::copy_of("one"), false);
  take<V3More>();
  reply(read, Status{Code::kOutOfRange, "etcdserver: mvcc: required revision has been compacted"});
  expect_ended({Code::kOutOfRange, "etcdserver: mvcc: required revision has been compacted"});
}

TEST_F(V3RangeStream, TheNodeForgetsItWhenTheClientIsGone) {
  begin();
  handler->on_cancel();
  take<CancelCall>();
}

}  // namespace
}  // namespace rallypoint::server
