#include "server/api/v3/gateway.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api/v3/services.h"
#include "storage/etcd_api/rpc.pb.h"
#include "tests/server/fake_backend.h"
#include "tests/v3/fake_responder.h"

namespace rallypoint::server {
namespace {

using namespace etcdserverpb;
using testing::HasSubstr;

class V3Gateway : public testing::Test {
 protected:
  V3Gateway() { register_v3_services(table, {}); }

  void ask(std::string_view path, std::string body, std::string_view method = "POST") {
    body_ = std::move(body);
    HttpRequest request;
    request.method = method;
    request.target = request.path = path;
    request.body = body_;
    request.metadata = metadata;
    handler = std::make_unique<v3::GatewayHandler>(table, backend, path.starts_with("/v3beta") ? "/v3beta" : "/v3");
    handler->handle(request, http);
  }
  template <class T>
  T take() {
    if (http.requests.empty() || !std::holds_alternative<T>(http.requests.front())) {
      ADD_FAILURE() << "not submitted";
      return {};
    }
    T request = std::get<T>(std::move(http.requests.front()));
    http.requests.pop_front();
    return request;
  }
  void reply(decltype(Reply::body) body, bool final = true) {
    ASSERT_TRUE(http.exchange);
    Reply reply;
    reply.token = http.token;
    reply.body = std::move(body);
    reply.final = final;
    http.exchange->on_reply(std::move(reply));
  }
  static Bytes encoded(const google::protobuf::Message& message) { return Bytes(message.SerializeAsString()); }

