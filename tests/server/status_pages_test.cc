// The endpoints beside the keys: members, machines, stats, version, health, metrics, front page.
#include "server/api/status_pages.h"

#include <gmock/gmock.h>

#include "tests/server/http_server_fixture.h"

namespace rallypoint::server {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class SidePages : public HttpServerTest {
 protected:
  std::string ask(const std::string& request) {
    if (!server) start();
    return connect().ask(request);
  }
  static std::string send_json(std::string_view method, std::string_view target, std::string_view body) {
    return std::string(method) + " " + std::string(target) + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
  }
};

TEST_F(SidePages, VersionHasTheKeysThatClientsLookFor) {
  EXPECT_THAT(ask(get("/version")), AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("\"etcdserver\":\"3."),
                                          HasSubstr("\"etcdcluster\":\"3."), HasSubstr("\"rallypoint\":")));
  EXPECT_THAT(ask(send_json("POST", "/version", "")), AllOf(StartsWith("HTTP/1.1 405"), HasSubstr("Allow: GET")));
}

TEST_F(SidePages, MachinesListsAllMembersAsPythonEtcdWantsThem) {
  EXPECT_THAT(ask(get("/v2/machines")), EndsWith("\r\n\r\nhttp://127.0.0.1:12379, http://127.0.0.1:2379"))
      << "sorted as texts, whatever the ids";
}

TEST_F(SidePages, HealthTellsAHealthyMember) {
  EXPECT_THAT(ask(get("/health")), AllOf(StartsWith("HTTP/1.1 200"), EndsWith(R"({"health":"true","reason":""})")));
  EXPECT_THAT(ask(get("/readyz")), StartsWith("HTTP/1.1 200"));
}

