// The JSON gateway over real connections: what the session must do for requests that keep state.
#include <google/protobuf/message.h>

#include "storage/etcd_api/rpc.pb.h"
#include "tests/server/http_server_fixture.h"

namespace rallypoint::server {
namespace {

using namespace etcdserverpb;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class V3GatewayHttp : public HttpServerTest {
 protected:
  static std::string post(std::string_view target, std::string_view body, std::string_view fields = "") {
    return "POST " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(fields) +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
  }
  static void answer(const Call& call, decltype(Reply::body) body, bool final = true) {
    Reply reply;
    reply.body = std::move(body);
    reply.final = final;
    FakeBackend::answer(call, std::move(reply));
  }
  static WatchParts part(const WatchResponse& response) { return {{{0, Bytes(response.SerializeAsString())}}}; }
};

TEST_F(V3GatewayHttp, PipelinedRequestsAreAnsweredInOrder) {
  start();
  RawClient client = connect();
  client.send(post("/v3/kv/put", R"({"key":"YQ=="})") + post("/v3beta/kv/put", R"({"key":"Yg=="})"));
  for (const char* key : {"a", "b"}) {
    auto write = backend.next<V3Write>();
    ASSERT_TRUE(write);
    PutResponse response;
    response.mutable_prev_kv()->set_key(key);
    answer(write->call, Bytes(response.SerializeAsString()));
    EXPECT_THAT(client.read_answer(), HasSubstr(std::string(R"({"prev_kv":{"key":")") + (key[0] == 'a' ? "YQ==" : "Yg==")));
  }
}

TEST_F(V3GatewayHttp, RefusedRequestsKeepTheConnection) {
  start();
  RawClient client = connect();
  EXPECT_THAT(client.ask(post("/v3/kv/put", "{}")), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(client.ask(post("/v3/none", "{}")), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(client.ask(get("/v3/kv/put")), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(client.ask(post("/v3/cluster/member/list", "")), HasSubstr(R"("name":"n1")"));
}

TEST_F(V3GatewayHttp, MetadataIsReadFromTheHeader) {
  start();
  RawClient client = connect();
  client.send(post("/v3/kv/put", R"({"key":"YQ=="})", "Rallypoint-Idempotency-Key: once\r\n"));
  EXPECT_EQ(backend.next<V3Write>()->idempotency_key, "once");
  RawClient other = connect();
  other.send(post("/v3/kv/put", R"({"key":"YQ=="})", "Grpc-Metadata-rallypoint-idempotency-key: twice\r\n"));
  EXPECT_EQ(backend.next<V3Write>()->idempotency_key, "twice");
}

TEST_F(V3GatewayHttp, TheCallersDeadlineReachesTheNode) {
  start();
  RawClient client = connect();
  client.send(post("/v3/kv/put", R"({"key":"YQ=="})", "Grpc-Timeout: 1500m\r\n"));
  EXPECT_EQ(backend.next<V3Write>()->timeout, Duration::millis(1500));
  RawClient other = connect();
  other.send(post("/v3/kv/range", R"({"key":"YQ=="})"));
  EXPECT_EQ(backend.next<V3Read>()->timeout, Duration());
  EXPECT_THAT(connect().ask(post("/v3/kv/put", R"({"key":"YQ=="})", "Grpc-Timeout: soon\r\n")),
              AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("malformed grpc-timeout")));
}

TEST_F(V3GatewayHttp, ABodyMayBeLargerThanARequestByWhatBase64Adds) {
  limits.body_bytes_max = 1000;
  limits.gateway_body_bytes_max = 2000;
  start();
  RawClient client = connect();
  client.send(post("/v3/kv/put", R"({"key":"YQ==","value":")" + std::string(1600, 'A') + "\"}"));
  EXPECT_TRUE(backend.next<V3Write>());
  RawClient other = connect();
  EXPECT_THAT(other.ask(post("/v3/kv/put", std::string(2001, ' '))), StartsWith("HTTP/1.1 413 "));
}

TEST_F(V3GatewayHttp, AWatchStreamsUntilTheClientGoes) {
  start();
  RawClient client = connect();
  client.send(post("/v3/watch", R"({"create_request":{"key":"YQ=="}})"));
  auto watch = backend.next<V3WatchMessage>();
  ASSERT_TRUE(watch);
  WatchResponse created;
  created.set_created(true);
  answer(watch->call, part(created), false);
  EXPECT_THAT(client.read_until("\n\r\n"), StartsWith("HTTP/1.1 200 "));
  answer(watch->call, part({}), false);
  EXPECT_THAT(client.read_until("}\n"), HasSubstr(R"({"result":{"created":true}})"));
  client.disconnect();
  auto cancel = backend.next<CancelCall>();
  ASSERT_TRUE(cancel);
  EXPECT_EQ(cancel->call.token, watch->call.token);
}

TEST_F(V3GatewayHttp, AHalfClosedConnectionEndsAWatchAndNotAPut) {
  start();
  RawClient watcher = connect();
  watcher.send(post("/v3/watch", R"({"create_request":{"key":"YQ=="}})"));
  ASSERT_TRUE(backend.next<V3WatchMessage>());
  watcher.end_sending();
  EXPECT_TRUE(backend.next<CancelCall>());
  RawClient writer = connect();
  writer.send(post("/v3/kv/put", R"({"key":"YQ=="})"));
  auto write = backend.next<V3Write>();
  writer.end_sending();
  answer(write->call, Bytes());
  EXPECT_THAT(writer.read_answer(), StartsWith("HTTP/1.1 200 "));
}

TEST_F(V3GatewayHttp, AClientThatDoesNotReadHoldsItsWatchBack) {
  start();
  RawClient client = connect();
  client.send(post("/v3/watch", R"({"create_request":{"key":"YQ=="}})"));
  auto watch = backend.next<V3WatchMessage>();
  ASSERT_TRUE(watch);
  WatchResponse large;
  large.add_events()->mutable_kv()->set_value(std::string(8 << 20, 'x'));
  answer(watch->call, part(large), false);
  auto hold = backend.next<V3WatchFlow>();
  ASSERT_TRUE(hold);
  EXPECT_FALSE(hold->open);
  ASSERT_NE(client.read_until("}\n"), "");
  auto go_on = backend.next<V3WatchFlow>();
  ASSERT_TRUE(go_on);
  EXPECT_TRUE(go_on->open);
}

TEST_F(V3GatewayHttp, OneThatIsCutOffGetsNothingMore) {
  limits.exchange_bytes_max = 1 << 20;
  start();
  RawClient client = connect();
  client.send(post("/v3/watch", R"({"create_request":{"key":"YQ=="}})"));
  auto watch = backend.next<V3WatchMessage>();
  ASSERT_TRUE(watch);
  WatchResponse large;
  large.add_events()->mutable_kv()->set_value(std::string(8 << 20, 'x'));
  answer(watch->call, part(large), false);
  ASSERT_TRUE(backend.next<V3WatchFlow>());
  answer(watch->call, part(large), false);  // on its way already
  EXPECT_TRUE(backend.next<CancelCall>());
  EXPECT_NE(client.read_to_end(), "TIMEOUT");
}

TEST_F(V3GatewayHttp, ALockIsMadeOfSeveralCallsAndGivenUpWhenTheClientGoes) {
  start();
  RawClient client = connect();
  client.send(post("/v3/lock/lock", R"({"name":"bA==","lease":"31"})"));
  auto join = backend.next<V3Write>();
  ASSERT_TRUE(join);
  TxnResponse joined;
  joined.mutable_header()->set_revision(10);
  joined.set_succeeded(true);
  joined.add_responses()->mutable_response_put();
  joined.add_responses()->mutable_response_range()->add_kvs()->set_create_revision(5);
  answer(join->call, Bytes(joined.SerializeAsString()));
  auto look = backend.next<V3Read>();
  ASSERT_TRUE(look);
  EXPECT_NE(look->call.token, join->call.token);
  client.disconnect();
  EXPECT_EQ(backend.next<CancelCall>()->call.token, look->call.token);
  auto leave = backend.next<V3Write>();
  ASSERT_TRUE(leave);
  EXPECT_EQ(leave->kind, V3WriteKind::kTxn);
}

}  // namespace
}  // namespace rallypoint::server
