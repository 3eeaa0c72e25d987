// The service table as a whole, and the services of a few lines: auth that is off, health.
#include "storage/etcd_api/election.pb.h"
#include "storage/etcd_api/health.pb.h"
#include "storage/etcd_api/lock.pb.h"
#include "tests/v3/fake_rpc.h"

namespace rallypoint::server {
namespace {

using namespace etcdserverpb;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

class V3Services : public V3Test {};

/// Every method that the protos declare is served, with its types and kinds.
TEST_F(V3Services, TheTableHoldsWhatTheProtosDeclare) {
  size_t declared = 0;
  for (const auto* file : {WatchRequest::descriptor()->file(), v3lockpb::LockRequest::descriptor()->file(),
                           v3electionpb::LeaderRequest::descriptor()->file(), HealthCheckRequest::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        const auto* method = file->service(s)->method(m);
        const std::string path = "/" + file->service(s)->full_name() + "/" + method->name();
        const RpcMethod* row = table.find(path);
        ASSERT_NE(row, nullptr) << path;
        EXPECT_EQ(row->request, method->input_type()) << path;
        EXPECT_EQ(row->response, method->output_type()) << path;
        EXPECT_EQ(row->client_streams, method->client_streaming()) << path;
        EXPECT_EQ(row->server_streams, method->server_streaming()) << path;
        ++declared;
      }
    }
  }
  EXPECT_GE(declared, 40u);
}

TEST_F(V3Services, EveryMethodWithoutTheRightMessageEndsInAnError) {
  for (const auto& method : table.methods()) {
    if (method->path.starts_with("/etcdserverpb.Auth/")) continue;
    rpc.finished.reset();
    rpc.requests.clear();
    handler = method->make(rpc);
    handler->on_message("\x07\xff");  // no wire type 7
    ASSERT_TRUE(rpc.finished) << method->path;
    EXPECT_EQ(rpc.finished->code(), Code::kInternal) << method->path;
    EXPECT_TRUE(idle()) << method->path;
  }
}

TEST_F(V3Services, AuthIsOff) {
  size_t methods = 0;
  for (const auto& method : table.methods()) {
    if (!method->path.starts_with("/etcdserverpb.Auth/") || method->path.ends_with("AuthStatus")) continue;
    rpc.finished.reset();
    handler = method->make(rpc);
    handler->on_message("");
    expect_ended(Status::failed_precondition("etcdserver: authentication is not enabled"));
    ++methods;
  }
  EXPECT_EQ(methods, 16u);
  rpc.finished.reset();
  open("/etcdserverpb.Auth/AuthStatus", AuthStatusRequest());
  expect_ended(Status::ok());
  EXPECT_FALSE(sent<AuthStatusResponse>().enabled());
}

class V3Health : public V3Test {
 protected:
  HealthCheckResponse::ServingStatus check(const std::string& service) {
    rpc.sent.clear();
    rpc.finished.reset();
    HealthCheckRequest request;
    request.set_service(service);
    open("/grpc.health.v1.Health/Check", request);
    return sent<HealthCheckResponse>().status();
  }
};

TEST_F(V3Health, EveryServiceIsServingWhileTheMemberIsHealthy) {
  for (const char* service : {"", "etcdserverpb.KV", "etcdserverpb.Watch", "grpc.health.v1.Health"})
    EXPECT_EQ(check(service), HealthCheckResponse::SERVING) << service;
  rpc.node.view.leader_id = 0;
  EXPECT_EQ(check(""), HealthCheckResponse::SERVING) << "an election is no illness";
  rpc.node.view.unhealthy_reason = "data directory is damaged";
  for (const char* service : {"", "etcdserverpb.KV"}) EXPECT_EQ(check(service), HealthCheckResponse::NOT_SERVING) << service;
}

TEST_F(V3Health, AServiceThatIsNotThereIsNotFound) {
  HealthCheckRequest request;
  request.set_service("etcdserverpb.K");
  open("/grpc.health.v1.Health/Check", request);
  expect_ended(Status::not_found("unknown service"));
}

TEST_F(V3Health, AWatchTellsEveryChangeOnce) {
  open("/grpc.health.v1.Health/Watch", HealthCheckRequest());
  EXPECT_EQ(sent<HealthCheckResponse>(0).status(), HealthCheckResponse::SERVING);
  wake();
  EXPECT_EQ(rpc.sent.size(), 1u);
  rpc.node.view.unhealthy_reason = "the disk is full";
  wake();
  wake();
  ASSERT_EQ(rpc.sent.size(), 2u);
  EXPECT_EQ(sent<HealthCheckResponse>(1).status(), HealthCheckResponse::NOT_SERVING);
  rpc.node.view.unhealthy_reason.clear();
  wake();
  EXPECT_EQ(sent<HealthCheckResponse>(2).status(), HealthCheckResponse::SERVING);
}

TEST_F(V3Health, AWatchOfAnUnknownServiceSaysSoAndWaits) {
  HealthCheckRequest request;
  request.set_service("nobody");
  open("/grpc.health.v1.Health/Watch", request);
  EXPECT_EQ(sent<HealthCheckResponse>().status(), HealthCheckResponse::SERVICE_UNKNOWN);
  EXPECT_FALSE(rpc.finished);
}

}  // namespace
}  // namespace rallypoint::server
