// FakeRpc: the transport as one handler sees it, and V3Test: a method of the service table that runs on it. Requests to
// the node are kept until the test answers them. Whatever a handler does after the end of its RPC fails the test, as the
// transport might have destroyed it.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>

#include "server/api/v3/services.h"
#include "server/rpc/rpc.h"
#include "storage/etcd_api/rpc.pb.h"
#include "tests/server/fake_backend.h"

namespace rallypoint::server {

class FakeRpc final : public Rpc {
 public:
  void send(const Bytes& message, std::string_view own_part) override {
    EXPECT_FALSE(finished) << "sent after the end";
    sent.push_back(message.to_string() + std::string(own_part));
  }
  void finish(Status status) override {
    EXPECT_FALSE(finished) << "ended twice";
    finished = std::move(status);
  }
  size_t queued_bytes() const override { return queued; }
  Call call() override { return {nullptr, token}; }
  Call new_call() override { return {nullptr, ++token}; }
  void submit(Request&& request) override {
    EXPECT_FALSE(finished && !std::holds_alternative<CancelCall>(request)) << "submitted after the end";
    requests.push_back(std::move(request));
  }
  std::string_view metadata(std::string_view name) const override {
    auto at = headers.find(std::string(name));
    return at == headers.end() ? std::string_view() : at->second;
  }
  Duration time_left() const override { return deadline; }
  Backend& backend() override { return node; }
  void wake_after(Duration delay) override { wake = delay; }

  FakeBackend node;  // for its cluster view
  std::map<std::string, std::string> headers;
  Duration deadline;
  size_t queued = 0;
  uint64_t token = 1;
  std::optional<Duration> wake;  // asked for, and not given yet

  std::vector<std::string> sent;
  std::optional<Status> finished;
  std::deque<Request> requests;
};

class V3Test : public ::testing::Test {
 protected:
  explicit V3Test(const V3Settings& settings = {}) { register_v3_services(table, settings); }

  /// Begins an RPC of "/package.Service/Method".
  void open(std::string_view path) {
    const RpcMethod* method = table.find(path);
    ASSERT_NE(method, nullptr) << path;
    handler = method->make(rpc);
  }
  void message(const google::protobuf::Message& message) { handler->on_message(message.SerializeAsString()); }
  void open(std::string_view path, const google::protobuf::Message& request) {
    open(path);
    if (handler) message(request);
  }

  /// The next request to the node, which must be of type T.
  template <class T>
  T take() {
    if (rpc.requests.empty() || !std::holds_alternative<T>(rpc.requests.front())) {
      ADD_FAILURE() << (rpc.requests.empty() ? "nothing was submitted" : "something else was submitted");
      return {};
    }
    T request = std::get<T>(std::move(rpc.requests.front()));
    rpc.requests.pop_front();
    return request;
  }
  /// The node answers the call that `request` made.
  template <class T>
  void reply(const T& request, decltype(Reply::body) body, bool final = true) {
    Reply reply;
    reply.token = request.call.token;
    reply.body = std::move(body);
    reply.final = final;
    if (reply.token == rpc.token) handler->on_reply(std::move(reply));  // as the transport: old tokens are dropped
  }
  template <class T>
  void reply(const T& request, const google::protobuf::Message& message, bool final = true) {
    reply(request, Bytes(message.SerializeAsString()), final);
  }

  template <class Response>
  Response sent(size_t index = 0) {
    Response response;
    if (index >= rpc.sent.size() || !response.ParseFromString(rpc.sent[index])) ADD_FAILURE() << "no such answer: " << index;
    return response;
  }
  void expect_ended(const Status& status) {
    ASSERT_TRUE(rpc.finished) << "still open";
    EXPECT_EQ(*rpc.finished, status);
  }
  /// The time it asked to be woken after has passed.
  void wake() {
    ASSERT_TRUE(rpc.wake) << "it sleeps for ever";
    rpc.wake.reset();
    handler->on_wake();
  }
  bool idle() const { return rpc.requests.empty(); }

  RpcTable table;
  FakeRpc rpc;
  std::unique_ptr<RpcHandler> handler;
};

template <class T>
T parsed(std::string_view bytes) {
  T message;
  EXPECT_TRUE(message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  return message;
}

}  // namespace rallypoint::server
