#include "server/rpc/rpc.h"

#include <algorithm>

namespace rallypoint::server {

void RpcTable::add(RpcMethod method) {
  auto at = std::lower_bound(methods_.begin(), methods_.end(), method.path, [](const auto& a, std::string_view path) { return a->path < path; });
  RALLY_CHECK(at == methods_.end() || (*at)->path != method.path, "method", method.path);
  methods_.insert(at, std::make_unique<RpcMethod>(std::move(method)));
}

const RpcMethod* RpcTable::find(std::string_view path) const {
  auto at = std::lower_bound(methods_.begin(), methods_.end(), path, [](const auto& a, std::string_view p) { return a->path < p; });
  return at != methods_.end() && (*at)->path == path ? at->get() : nullptr;
}

bool RpcTable::has_service(std::string_view service) const {
  const std::string prefix = "/" + std::string(service) + "/";
  auto at = std::lower_bound(methods_.begin(), methods_.end(), prefix, [](const auto& a, const std::string& p) { return a->path < p; });
  return at != methods_.end() && (*at)->path.starts_with(prefix);
}

}  // namespace rallypoint::server
