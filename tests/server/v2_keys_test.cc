// The v2 keys handler on the wire: what is asked of the node, and how its answers look. Parsing and JSON have tests
// of their own (v2_parse_test, v2_json_test).
#include "server/api/v2_keys.h"

#include <gmock/gmock.h>

#include "tests/server/http_server_fixture.h"

namespace rallypoint::server {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class V2Keys : public HttpServerTest {
 protected:
  V2Keys() { start(); }

  /// Sends a request, answers the node's call with `reply`, gives what the client got.
  template <class Call>
  std::string exchange(const std::string& request, Reply&& reply) {
    RawClient client = connect();
    client.send(request);
    auto call = backend.next<Call>();
    if (!call) return "the node was not asked";
    FakeBackend::answer(call->call, std::move(reply));
    return client.read_answer();
  }
};

TEST_F(V2Keys, AsksForAWriteAndAnswersWithAllHeaders) {
  RawClient client = connect();
  client.send(put("/v2/keys/job/state", "value=a%2Bb+c&ttl=7200&prevIndex=12"));
  auto write = backend.next<V2Write>();
  ASSERT_TRUE(write);
  EXPECT_EQ(write->request.path, "/job/state");
  EXPECT_EQ(write->request.value.view(), "a+b c");
  EXPECT_EQ(write->request.ttl_s, 7200);
  EXPECT_EQ(write->request.prev_index, 12u);
  FakeBackend::answer(write->call, FakeBackend::event(v2::Action::kCompareAndSwap, "/job/state", "a+b c", 20));
  EXPECT_THAT(client.read_answer(),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("Content-Type: application/json\r\n"),
                    HasSubstr("X-Etcd-Cluster-Id: cdf818194e3a8c32\r\n"), HasSubstr("X-Etcd-Index: 20\r\n"),
                    HasSubstr("X-Raft-Index: 25\r\n"), HasSubstr("X-Raft-Term: 2\r\n"),
                    HasSubstr("{\"action\":\"compareAndSwap\",\"node\":{\"key\":\"/job/state\",\"value\":\"a+b c\""),
                    EndsWith("}\n")));
}

TEST_F(V2Keys, ReadsAreLinearizableUnlessTheClientSaysOtherwise) {
  RawClient client = connect();
  const std::pair<const char*, bool> cases[] = {
      {"/v2/keys/a", true}, {"/v2/keys/a?quorum=true", true}, {"/v2/keys/a?quorum=false", false}};
  for (const auto& [target, linearizable] : cases) {
    client.send(get(target));
    auto read = backend.next<V2Read>();
    ASSERT_TRUE(read);
    EXPECT_EQ(read->linearizable, linearizable) << target;
    FakeBackend::answer(read->call, FakeBackend::event(v2::Action::kGet, "/a", "v", 3));
    client.read_answer();
  }
}

TEST_F(V2Keys, AnswersAnErrorWithItsStatusAndOnlyTheStoresIndex) {
  Reply reply;
  reply.body = v2::Error{100, "/nothing", 17};
  EXPECT_THAT(exchange<V2Read>(get("/v2/keys/nothing"), std::move(reply)),
              AllOf(StartsWith("HTTP/1.1 404 Not Found\r\n"), HasSubstr("X-Etcd-Index: 17\r\n"),
                    HasSubstr("X-Etcd-Cluster-Id: "), Not(HasSubstr("X-Raft-Index")),
                    EndsWith("{\"errorCode\":100,\"message\":\"Key not found\",\"cause\":\"/nothing\",\"index\":17}\n")));
}

TEST_F(V2Keys, AnswersAWatchThatFailsAtOnceAsAnError) {
  Reply reply;
  reply.body = v2::Error{401, "the requested history has been cleared [167/100]", 1166};
  EXPECT_THAT(exchange<V2Watch>(get("/v2/keys/w?wait=true&waitIndex=100"), std::move(reply)),
              AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("X-Etcd-Index: 1166"), HasSubstr("\"errorCode\":401")));
}

TEST_F(V2Keys, AnswersAWatchOfThePastInOneReply) {
  RawClient client = connect();
  client.send(get("/v2/keys/w?wait=true&waitIndex=5"));
  auto watch = backend.next<V2Watch>();
  ASSERT_TRUE(watch);
  EXPECT_EQ(watch->request.wait_index, 5u);
  Reply reply;
  reply.registered = true;
  reply.etcd_index = 9;
  reply.body = FakeBackend::event(v2::Action::kSet, "/w", "v", 6);
  FakeBackend::answer(watch->call, std::move(reply));
  EXPECT_THAT(client.read_until("0\r\n\r\n"), AllOf(HasSubstr("X-Etcd-Index: 9\r\n"), HasSubstr("\"modifiedIndex\":6")));
}

TEST_F(V2Keys, MapsARequestThatTheNodeGaveUpOnToEtcdsErrors) {
  Reply no_leader;
  no_leader.body = Status::unavailable("no leader for 5 s");
  EXPECT_THAT(exchange<V2Write>(put("/v2/keys/a", "value=1"), std::move(no_leader)),
              AllOf(StartsWith("HTTP/1.1 500"), HasSubstr("\"errorCode\":301")));
  Reply unknown;
  unknown.body = Status::outcome_unknown("the leader was lost");
  EXPECT_THAT(exchange<V2Write>(put("/v2/keys/a", "value=1"), std::move(unknown)),
              AllOf(StartsWith("HTTP/1.1 500"), HasSubstr("\"errorCode\":300"), HasSubstr("the leader was lost")));
}

TEST_F(V2Keys, DoesNotAskTheNodeForWhatIsWrongInItself) {
  RawClient client = connect();
  EXPECT_THAT(client.ask(put("/v2/keys/a", "value=1&ttl=soon")), AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("\"errorCode\":202")));
  EXPECT_THAT(client.ask("PATCH /v2/keys/a HTTP/1.1\r\nHost: x\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 405"), HasSubstr("Allow: HEAD,GET,PUT,POST,DELETE\r\n")));
  EXPECT_THAT(client.ask(get("/v2/keys/a//b")), AllOf(StartsWith("HTTP/1.1 301"), HasSubstr("Location: /v2/keys/a/b\r\n")));
  EXPECT_TRUE(backend.idle());
}

TEST_F(V2Keys, AnswersANoValueWriteWithItsActionOnly) {
  auto event = std::make_shared<v2::Event>(*FakeBackend::event(v2::Action::kSet, "/a", "v", 4));
  event->no_value_on_success = true;
  Reply reply;
  reply.body = v2::EventPtr(event);
  EXPECT_THAT(exchange<V2Write>(put("/v2/keys/a", "value=v&noValueOnSuccess=true"), std::move(reply)),
              EndsWith("\r\n\r\n{\"action\":\"set\"}\n"));
}

}  // namespace
}  // namespace rallypoint::server
