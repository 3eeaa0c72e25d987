// /v2/stats/self, /leader, /store: etcd's v2 statistics, from the backend's view. Stateless; any net loop.
#pragma once

#include "server/rpc/exchange.h"

namespace rallypoint::server {

class V2StatsHandler final : public Handler {
 public:
  explicit V2StatsHandler(const Backend& backend) : backend_(backend) {}
  void handle(const HttpRequest& request, Responder& responder) const override;

 private:
  const Backend& backend_;
};

}  // namespace rallypoint::server
