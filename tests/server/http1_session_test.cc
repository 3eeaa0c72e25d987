#include <gmock/gmock.h>

#include "tests/server/http_server_fixture.h"

namespace rallypoint::server {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using Http1Session = HttpServerTest;

// ---- well-formed requests -----------------------------------------------------------------------------------

TEST_F(Http1Session, AnswersAndKeepsTheConnection) {
  start();
  RawClient client = connect();
  for (int i = 0; i < 3; ++i) {
    const std::string answer = client.ask(get("/version"));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(answer, HasSubstr("\"etcdserver\":"));
    EXPECT_THAT(answer, Not(HasSubstr("Connection: close")));
  }
}

TEST_F(Http1Session, AnswersPipelinedRequestsInOrder) {
  backend.answer_at_once = true;
  start();
  RawClient client = connect();
  std::string all;
  for (int i = 0; i < 50; ++i) all += i % 2 ? get("/version") : put("/v2/keys/k" + std::to_string(i), "value=v");
  ASSERT_TRUE(client.send(all));
  for (int i = 0; i < 50; ++i) {
    const std::string answer = client.read_answer();
    EXPECT_THAT(answer, HasSubstr(i % 2 ? std::string("etcdcluster") : "\"key\":\"/k" + std::to_string(i) + "\"")) << i;
  }
}

TEST_F(Http1Session, HoldsAPipelinedRequestBackUntilTheOneBeforeItIsAnswered) {
  start();
  RawClient client = connect();
  ASSERT_TRUE(client.send(put("/v2/keys/a", "value=1") + get("/v2/keys/a")));
  auto write = backend.next<V2Write>();
  ASSERT_TRUE(write);
  EXPECT_TRUE(backend.idle());
  FakeBackend::answer(write->call, FakeBackend::event(v2::Action::kSet, "/a", "1", 7));
  EXPECT_THAT(client.read_answer(), HasSubstr("\"modifiedIndex\":7"));
  EXPECT_TRUE(backend.next<V2Read>());
}

TEST_F(Http1Session, TakesARequestThatComesByteByByte) {
  backend.answer_at_once = true;
  start();
  RawClient client = connect();
  for (const char c : put("/v2/keys/slow", "value=drop+by+drop")) ASSERT_TRUE(client.send({&c, 1}));
  EXPECT_THAT(client.read_answer(), HasSubstr("\"value\":\"drop by drop\""));
}

TEST_F(Http1Session, TakesAChunkedBody) {
  backend.answer_at_once = true;
  start();
  RawClient client = connect();
  EXPECT_THAT(client.ask("PUT /v2/keys/c HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
                         "Transfer-Encoding: chunked\r\n\r\n6\r\nvalue=\r\n3\r\nabc\r\n0\r\n\r\n"),
              HasSubstr("\"value\":\"abc\""));
  EXPECT_THAT(client.ask(get("/version")), StartsWith("HTTP/1.1 200"));
}

TEST_F(Http1Session, SendsContinueToAClientThatWaitsForIt) {
  backend.answer_at_once = true;
  start();
  RawClient client = connect();
  ASSERT_TRUE(client.send("PUT /v2/keys/e HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
                          "Content-Length: 7\r\nExpect: 100-continue\r\n\r\n"));
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  ASSERT_TRUE(client.send("value=1"));
  EXPECT_THAT(client.read_answer(), StartsWith("HTTP/1.1 201 Created"));
}

TEST_F(Http1Session, AnswersHeadWithoutABody) {
  start();
  RawClient client = connect();
  ASSERT_TRUE(client.send("HEAD /version HTTP/1.1\r\nHost: x\r\n\r\n" + get("/livez")));
  EXPECT_THAT(client.read_until("\r\n\r\n"), AllOf(HasSubstr("200 OK"), Not(HasSubstr("Content-Length: 0"))));
  EXPECT_THAT(client.read_answer(), AllOf(StartsWith("HTTP/1.1 200"), EndsWith("ok\n")));
}

TEST_F(Http1Session, ClosesBehindAnHttp10Answer) {
  start();
  RawClient client = connect();
  ASSERT_TRUE(client.send("GET /version HTTP/1.0\r\n\r\n"));
  EXPECT_THAT(client.read_to_end(), AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("Connection: close"), EndsWith("}\n")));
}

