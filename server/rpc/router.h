// Router: which handler serves a path. Filled once at start, then read by all net loops without locks.
// A route is a prefix of whole path segments: "/v2/keys" serves /v2/keys and /v2/keys/a, not /v2/keysx; the longest
// match wins. "/" alone serves only itself. gRPC's /package.Service/Method paths fit the same table.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/rpc/exchange.h"

namespace rallypoint::server {

class Router {
 public:
  void add(std::string prefix, std::unique_ptr<Handler> handler);
  /// The handler for a path; one that answers 404 if there is none.
  [[nodiscard]] const Handler& find(std::string_view path) const;

 private:
  struct Route {
    std::string prefix;
    std::unique_ptr<Handler> handler;
  };
  std::vector<Route> routes_;  // longest prefix first
};

}  // namespace rallypoint::server
