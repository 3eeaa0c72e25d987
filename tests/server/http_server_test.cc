#include "server/rpc/http_server.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <thread>

#include "server/rpc/net_loop.h"
#include "tests/server/http_server_fixture.h"

namespace rallypoint::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

using HttpServerShell = HttpServerTest;

TEST_F(HttpServerShell, ListensOnEveryAddressOfLocalhost) {
  options.listen_client_urls = {{"http", "localhost", 0}};
  start();
  const std::string port = ":" + std::to_string(server->port());
  const auto addresses = server->addresses();
  EXPECT_THAT(addresses, testing::Contains("127.0.0.1" + port));
  // A machine without IPv6 has one; then it must not be an error.
  EXPECT_THAT(addresses, testing::Each(testing::AnyOf("127.0.0.1" + port, "[::1]" + port)));
  EXPECT_THAT(connect().ask(get("/livez")), HasSubstr("ok"));
}

TEST_F(HttpServerShell, TakesConnectionsFromTheMomentItListens) {
  server = std::make_unique<HttpServer>(options, backend, limits);
  ASSERT_TRUE(server->listen().is_ok());
  RawClient early = connect();
  ASSERT_TRUE(early.connected());
  ASSERT_TRUE(early.send(get("/livez")));
  server->start();
  EXPECT_THAT(early.read_answer(), HasSubstr("ok"));
}

TEST_F(HttpServerShell, SaysThatAPortIsInUse) {
  start();
  options.listen_client_urls = {{"http", "127.0.0.1", server->port()}};
  HttpServer second(options, backend, limits);
  const Status status = second.listen();
  EXPECT_EQ(status.code(), Code::kAlreadyExists);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("--listen-client-urls"), HasSubstr(options.listen_client_urls[0].to_string()),
                                      HasSubstr("in use"), HasSubstr("choose another port")));
}

TEST_F(HttpServerShell, SaysThatAnAddressIsNotOfThisMachine) {
  options.listen_client_urls = {{"http", "192.0.2.1", 0}};
  HttpServer server(options, backend, limits);
  EXPECT_THAT(server.listen().message(), AllOf(HasSubstr("192.0.2.1"), HasSubstr("does not have the address")));
}

TEST_F(HttpServerShell, CanListenAgainAtOnceOnThePortThatItHad) {
  start();
  RawClient client = connect();
  EXPECT_THAT(client.ask(get("/livez")), HasSubstr("ok"));
  options.listen_client_urls[0].port = server->port();
  server->stop();
  server.reset();
  start();
  EXPECT_THAT(connect().ask(get("/livez")), HasSubstr("ok"));
}

TEST_F(HttpServerShell, StopsWithOpenLongPollsAndHeldRequests) {
  start();
  RawClient watcher = connect(), writer = connect(), idle = connect();
  ASSERT_TRUE(watcher.send(get("/v2/keys/w?wait=true")));
  auto watch = backend.next<V2Watch>();
  ASSERT_TRUE(watch);
  FakeBackend::answer_registered(watch->call, 1);
  watcher.read_until("\r\n\r\n");
  ASSERT_TRUE(writer.send(put("/v2/keys/a", "value=1")));
  auto write = backend.next<V2Write>();
  ASSERT_TRUE(write);
  server->stop();
  EXPECT_NE(watcher.read_to_end(), "TIMEOUT");
  EXPECT_EQ(writer.read_to_end(), "");
  EXPECT_EQ(idle.read_to_end(), "");
  // The node may still answer what it has.
  FakeBackend::answer(write->call, FakeBackend::event(v2::Action::kSet, "/a", "1", 2));
}

TEST_F(HttpServerShell, ServesFiveHundredConnections) {
  backend.answer_at_once = true;
  options.net_threads = 2;
  start();
  std::vector<RawClient> clients;
  for (int i = 0; i < 500; ++i) {
    clients.push_back(connect());
    ASSERT_TRUE(clients.back().connected()) << i;
  }
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < clients.size(); ++i)
      ASSERT_TRUE(clients[i].send(put("/v2/keys/k" + std::to_string(i), "value=" + std::to_string(round))));
    for (size_t i = 0; i < clients.size(); ++i)
      ASSERT_THAT(clients[i].read_answer(), HasSubstr("\"key\":\"/k" + std::to_string(i) + "\""));
  }
  EXPECT_EQ(server->counters().connections.load(), 500u);
  EXPECT_EQ(server->counters().requests.load(), 1500u);
}

TEST_F(HttpServerShell, RefusesConnectionsOverTheLimitAndTakesNewOnesWhenOthersHaveGone) {
  limits.connections_max = 2;
  start();
  RawClient first = connect(), second = connect();
  EXPECT_THAT(first.ask(get("/livez")), HasSubstr("ok"));
  EXPECT_THAT(second.ask(get("/livez")), HasSubstr("ok"));
  EXPECT_THAT(connect().read_to_end(), AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("max-client-connections")));
  first.disconnect();
  // The server sees the close when it sees it: ask until there is room.
  const auto deadline = std::chrono::steady_clock::now() + kTestDeadline;
  std::string answer;
  while (!answer.starts_with("HTTP/1.1 200") && std::chrono::steady_clock::now() < deadline)
    answer = connect().ask(get("/livez"));
  EXPECT_THAT(answer, HasSubstr("ok"));
}

TEST_F(HttpServerShell, SubmitsTogetherWhatCameTogether) {
  // Nothing is read while the loop is held in the first submit; then all others are ready at once.
  struct HoldingBackend final : Backend {
    void submit(std::vector<Request>&& requests) override {
      if (batches.empty()) {
        entered.store(true);
        entered.notify_all();
        release.wait(false);
      }
      std::lock_guard lock(mutex);
      batches.push_back(requests.size());
      total += requests.size();
      grown.notify_all();
    }
    ClusterView cluster_view() const override { return {}; }
    uint64_t cluster_id() const override { return 1; }
    std::atomic<bool> entered{false}, release{false};
    std::mutex mutex;
    std::condition_variable grown;
    std::vector<size_t> batches;
    size_t total = 0;
  } holding;
  HttpServer held(options, holding, limits);
  ASSERT_TRUE(held.listen().is_ok());
  held.start();
  std::vector<RawClient> clients;
  for (int i = 0; i < 33; ++i) {
    clients.emplace_back(held.port());
    ASSERT_THAT(clients.back().ask(get("/livez")), HasSubstr("ok"));
  }
  ASSERT_TRUE(clients[0].send(put("/v2/keys/a", "value=1")));
  holding.entered.wait(false);
  for (size_t i = 1; i < clients.size(); ++i) ASSERT_TRUE(clients[i].send(put("/v2/keys/a", "value=1")));
  holding.release.store(true);
  holding.release.notify_all();
  std::unique_lock lock(holding.mutex);
  ASSERT_TRUE(holding.grown.wait_for(lock, kTestDeadline, [&] { return holding.total == 33; }));
  EXPECT_LE(holding.batches.size(), 3u) << "32 requests that were ready together must not go one by one";
  lock.unlock();
  held.stop();
}

TEST_F(HttpServerShell, SurvivesClientsThatResetWhileItAnswers) {
  backend.answer_at_once = true;
  start();
  for (int i = 0; i < 200; ++i) {
    RawClient client = connect();
    client.send(put("/v2/keys/a", "value=1") + get("/v2/keys/a") + get("/version"));
  }
  EXPECT_THAT(connect().ask(get("/livez")), HasSubstr("ok"));
}

}  // namespace
}  // namespace rallypoint::server