TEST_F(Http1Session, StillAnswersAClientThatHasClosedItsSendingHalf) {
  start();
  RawClient client = connect();
  ASSERT_TRUE(client.send(put("/v2/keys/h", "value=1")));
  client.end_sending();
  auto write = backend.next<V2Write>();
  ASSERT_TRUE(write);
  FakeBackend::answer(write->call, FakeBackend::event(v2::Action::kSet, "/h", "1", 9));
  EXPECT_THAT(client.read_to_end(), HasSubstr("\"modifiedIndex\":9"));
}

TEST_F(Http1Session, SendsALargeAnswerToASlowReader) {
  start();
  RawClient client = connect();
  ASSERT_TRUE(client.send(get("/v2/keys/big")));
  auto read = backend.next<V2Read>();
  ASSERT_TRUE(read);
  FakeBackend::answer(read->call, FakeBackend::event(v2::Action::kGet, "/big", std::string(20 << 20, 'x'), 9));
  // The server has filled the socket and waits; another client is served meanwhile.
  EXPECT_THAT(connect().ask(get("/version")), HasSubstr("200 OK"));
  EXPECT_GT(client.read_answer().size(), 20u << 20);
  EXPECT_THAT(client.ask(get("/version")), HasSubstr("200 OK"));
}

// ---- refused requests ---------------------------------------------------------------------------------------

TEST_F(Http1Session, RefusesWhatIsNotHttp) {
  start();
  for (const std::string_view garbage :
       {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 tls hello\r\n\r\n", "hello\r\n\r\n", "GET\r\n\r\n", "GET /\r\n\r\n",
        "GET / HTTP/1.1\r\nHost x\r\n\r\n", "GET / HTTP/1.1\r\n: x\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    RawClient client = connect();
    ASSERT_TRUE(client.send(garbage));
    EXPECT_THAT(client.read_to_end(), AllOf(StartsWith("HTTP/1.1 400 Bad Request\r\n"), HasSubstr("Connection: close")))
        << garbage;
  }
  EXPECT_TRUE(backend.idle());
}

TEST_F(Http1Session, RefusesARequestWithoutHost) {
  start();
  RawClient client = connect();
  ASSERT_TRUE(client.send("GET /version HTTP/1.1\r\n\r\n"));
  EXPECT_THAT(client.read_to_end(), AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("missing required Host header")));
}

TEST_F(Http1Session, RefusesAVersionThatItDoesNotSpeak) {
  start();
  RawClient client = connect();
  ASSERT_TRUE(client.send("GET / HTTP/3.0\r\n\r\n"));
  EXPECT_THAT(client.read_to_end(), StartsWith("HTTP/1.1 505"));
}