  RpcTable table;
  FakeBackend backend;
  FakeResponder http;
  std::vector<HttpField> metadata;
  std::unique_ptr<v3::GatewayHandler> handler;
  std::string body_;
};

TEST_F(V3Gateway, ARequestBecomesAMessageAndTheAnswerBecomesJson) {
  ask("/v3/kv/put", R"({"key":"aw==","value":"dg=="})");
  auto write = take<V3Write>();
  PutRequest request;
  ASSERT_TRUE(request.ParseFromString(write.message.to_string()));
  EXPECT_EQ(request.key(), "k");
  EXPECT_EQ(request.value(), "v");
  PutResponse response;
  response.mutable_header()->set_revision(7);
  reply(encoded(response));
  EXPECT_EQ(http.status, 200);
  EXPECT_EQ(http.content_type, "application/json");
  EXPECT_EQ(http.body, R"({"header":{"revision":"7"}})");
  EXPECT_TRUE(http.ended);
}

TEST_F(V3Gateway, TheOldPrefixIsServedToo) {
  ask("/v3beta/kv/range", R"({"key":"aw=="})");
  take<V3Read>();
}

TEST_F(V3Gateway, AnEmptyBodyIsAnEmptyRequest) {
  ask("/v3/lease/leases", "");
  EXPECT_EQ(take<V3Read>().kind, V3Read::Kind::kLeaseLeases);
  reply(Bytes());
  EXPECT_EQ(http.body, "{}");
}

TEST_F(V3Gateway, AnErrorHasTheFieldsOfAllVersions) {
  ask("/v3/kv/put", R"({"nokey":"aw=="})");
  EXPECT_EQ(http.status, 400);
  EXPECT_EQ(http.body, R"({"error":"etcdserver: key is not provided","message":"etcdserver: key is not provided","code":3,"details":[]})");
}

TEST_F(V3Gateway, JsonThatIsNoneIsABadRequest) {
  for (const char* body : {"{", "[]", R"({"key":5})", R"({"key":"aw=="} x)"}) {
    http = {};
    ask("/v3/kv/put", body);
    EXPECT_EQ(http.status, 400) << body;
    EXPECT_THAT(http.body, HasSubstr("\"code\":3")) << body;
    EXPECT_TRUE(http.requests.empty()) << body;
  }
}

TEST_F(V3Gateway, EachCodeHasItsHttpStatus) {
  const std::vector<std::pair<Code, int>> expected = {
      {Code::kCancelled, 499}, {Code::kUnknown, 500}, {Code::kInvalidArgument, 400}, {Code::kDeadlineExceeded, 504},
      {Code::kNotFound, 404}, {Code::kAlreadyExists, 409}, {Code::kPermissionDenied, 403}, {Code::kResourceExhausted, 429},
      {Code::kFailedPrecondition, 400}, {Code::kAborted, 409}, {Code::kOutOfRange, 400}, {Code::kUnimplemented, 501},
      {Code::kInternal, 500}, {Code::kUnavailable, 503}, {Code::kDataLoss, 500}, {Code::kUnauthenticated, 401}};
  for (const auto& [code, status] : expected) {
    http = {};
    ask("/v3/kv/put", R"({"key":"aw=="})");
    reply(Status(code, "why"));
    EXPECT_EQ(http.status, status) << code_name(code);
    EXPECT_THAT(http.body, HasSubstr("\"code\":" + std::to_string(static_cast<int>(code)))) << code_name(code);
  }
}

TEST_F(V3Gateway, AnAnswerThatIsNoTextIsAnInternalError) {
  backend.view.members[0].name = "\xff";
  ask("/v3/cluster/member/list", "");
  EXPECT_EQ(http.status, 500);
}

TEST_F(V3Gateway, OnlyPostIsServed) {
  for (const char* method : {"GET", "PUT", "DELETE", "HEAD"}) {
    http = {};
    ask("/v3/kv/range", "", method);
    EXPECT_EQ(http.status, 405) << method;
  }
}

TEST_F(V3Gateway, WhatIsNotThereIsNotFound) {
  for (const char* path : {"/v3/kv/nothing", "/v3", "/v3/", "/v3/kv/rangestream", "/v3/kv/put/"}) {
    http = {};
    ask(path, "{}");
    EXPECT_EQ(http.status, 404) << path;
    EXPECT_THAT(http.body, HasSubstr("Not Found")) << path;
  }
}

TEST_F(V3Gateway, BrowsersMayAskFromAnywhere) {
  ask("/v3/kv/range", "", "OPTIONS");
  EXPECT_EQ(http.status, 200);
  EXPECT_EQ(http.fields["Access-Control-Allow-Origin"], "*");
  http = {};
  ask("/v3/kv/put", "{}");
  EXPECT_EQ(http.fields["Access-Control-Allow-Origin"], "*") << "errors too";
}

TEST_F(V3Gateway, EveryMethodButRangeStreamAndHealthHasAPath) {
  for (const auto& method : table.methods())
    EXPECT_EQ(method->gateway_paths.empty(), method->path == "/etcdserverpb.KV/RangeStream" || method->path.starts_with("/grpc.health"))
        << method->path;
}

TEST_F(V3Gateway, MetadataComesAsHeaderFields) {
  metadata = {{"rallypoint-idempotency-key", "once"}, {"hasleader", "true"}};
  ask("/v3/kv/put", R"({"key":"aw=="})");
  EXPECT_EQ(take<V3Write>().idempotency_key, "once");
  http = {};
  backend.view.leader_id = 0;
  ask("/v3/kv/put", R"({"key":"aw=="})");
  EXPECT_EQ(http.status, 503);
  EXPECT_THAT(http.body, HasSubstr("etcdserver: no leader"));
}

// ---- streams ----

WatchParts part(int64_t watch_id, const WatchResponse& response) { return {{{watch_id, Bytes(response.SerializeAsString())}}}; }

TEST_F(V3Gateway, AWatchStreamsALineForEachResponseUntilTheClientGoes) {
  ask("/v3/watch", R"({"create_request":{"key":"aw=="}} {"create_request":{"key":"bA==","watch_id":5}})");
  auto first = take<V3WatchMessage>(), second = take<V3WatchMessage>();
  EXPECT_EQ(static_cast<WatchRequest&>(*second.message).create_request().key(), "l");
  EXPECT_EQ(first.call.token, second.call.token);
  EXPECT_EQ(http.status, 0) << "nothing to say yet";
  WatchResponse created;
  created.set_created(true);
  reply(part(0, created), false);
  reply(part(5, created), false);
  EXPECT_EQ(http.status, 200);
  EXPECT_EQ(http.body, "{\"result\":{\"created\":true}}\n{\"result\":{\"watch_id\":\"5\",\"created\":true}}\n");
  EXPECT_FALSE(http.ended);
  EXPECT_TRUE(http.exchange->lasts());
  http.exchange->on_gone();
  EXPECT_EQ(take<CancelCall>().call.token, first.call.token);
}

TEST_F(V3Gateway, ASlowClientsWatchIsHeldBack) {
  ask("/v3/watch", R"({"create_request":{"key":"aw=="}})");
  take<V3WatchMessage>();
  http.queued = kRpcStreamHighWater + 1;
  reply(part(0, {}), false);
  EXPECT_FALSE(take<V3WatchFlow>().open);
  http.queued = 0;
  http.exchange->on_writable();
  EXPECT_TRUE(take<V3WatchFlow>().open);
}

TEST_F(V3Gateway, AnErrorInTheMiddleOfAStreamIsALineOfItsOwn) {
  ask("/v3/watch", R"({"create_request":{"key":"aw=="}})");
  take<V3WatchMessage>();
  reply(part(0, {}), false);
  reply(Status::unavailable("etcdserver: no leader"));
  EXPECT_EQ(http.body,
            "{\"result\":{}}\n"
            R"({"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader","http_status":"Service Unavailable","code":14,"details":[]}})"
            "\n");
  EXPECT_TRUE(http.ended);
}

TEST_F(V3Gateway, AnErrorBeforeAStreamBeginsIsAnAnswer) {
  ask("/v3/watch", R"({"create_request":{"key":"aw=="}} {"create_request":5})");
  EXPECT_EQ(http.status, 400);
  EXPECT_TRUE(http.ended);
  take<V3WatchMessage>();
  take<CancelCall>();  // what the first one has begun
}

TEST_F(V3Gateway, OneKeepAliveHasOneResult) {
  ask("/v3/lease/keepalive", R"({"ID":"7"})");
  EXPECT_EQ(take<V3KeepAlive>().lease, 7);
  LeaseKeepAliveResponse response;
  response.set_id(7);
  response.set_ttl(10);
  reply(encoded(response), false);
  EXPECT_EQ(http.body, "{\"result\":{\"ID\":\"7\",\"TTL\":\"10\"}}\n");
  EXPECT_TRUE(http.ended);
}

TEST_F(V3Gateway, ASnapshotIsAStream) {
  ask("/v3/maintenance/snapshot", "");
  take<V3Snapshot>();
  SnapshotResponse response;
  response.set_blob("ab");
  reply(encoded(response), false);
  take<V3More>();
  reply(encoded(response), true);
  EXPECT_EQ(http.body, "{\"result\":{\"blob\":\"YWI=\"}}\n{\"result\":{\"blob\":\"YWI=\"}}\n");
  EXPECT_TRUE(http.ended);
}

TEST_F(V3Gateway, AClientThatGoesLosesItsPlaceInALocksQueue) {
  ask("/v3/lock/lock", R"({"name":"bA==","lease":"31"})");
  take<V3Write>();
  EXPECT_TRUE(http.exchange->lasts());
  http.exchange->on_gone();
  take<CancelCall>();
}

}  // namespace
}  // namespace rallypoint::server
