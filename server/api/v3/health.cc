// grpc.health.v1.Health: whether this member can serve, for load balancers and orchestrators. All services share one fate,
// so a service's name only has to exist.
//
// A member without a leader is healthy: elections are short, and a balancer that takes every member out at once helps
// nobody. One that can't read its own state is not.

#include <optional>

#include "server/api/v3/handler.h"
#include "server/api/v3/make.h"
#include "storage/etcd_api/health.pb.h"

namespace rallypoint::server::v3 {
namespace {

namespace health = grpc::health::v1;
using Serving = health::HealthCheckResponse;

constexpr Duration kLookAgain = Duration::seconds(1);

/// nullopt = there is no such service.
std::optional<Serving::ServingStatus> state_of(const std::string& service, const RpcTable& table, const Backend& backend) {
  if (!service.empty() && !table.has_service(service)) return std::nullopt;
  return backend.cluster_view().unhealthy_reason.empty() ? Serving::SERVING : Serving::NOT_SERVING;
}

class CheckHandler final : public UnaryHandler {
 public:
  CheckHandler(Rpc& rpc, const V3Settings& settings, const RpcTable& table) : UnaryHandler(rpc, settings), table_(table) {}

 private:
  void handle(std::string_view message) override {
    health::HealthCheckRequest request;
    if (!parse(message, request)) return;
    const auto state = state_of(request.service(), table_, rpc_.backend());
    if (!state) return fail(Status::not_found("unknown service"));
    health::HealthCheckResponse response;
    response.set_status(*state);
    answer(response);
  }

  const RpcTable& table_;
};

/// Says how it is at once, and then whenever that changes.
class WatchHandler final : public V3Handler {
 public:
  WatchHandler(Rpc& rpc, const V3Settings& settings, const RpcTable& table) : V3Handler(rpc, settings), table_(table) {}

  void on_message(std::string_view message) override {
    health::HealthCheckRequest request;
    if (!parse(message, request)) return;
    service_ = request.service();
    on_wake();
  }
  void on_reply(Reply&&) override {}
  void on_wake() override {
    const Serving::ServingStatus now = state_of(service_, table_, rpc_.backend()).value_or(Serving::SERVICE_UNKNOWN);
    if (told_ != now) {
      told_ = now;
      health::HealthCheckResponse response;
      response.set_status(now);
      rpc_.send(Bytes(response.SerializeAsString()));
    }
    rpc_.wake_after(kLookAgain);
  }

 private:
  const RpcTable& table_;
  std::string service_;
  std::optional<Serving::ServingStatus> told_;
};

}  // namespace

Made make_health_check(Rpc& rpc, const V3Settings& settings, const RpcTable& table) {
  return std::make_unique<CheckHandler>(rpc, settings, table);
}
Made make_health_watch(Rpc& rpc, const V3Settings& settings, const RpcTable& table) {
  return std::make_unique<WatchHandler>(rpc, settings, table);
}

}  // namespace rallypoint::server::v3