TEST_F(SidePages, HealthTellsThatThereIsNoLeader) {
  backend.view.leader_id = 0;
  EXPECT_THAT(ask(get("/health")), AllOf(StartsWith("HTTP/1.1 503"), HasSubstr(R"("health":"false","reason":"RAFT NO LEADER")")));
  EXPECT_THAT(ask(get("/readyz")), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(ask(get("/livez")), StartsWith("HTTP/1.1 200")) << "a member without a leader lives";
  EXPECT_THAT(ask(get("/v2/members/leader")), StartsWith("HTTP/1.1 503"));
}

TEST_F(SidePages, StatsHaveEtcdsNames) {
  EXPECT_THAT(ask(get("/v2/stats/self")), AllOf(HasSubstr("\"state\":\"StateLeader\""), HasSubstr("\"leaderInfo\":{")));
  EXPECT_THAT(ask(get("/v2/stats/store")), AllOf(HasSubstr("{\"getsSuccess\":0,"), HasSubstr("\"watchers\":0")));
  EXPECT_THAT(ask(get("/v2/stats/leader")), HasSubstr("\"followers\":{}"));
  EXPECT_THAT(ask(get("/v2/stats/else")), StartsWith("HTTP/1.1 404"));
}

TEST_F(SidePages, LeaderStatsAreRefusedByAFollower) {
  backend.view.leader_id = backend.view.members[1].id;
  EXPECT_THAT(ask(get("/v2/stats/leader")), AllOf(StartsWith("HTTP/1.1 403"), HasSubstr("not current leader")));
}

TEST_F(SidePages, MembersAreListed) {
  EXPECT_THAT(ask(get("/v2/members")),
              HasSubstr(R"({"members":[{"id":"8e9e05c52164694d","name":"n1","peerURLs":["http://127.0.0.1:2380"],)"
                        R"("clientURLs":["http://127.0.0.1:2379"]},{"id":"91bc3c398fb3c146")"));
  EXPECT_THAT(ask(get("/v2/members/leader")), HasSubstr("\"name\":\"n1\""));
}

TEST_F(SidePages, AMemberIsAdded) {
  start();
  RawClient client = connect();
  client.send(send_json("POST", "/v2/members", R"({"peerURLs":["http://10.0.0.9:2380/"]})"));
  auto change = backend.next<ChangeMember>();
  ASSERT_TRUE(change);
  EXPECT_EQ(change->kind, ChangeMember::Kind::kAdd);
  EXPECT_THAT(change->peer_urls, testing::ElementsAre("http://10.0.0.9:2380"));
  Reply reply;
  reply.body = Member{0xabc, "", change->peer_urls, {}, false};
  FakeBackend::answer(change->call, std::move(reply));
  EXPECT_THAT(client.read_answer(), AllOf(StartsWith("HTTP/1.1 201"), HasSubstr(R"({"id":"abc","name":"","peerURLs":)")));
}

TEST_F(SidePages, AMemberIsRemoved) {
  start();
  RawClient client = connect();
  client.send(send_json("DELETE", "/v2/members/91bc3c398fb3c146", ""));
  auto change = backend.next<ChangeMember>();
  ASSERT_TRUE(change);
  EXPECT_EQ(change->kind, ChangeMember::Kind::kRemove);
  EXPECT_EQ(change->id, 0x91bc3c398fb3c146u);
  Reply reply;
  reply.body = Status::ok();
  FakeBackend::answer(change->call, std::move(reply));
  EXPECT_THAT(client.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 204 No Content\r\n"));
}

TEST_F(SidePages, WhyAMemberCanNotBeChangedIsSaidAsInEtcd) {
  backend.view.removed_members = {0x77};
  start();
  RawClient client = connect();
  const auto answer_to = [&](const std::string& method, const std::string& path, uint64_t id, Status status) {
    client.send(send_json(method, path, R"({"peerURLs":["http://10.0.0.9:2380"]})"));
    auto change = backend.next<ChangeMember>();
    EXPECT_TRUE(change);
    Reply reply;
    reply.etcd_index = id;
    reply.body = std::move(status);
    FakeBackend::answer(change->call, std::move(reply));
    return client.read_answer();
  };
  EXPECT_THAT(answer_to("DELETE", "/v2/members/88", 0x88, Status::not_found("etcdserver: member not found")),
              AllOf(StartsWith("HTTP/1.1 404"), HasSubstr(R"({"message":"No such member: 88"})"), HasSubstr("X-Etcd-Cluster-Id: cdf818194e3a8c32")));
  EXPECT_THAT(answer_to("DELETE", "/v2/members/77", 0x77, Status::not_found("etcdserver: member not found")),
              AllOf(StartsWith("HTTP/1.1 410"), HasSubstr(R"({"message":"Member permanently removed: 77"})")));
  EXPECT_THAT(answer_to("POST", "/v2/members", 0x99, Status::failed_precondition("etcdserver: Peer URLs already exists")),
              AllOf(StartsWith("HTTP/1.1 409"), HasSubstr(R"({"message":"membership: peerURL exists"})")));
  EXPECT_THAT(answer_to("PUT", "/v2/members/99", 0x99, Status::unavailable("etcdserver: unhealthy cluster")),
              AllOf(StartsWith("HTTP/1.1 500"), HasSubstr("etcdserver: unhealthy cluster")));
  EXPECT_THAT(answer_to("DELETE", "/v2/members/99", 0x99,
                        Status::failed_precondition("etcdserver: re-configuration failed due to not enough started members")),
              StartsWith("HTTP/1.1 500"));
}

TEST_F(SidePages, BadChangesOfMembersAreRefused) {
  EXPECT_THAT(ask(send_json("POST", "/v2/members", "{")), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(ask(send_json("POST", "/v2/members", R"({"peerURLs":[]})")), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(ask(send_json("POST", "/v2/members", R"({"peerURLs":[7]})")), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(ask(send_json("POST", "/v2/members", R"({"peerURLs":["x"]})")), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(ask(send_json("POST", "/v2/members", std::string(100'000, '['))), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(ask(put("/v2/members/1", "a=b")), StartsWith("HTTP/1.1 415"));
  EXPECT_THAT(ask(send_json("DELETE", "/v2/members/xyz", "")),
              AllOf(StartsWith("HTTP/1.1 404"), HasSubstr("No such member: xyz")));
  EXPECT_TRUE(backend.idle());
}

TEST_F(SidePages, MetricsAreInPrometheusText) {
  backend.view.v2.sets.success = 5;
  EXPECT_THAT(ask(get("/metrics")),
              AllOf(HasSubstr("Content-Type: text/plain; version=0.0.4"), HasSubstr("\netcd_server_has_leader 1\n"),
                    HasSubstr("\nprocess_open_fds "), HasSubstr("etcd_server_id{server_id=\"8e9e05c52164694d\"} 1\n"),
                    HasSubstr("etcd_debugging_store_writes_total{action=\"set\"} 5\n")));
}

TEST_F(SidePages, TheFrontPageIsForPeopleAndEscapesNames) {
  backend.view.members[0].name = "<script>";
  EXPECT_THAT(ask(get("/")), AllOf(HasSubstr("Content-Type: text/html"), HasSubstr("&lt;script&gt;"),
                                   testing::Not(HasSubstr("<script>"))));
}

TEST_F(SidePages, UnknownPathsAre404) {
  for (const char* path : {"/v2", "/v2/keysx", "/versions", "/nothing", "*"})
    EXPECT_THAT(ask(get(path)), AllOf(StartsWith("HTTP/1.1 404"), HasSubstr("404 page not found"))) << path;
}

TEST_F(SidePages, AuthSaysThatItIsOff) {
  EXPECT_THAT(ask(get("/v2/auth/enable")), HasSubstr("{\"enabled\":false}"));
  EXPECT_THAT(ask(send_json("PUT", "/v2/auth/enable", "")), StartsWith("HTTP/1.1 501"));
}

}  // namespace
}  // namespace rallypoint::server