TEST_F(Http1Session, RefusesEndlessHeaders) {
  limits.header_bytes_max = 4096;
  start();
  RawClient client = connect();
  ASSERT_TRUE(client.send("GET / HTTP/1.1\r\nHost: x\r\n"));
  bool sent = true;
  for (int i = 0; i < 10'000 && sent; ++i) sent = client.send("X-Filler-" + std::to_string(i) + ": 0123456789\r\n");
  EXPECT_THAT(client.read_to_end(), AllOf(StartsWith("HTTP/1.1 431"), HasSubstr("4096 bytes")));
}

TEST_F(Http1Session, RefusesAnEndlessRequestLine) {
  start();
  RawClient client = connect();
  client.send("GET /" + std::string(1 << 20, 'a'));
  EXPECT_THAT(client.read_to_end(), StartsWith("HTTP/1.1 431"));
}

TEST_F(Http1Session, RefusesABodyOverTheLimitBeforeItArrives) {
  limits.body_bytes_max = 1000;
  start();
  RawClient client = connect();
  ASSERT_TRUE(client.send("PUT /v2/keys/b HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n"));
  EXPECT_THAT(client.read_to_end(), AllOf(StartsWith("HTTP/1.1 413"), HasSubstr("max-request-bytes")));
}

TEST_F(Http1Session, RefusesAChunkedBodyOverTheLimit) {
  limits.body_bytes_max = 1000;
  start();
  RawClient client = connect();
  ASSERT_TRUE(client.send("PUT /v2/keys/b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"));
  for (int i = 0; i < 3; ++i) client.send("200\r\n" + std::string(0x200, 'v') + "\r\n");
  EXPECT_THAT(client.read_to_end(), StartsWith("HTTP/1.1 413"));
  EXPECT_TRUE(backend.idle());
}

TEST_F(Http1Session, TakesABodyOfExactlyTheLimit) {
  limits.body_bytes_max = 1000;
  backend.answer_at_once = true;
  start();
  EXPECT_THAT(connect().ask(put("/v2/keys/b", "value=" + std::string(994, 'v'))), StartsWith("HTTP/1.1 201"));
}

// ---- time-outs ----------------------------------------------------------------------------------------------

TEST_F(Http1Session, ClosesAConnectionThatNeverSays) {
  limits.header_timeout = limits.tick = std::chrono::milliseconds(10);
  start();
  RawClient client = connect();
  EXPECT_EQ(client.read_to_end(), "");
}

TEST_F(Http1Session, GivesUpOnAHalfSentRequest) {
  limits.header_timeout = limits.tick = std::chrono::milliseconds(10);
  start();
  RawClient client = connect();
  ASSERT_TRUE(client.send("GET /version HTTP/1.1\r\nHos"));
  EXPECT_THAT(client.read_to_end(), StartsWith("HTTP/1.1 408"));
}

TEST_F(Http1Session, GivesUpOnAHalfSentBody) {
  limits.body_timeout = limits.tick = std::chrono::milliseconds(10);
  start();
  RawClient client = connect();
  ASSERT_TRUE(client.send("PUT /v2/keys/b HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nvalu"));
  EXPECT_THAT(client.read_to_end(), StartsWith("HTTP/1.1 408"));
}

TEST_F(Http1Session, ClosesAnIdleConnection) {
  limits.idle_timeout = limits.tick = std::chrono::milliseconds(10);
  start();
  RawClient client = connect();
  EXPECT_THAT(client.ask(get("/livez")), HasSubstr("ok"));
  EXPECT_EQ(client.read_to_end(), "");
}

TEST_F(Http1Session, DoesNotTimeOutARequestThatTheNodeHolds) {
  limits.header_timeout = limits.body_timeout = limits.idle_timeout = limits.tick = std::chrono::milliseconds(10);
  start();
  RawClient client = connect();
  ASSERT_TRUE(client.send(put("/v2/keys/held", "value=1")));
  auto write = backend.next<V2Write>();
  ASSERT_TRUE(write);
  // Time must pass on the server: another connection, opened later, runs into all of these time-outs.
  EXPECT_EQ(connect().read_to_end(), "");
  EXPECT_EQ(connect().read_to_end(), "");
  FakeBackend::answer(write->call, FakeBackend::event(v2::Action::kSet, "/held", "1", 9));
  EXPECT_THAT(client.read_answer(), HasSubstr("\"modifiedIndex\":9"));
}

// ---- watches ------------------------------------------------------------------------------------------------

TEST_F(Http1Session, SendsTheHeadOfAWatchBeforeItsEvent) {
  start();
  RawClient client = connect();
  ASSERT_TRUE(client.send(get("/v2/keys/w?wait=true")));
  auto watch = backend.next<V2Watch>();
  ASSERT_TRUE(watch);
  FakeBackend::answer_registered(watch->call, 41);
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_THAT(head, AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("X-Etcd-Index: 41\r\n"),
                          HasSubstr("X-Raft-Index: 46\r\n"), HasSubstr("X-Raft-Term: 2\r\n"),
                          HasSubstr("Transfer-Encoding: chunked\r\n"),
                          HasSubstr("X-Etcd-Cluster-Id: cdf818194e3a8c32\r\n")));

  FakeBackend::answer(watch->call, FakeBackend::event(v2::Action::kSet, "/w", "v", 42));
  const std::string body = client.read_until("0\r\n\r\n");
  EXPECT_THAT(body, HasSubstr("\"modifiedIndex\":42"));
  EXPECT_THAT(client.ask(get("/version")), StartsWith("HTTP/1.1 200")) << "the connection must be usable again";
}

