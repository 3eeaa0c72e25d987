// gRPC calls over real connections, as the protocol's document has them: one request or many, one answer or many, errors,
// deadlines, cancellation, and what becomes of them when the node stops.
#include <algorithm>
#include <set>

#include "tests/server/http2_fixture.h"

namespace rallypoint::server {
namespace {

using namespace etcdserverpb;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

using Http2Calls = Http2Test;

constexpr int kInvalidArgument = 3, kDeadlineExceeded = 4, kUnimplemented = 12, kInternal = 13, kUnavailable = 14;

TEST_F(Http2Calls, AUnaryCallHasAHeadAMessageAndTrailers) {
  start();
  RawH2Client client(server->port());
  ASSERT_TRUE(client.greet());
  const int32_t stream = client.call(kRangePath, range());
  auto read = backend.next<V3Read>();
  ASSERT_TRUE(read);
  EXPECT_EQ(static_cast<const RangeRequest&>(*read->message).key(), "a");
  answer(read->call, pairs(3));
  const auto& got = client.wait(stream);
  EXPECT_THAT(got.head, ElementsAre(Pair(":status", "200"), Pair("content-type", "application/grpc")));
  EXPECT_THAT(got.messages(), ElementsAre(pairs(3).SerializeAsString()));
  EXPECT_THAT(got.trailers, ElementsAre(Pair("grpc-status", "0")));
  EXPECT_TRUE(got.ended);
  EXPECT_FALSE(got.reset);
}

// Go's client of etcd 3.4 sends its endpoint as it was given, scheme and all.
TEST_F(Http2Calls, TheAuthorityIsTheCallersBusiness) {
  start();
  RawH2Client client(server->port());
  client.greet();
  for (const char* authority : {"http://127.0.0.1:2379", "endpoint://client-1/127.0.0.1:2379", "a", ""}) {
    auto fields = RawH2Client::head(kRangePath);
    std::find_if(fields.begin(), fields.end(), [](const auto& field) { return field.first == ":authority"; })->second = authority;
    const int32_t stream = client.open(fields);
    client.write(stream, range().SerializeAsString(), true);
    auto read = backend.next<V3Read>();
    ASSERT_TRUE(read) << authority;
    answer(read->call, pairs(1));
    EXPECT_EQ(client.wait(stream).status(), 0) << authority;
  }
}

TEST_F(Http2Calls, AnEmptyMessageIsAMessage) {
  start();
  RawH2Client client(server->port());
  client.greet();
  const int32_t stream = client.call(kPutPath, put());
  answer(backend.next<V3Write>()->call, Bytes());
  EXPECT_EQ(client.wait(stream).body, std::string(5, '\0'));
  EXPECT_EQ(client.wait(stream).status(), 0);
}

TEST_F(Http2Calls, AnErrorIsOneFrame) {
  start();
  RawH2Client client(server->port());
  client.greet();
  const auto& got = client.wait(client.call(kRangePath, RangeRequest()));
  EXPECT_EQ(got.header_frames, 1u);
  EXPECT_THAT(got.head, ElementsAre(Pair(":status", "200"), Pair("content-type", "application/grpc"), Pair("grpc-status", "3"),
                                    Pair("grpc-message", "etcdserver: key is not provided")));
  EXPECT_THAT(got.body, IsEmpty());
  EXPECT_EQ(got.status(), kInvalidArgument);
  EXPECT_TRUE(backend.idle());
}

TEST_F(Http2Calls, WhatIsNotPrintableInAnErrorIsEncoded) {
  start();
  RawH2Client client(server->port());
  client.greet();
  const int32_t stream = client.call(kRangePath, range());
  answer(backend.next<V3Read>()->call, Status::unavailable("100% of n\u00fcll\n"));
  EXPECT_EQ(client.wait(stream).text(), "100%25 of n%C3%BCll%0A");
}

TEST_F(Http2Calls, AnUnknownOutcomeIsUnavailableToAClient) {
  start();
  RawH2Client client(server->port());
  client.greet();
  const int32_t stream = client.call(kPutPath, put());
  answer(backend.next<V3Write>()->call, Status(Code::kOutcomeUnknown, "lost"));
  EXPECT_EQ(client.wait(stream).status(), kUnavailable);
  EXPECT_EQ(client.wait(stream).text(), "etcdserver: request timed out");
}

TEST_F(Http2Calls, ManyCallsOnOneConnectionAreAnsweredInAnyOrder) {
  start();
  RawH2Client client(server->port());
  client.greet();
  std::vector<int32_t> streams;
  std::vector<Call> calls;
  for (int i = 0; i < 100; ++i) streams.push_back(client.call(kRangePath, range(std::to_string(i))));
  for (int i = 0; i < 100; ++i) {
    auto read = backend.next<V3Read>();
    ASSERT_TRUE(read);
    EXPECT_EQ(static_cast<const RangeRequest&>(*read->message).key(), std::to_string(i));
    calls.push_back(read->call);
  }
  for (size_t i = calls.size(); i-- > 0;) answer(calls[i], pairs(i));
  for (size_t i = 0; i < streams.size(); ++i) EXPECT_THAT(client.wait(streams[i]).messages(), ElementsAre(pairs(i).SerializeAsString()));
}

TEST_F(Http2Calls, AMessageMayComeByteByByteAndTogetherWithTheNext) {
  start();
  RawH2Client client(server->port());
  client.greet();
  const int32_t slow = client.open(kRangePath);
  const std::string bytes = h2::message(range().SerializeAsString());
  for (size_t i = 0; i < bytes.size(); ++i) client.send(h2::kData, i + 1 == bytes.size() ? h2::kEndStream : h2::kNone, slow, bytes.substr(i, 1));
  auto read = backend.next<V3Read>();
  ASSERT_TRUE(read);
  answer(read->call, pairs(1));
  EXPECT_EQ(client.wait(slow).status(), 0);

  const int32_t fast = client.open(kKeepAlivePath);
  LeaseKeepAliveRequest one, two;
  one.set_id(1);
  two.set_id(2);
  client.write_bytes(fast, h2::message(one.SerializeAsString()) + h2::message(two.SerializeAsString()), false);
  EXPECT_EQ(backend.next<V3KeepAlive>()->lease, 1);
  EXPECT_EQ(backend.next<V3KeepAlive>()->lease, 2);
}

TEST_F(Http2Calls, AServerStreamAsksForEachPart) {
  start();
  RawH2Client client(server->port());
  client.greet();
  const int32_t stream = client.call(kRangeStreamPath, range());
  auto read = backend.next<V3Read>();
  ASSERT_TRUE(read);
  EXPECT_EQ(read->kind, V3Read::Kind::kRangeStream);
  answer(read->call, pairs(1), false);
  ASSERT_TRUE(backend.next<V3More>());
  EXPECT_THAT(client.wait_messages(stream, 1), ElementsAre(pairs(1).SerializeAsString())) << "the first part comes before the last is made";
  answer(read->call, pairs(2), false);
  ASSERT_TRUE(backend.next<V3More>());
  answer(read->call, pairs(3));
  const auto& got = client.wait(stream);
  EXPECT_EQ(got.messages().size(), 3u);
  EXPECT_EQ(got.status(), 0);
}

TEST_F(Http2Calls, AStreamThatFailsInTheMiddleSaysSoInTheTrailers) {
  start();
  RawH2Client client(server->port());
  client.greet();
  const int32_t stream = client.call(kRangeStreamPath, range());
  auto read = backend.next<V3Read>();
  answer(read->call, pairs(1), false);
  ASSERT_TRUE(backend.next<V3More>());
  answer(read->call, Status(Code::kOutOfRange, "etcdserver: mvcc: required revision has been compacted"));
  const auto& got = client.wait(stream);
  EXPECT_EQ(got.messages().size(), 1u);
  EXPECT_THAT(got.trailers, ElementsAre(Pair("grpc-status", "11"), Pair("grpc-message", "etcdserver: mvcc: required revision has been compacted")));
}

TEST_F(Http2Calls, AWatchGoesBothWaysUntilItIsReset) {
  start();
  RawH2Client client(server->port());
  client.greet();
  const int32_t stream = client.open(kWatchPath);
  client.write(stream, watch("a").SerializeAsString());
  client.write(stream, watch("b").SerializeAsString());
  auto first = backend.next<V3WatchMessage>(), second = backend.next<V3WatchMessage>();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->call.token, second->call.token) << "one stream is one call";
  EXPECT_EQ(static_cast<const WatchRequest&>(*second->message).create_request().key(), "b");
  answer(first->call, WatchParts{{{7, Bytes(event(1).SerializeAsString())}}}, false);
  WatchResponse expected = event(1);
  expected.set_watch_id(7);
  WatchResponse got;
  const auto messages = client.wait_messages(stream, 1);
  ASSERT_EQ(messages.size(), 1u);
  ASSERT_TRUE(got.ParseFromString(messages[0]));
  EXPECT_EQ(got.watch_id(), 7);
  EXPECT_EQ(got.events_size(), 1);
  // It sends nothing more, and still wants its events.
  client.send(h2::kData, h2::kEndStream, stream);
  answer(first->call, part(event(2)), false);
  EXPECT_EQ(client.wait_messages(stream, 2).size(), 2u);
  client.reset(stream);
  auto cancel = backend.next<CancelCall>();
  ASSERT_TRUE(cancel);
  EXPECT_EQ(cancel->call.token, first->call.token);
  answer(first->call, part(event(3)), false);  // was on its way
  EXPECT_TRUE(client.alive());
  EXPECT_EQ(client.streams[stream].messages().size(), 2u);
}

TEST_F(Http2Calls, AHalfClosedKeepAliveEndsWithItsLastAnswer) {
  start();
  RawH2Client client(server->port());
  client.greet();
  const int32_t stream = client.open(kKeepAlivePath);
  LeaseKeepAliveRequest request;
  request.set_id(1);
  client.write(stream, request.SerializeAsString(), true);
  auto keep = backend.next<V3KeepAlive>();
  ASSERT_TRUE(keep);
  ASSERT_TRUE(client.alive());
  EXPECT_FALSE(client.streams[stream].ended);
  answer(keep->call, LeaseKeepAliveResponse(), true);
  EXPECT_EQ(client.wait(stream).status(), 0);
}

TEST_F(Http2Calls, TheDeadlineReachesTheNodeAndEndsTheCall) {
  start();
  RawH2Client client(server->port());
  client.greet();
  const int32_t long_one = client.call(kPutPath, put(), {{"grpc-timeout", "2H"}});
  auto write = backend.next<V3Write>();
  ASSERT_TRUE(write);
  EXPECT_LE(write->timeout, Duration::seconds(7200));
  EXPECT_GT(write->timeout, Duration::seconds(7100));
  const int32_t short_one = client.call(kRangePath, range(), {{"grpc-timeout", "20000u"}});
  auto read = backend.next<V3Read>();
  ASSERT_TRUE(read);
  const auto& got = client.wait(short_one);
  EXPECT_EQ(got.status(), kDeadlineExceeded);
  EXPECT_EQ(got.text(), "context deadline exceeded");
  EXPECT_EQ(backend.next<CancelCall>()->call.token, read->call.token);
  answer(read->call, pairs(1));  // too late, and harmless
  answer(write->call, Bytes());
  EXPECT_EQ(client.wait(long_one).status(), 0);
}

TEST_F(Http2Calls, ADeadlineThatIsNoneIsRefused) {
  start();
  RawH2Client client(server->port());
  client.greet();
  for (const char* bad : {"", "S", "10", "+1S", "-1S", "1x", "123456789S", "1.5S"}) {
    const auto& got = client.wait(client.call(kRangePath, range(), {{"grpc-timeout", bad}}));
    EXPECT_EQ(got.status(), kInternal) << bad;
    EXPECT_THAT(got.text(), HasSubstr("grpc-timeout")) << bad;
  }
  EXPECT_TRUE(backend.idle());
  EXPECT_EQ(client.wait(client.call(kRangePath, range(), {{"grpc-timeout", "0S"}})).status(), kDeadlineExceeded);
}

TEST_F(Http2Calls, AResetOrALostConnectionCancelsWhatTheNodeHolds) {
  start();
  auto client = std::make_unique<RawH2Client>(server->port());
  client->greet();
  const int32_t read = client->call(kRangePath, range());
  auto reading = backend.next<V3Read>();
  client->reset(read);
  EXPECT_EQ(backend.next<CancelCall>()->call.token, reading->call.token);
  const int32_t stream = client->open(kWatchPath);
  client->write(stream, watch().SerializeAsString());
  auto watching = backend.next<V3WatchMessage>();
  client->call(kPutPath, put());
  auto writing = backend.next<V3Write>();
  client.reset();
  std::set<uint64_t> cancelled;
  for (int i = 0; i < 2; ++i) cancelled.insert(backend.next<CancelCall>()->call.token);
  EXPECT_EQ(cancelled, (std::set{watching->call.token, writing->call.token}));
}

TEST_F(Http2Calls, MetadataReachesTheHandler) {
  backend.view.leader_id = 0;
  start();
  RawH2Client client(server->port());
  client.greet();
  client.call(kPutPath, put(), {{"rallypoint-idempotency-key", "once"}});
  EXPECT_EQ(backend.next<V3Write>()->idempotency_key, "once");
  const auto& got = client.wait(client.call(kPutPath, put(), {{"hasleader", "true"}}));
  EXPECT_EQ(got.status(), kUnavailable);
  EXPECT_EQ(got.text(), "etcdserver: no leader");
  const auto& long_key = client.wait(client.call(kPutPath, put(), {{"rallypoint-idempotency-key", std::string(129, 'k')}}));
  EXPECT_EQ(long_key.status(), kInvalidArgument);
}

TEST_F(Http2Calls, UnknownMethodsAreNamed) {
  start();
  RawH2Client client(server->port());
  client.greet();
  const auto text_of = [&](const std::string& path) {
    const auto& got = client.wait(client.call(path, range()));
    EXPECT_EQ(got.status(), kUnimplemented) << path;
    return got.text();
  };
  EXPECT_EQ(text_of("/etcdserverpb.KV/Nope"), "unknown method Nope for service etcdserverpb.KV");
  EXPECT_EQ(text_of("/nobody.Here/Nope"), "unknown service nobody.Here");
  EXPECT_EQ(text_of("/etcdserverpb.KV/"), "unknown method  for service etcdserverpb.KV");
  text_of("/");
  text_of("//");
  text_of("/etcdserverpb.KV");
  EXPECT_TRUE(client.alive());
}

TEST_F(Http2Calls, ALongPathIsNotEchoedWhole) {
  start();
  RawH2Client client(server->port());
  client.greet();
  const int32_t stream = client.next_stream();
  const std::string block = client.block(RawH2Client::head("/" + std::string(40'000, '%') + "/x"));
  client.send(h2::kHeaders, h2::kNone, stream, block.substr(0, 16384));
  client.send(h2::kContinuation, h2::kEndHeaders, stream, block.substr(16384));
  client.write(stream, range().SerializeAsString(), true);
  const auto& got = client.wait(stream);
  EXPECT_EQ(got.status(), kUnimplemented);
  EXPECT_LT(got.text().size(), 8000u);
}

TEST_F(Http2Calls, WhatIsNotGrpcIsToldSoInHttpsOwnWords) {
  start();
  RawH2Client client(server->port());
  client.greet();
  const auto status_of = [&](std::vector<h2::Field> fields) { return client.wait(client.open(fields, true)).field(":status"); };
  auto fields = RawH2Client::head(kRangePath);
  fields[4].second = "application/json";
  EXPECT_EQ(status_of(fields), "415");
  fields[4].second = "application/grpc-web+proto";
  EXPECT_EQ(status_of(fields), "415");
  fields.erase(fields.begin() + 4);
  EXPECT_EQ(status_of(fields), "415");
  fields = RawH2Client::head(kRangePath);
  fields[0].second = "GET";
  EXPECT_EQ(status_of(fields), "405");
  EXPECT_TRUE(client.alive());
}

TEST_F(Http2Calls, AsInEtcdTeMayBeMissingAndTheContentTypeMayNameItsCodec) {
  start();
  RawH2Client client(server->port());
  client.greet();
  auto fields = RawH2Client::head(kRangePath);
  fields.pop_back();
  for (const char* type : {"application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"}) {
    fields[4].second = type;
    const int32_t stream = client.open(fields);
    client.write(stream, range().SerializeAsString(), true);
    auto read = backend.next<V3Read>();
    ASSERT_TRUE(read) << type;
    answer(read->call, pairs(1));
    EXPECT_EQ(client.wait(stream).status(), 0);
  }
}

TEST_F(Http2Calls, AUnaryCallTakesExactlyOneWholeMessage) {
  start();
  RawH2Client client(server->port());
  client.greet();
  const int32_t none = client.open(RawH2Client::head(kRangePath), true);
  EXPECT_EQ(client.wait(none).status(), kInternal);
  const int32_t half = client.open(kRangePath);
  client.write_bytes(half, h2::message(range().SerializeAsString()).substr(0, 6), true);
  EXPECT_EQ(client.wait(half).status(), kInternal);
  EXPECT_THAT(client.wait(half).text(), HasSubstr("inside of a message"));
  const int32_t two = client.open(kRangePath);
  client.write(two, range().SerializeAsString());
  auto read = backend.next<V3Read>();
  client.write(two, range().SerializeAsString());
  EXPECT_EQ(client.wait(two).status(), kInternal);
  EXPECT_EQ(backend.next<CancelCall>()->call.token, read->call.token);
  const int32_t garbage = client.open(kRangePath);
  client.write(garbage, "\xff\xff\xff", true);
  EXPECT_EQ(client.wait(garbage).status(), kInternal);
  EXPECT_THAT(client.wait(garbage).text(), HasSubstr("etcdserverpb.RangeRequest"));
}

TEST_F(Http2Calls, AStoppingNodeEndsItsCallsAndSendsClientsAway) {
  start();
  RawH2Client client(server->port());
  client.greet();
  const int32_t unary = client.call(kRangePath, range());
  ASSERT_TRUE(backend.next<V3Read>());
  const int32_t stream = client.open(kWatchPath);
  client.write(stream, watch().SerializeAsString());
  auto watching = backend.next<V3WatchMessage>();
  answer(watching->call, part(event(1)), false);
  ASSERT_EQ(client.wait_messages(stream, 1).size(), 1u);
  server->stop();
  EXPECT_TRUE(client.wait_closed());
  EXPECT_EQ(client.streams[unary].status(), kUnavailable);
  EXPECT_EQ(client.streams[unary].text(), "etcdserver: server stopped");
  EXPECT_EQ(client.streams[stream].status(), kUnavailable);
  ASSERT_TRUE(client.goaway);
  EXPECT_EQ(*client.goaway, 0u);
}

TEST_F(Http2Calls, PingsAreAnsweredWhileNothingElseHappens) {
  start();
  RawH2Client client(server->port());
  client.greet();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(client.alive());
  EXPECT_FALSE(client.goaway);
}

}  // namespace
}  // namespace rallypoint::server
