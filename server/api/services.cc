#include "server/api/services.h"

#include "server/api/status_pages.h"
#include "server/api/v2_keys.h"
#include "server/api/v2_members.h"
#include "server/api/v2_stats.h"
#include "server/api/v3/gateway.h"

namespace rallypoint::server {

void add_services(Router& router, Backend& backend, const RpcTable& rpcs, const HttpCounters& counters) {
  router.add("/v2/keys", std::make_unique<V2KeysHandler>(backend));
  router.add("/v2/machines", std::make_unique<V2MachinesHandler>(backend));
  router.add("/v2/members", std::make_unique<V2MembersHandler>(backend));
  router.add("/v2/stats", std::make_unique<V2StatsHandler>(backend));
  router.add("/v2/auth", std::make_unique<V2AuthHandler>());
  for (const char* prefix : {"/v3", "/v3beta"}) router.add(prefix, std::make_unique<v3::GatewayHandler>(rpcs, backend, prefix));
  add_status_services(router, backend, counters);
  router.add("/", std::make_unique<FrontPageHandler>(backend));
}

void add_status_services(Router& router, Backend& backend, const HttpCounters& counters) {
  router.add("/version", std::make_unique<VersionHandler>());
  router.add("/health", std::make_unique<HealthHandler>(backend, HealthHandler::Kind::kHealth));
  router.add("/livez", std::make_unique<HealthHandler>(backend, HealthHandler::Kind::kLive));
  router.add("/readyz", std::make_unique<HealthHandler>(backend, HealthHandler::Kind::kReady));
  router.add("/metrics", std::make_unique<MetricsHandler>(backend, counters));
}

}  // namespace rallypoint::server