TEST_F(Http1Session, SendsTheEventsOfAStreamAsTheyCome) {
  start();
  RawClient client = connect();
  ASSERT_TRUE(client.send(get("/v2/keys/w?wait=true&stream=true&recursive=true")));
  auto watch = backend.next<V2Watch>();
  ASSERT_TRUE(watch);
  EXPECT_TRUE(watch->request.stream);
  FakeBackend::answer_registered(watch->call, 1);
  client.read_until("\r\n\r\n");
  for (uint64_t index = 2; index < 5; ++index) {
    Reply reply;
    reply.body = FakeBackend::event(v2::Action::kSet, "/w/x", "v", index);
    reply.final = false;
    if (index == 3) reply.encoded = Bytes::copy_of("{\"shared\":3}\n");
    FakeBackend::answer(watch->call, std::move(reply));
    const std::string size = client.read_until("\r\n");
    const std::string chunk = client.read_bytes(std::strtoul(size.c_str(), nullptr, 16));
    EXPECT_THAT(chunk, HasSubstr(index == 3 ? std::string("{\"shared\":3}\n") : "\"modifiedIndex\":" + std::to_string(index)));
    client.read_until("\r\n");
  }
}

TEST_F(Http1Session, CancelsTheWatchOfAClientThatHasGone) {
  start();
  RawClient client = connect();
  ASSERT_TRUE(client.send(get("/v2/keys/w?wait=true")));
  auto watch = backend.next<V2Watch>();
  ASSERT_TRUE(watch);
  FakeBackend::answer_registered(watch->call, 1);
  client.read_until("\r\n\r\n");
  client.disconnect();
  auto cancel = backend.next<CancelWatch>();
  ASSERT_TRUE(cancel);
  EXPECT_EQ(cancel->call.token, watch->call.token);
  // A reply that was under way finds nobody and harms nobody, also not the connection that has the place now.
  RawClient other = connect();
  EXPECT_THAT(other.ask(get("/livez")), HasSubstr("ok"));
  FakeBackend::answer(watch->call, FakeBackend::event(v2::Action::kSet, "/w", "v", 2));
  EXPECT_THAT(other.ask(get("/livez")), AllOf(HasSubstr("ok"), Not(HasSubstr("action"))));
}

TEST_F(Http1Session, CancelsTheWatchOfAClientThatClosesBeforeTheHead) {
  start();
  RawClient client = connect();
  ASSERT_TRUE(client.send(get("/v2/keys/w?wait=true")));
  client.disconnect();
  ASSERT_TRUE(backend.next<V2Watch>());
  EXPECT_TRUE(backend.next<CancelWatch>());
}

TEST_F(Http1Session, ClosesAStreamThatIsNotRead) {
  limits.stream_bytes_max = 1 << 20;
  start();
  RawClient client = connect();
  ASSERT_TRUE(client.send(get("/v2/keys/w?wait=true&stream=true")));
  auto watch = backend.next<V2Watch>();
  ASSERT_TRUE(watch);
  FakeBackend::answer_registered(watch->call, 1);
  for (int i = 0; i < 40; ++i) {
    Reply reply;
    reply.body = FakeBackend::event(v2::Action::kSet, "/w", std::string(1 << 20, 'x'), 2);
    reply.final = false;
    FakeBackend::answer(watch->call, std::move(reply));
  }
  EXPECT_TRUE(backend.next<CancelWatch>());
}

TEST_F(Http1Session, ReportsAWatchThatFailsAfterItsHead) {
  start();
  RawClient client = connect();
  ASSERT_TRUE(client.send(get("/v2/keys/w?wait=true")));
  auto watch = backend.next<V2Watch>();
  ASSERT_TRUE(watch);
  FakeBackend::answer_registered(watch->call, 1);
  Reply reply;
  reply.body = v2::Error{400, "", 5};
  FakeBackend::answer(watch->call, std::move(reply));
  EXPECT_THAT(client.read_until("0\r\n\r\n"), HasSubstr("\"errorCode\":400"));
}

}  // namespace
}  // namespace rallypoint::server
