// What people and their tools look at: /version, /health, /livez, /readyz, /metrics and the front page.
// Stateless; any net loop. Source of the formats: etcd 3.4 to 3.6 as observed.
#pragma once

#include "server/rpc/exchange.h"

namespace rallypoint::server {

struct HttpCounters;

class VersionHandler final : public Handler {
 public:
  void handle(const HttpRequest& request, Responder& responder) const override;
};

/// health: can this member serve? live: does the process work? ready: should it be sent requests?
class HealthHandler final : public Handler {
 public:
  enum class Kind { kHealth, kLive, kReady };
  HealthHandler(const Backend& backend, Kind kind) : backend_(backend), kind_(kind) {}
  void handle(const HttpRequest& request, Responder& responder) const override;

 private:
  const Backend& backend_;
  Kind kind_;
};

class MetricsHandler final : public Handler {
 public:
  MetricsHandler(const Backend& backend, const HttpCounters& counters) : backend_(backend), counters_(counters) {}
  void handle(const HttpRequest& request, Responder& responder) const override;

 private:
  const Backend& backend_;
  const HttpCounters& counters_;
};

class FrontPageHandler final : public Handler {
 public:
  explicit FrontPageHandler(const Backend& backend) : backend_(backend) {}
  void handle(const HttpRequest& request, Responder& responder) const override;

 private:
  const Backend& backend_;
};

}  // namespace rallypoint::server
