// The service table: which handler serves which path of the client port. One place, so that a reader sees at a glance
// what a node offers.
#pragma once

#include "server/api/api.h"
#include "server/rpc/router.h"

namespace rallypoint::server {

class RpcTable;
struct HttpCounters;

/// What HTTP/1.1 serves; `rpcs` by the JSON gateway. All must outlive the router.
void add_services(Router& router, Backend& backend, const RpcTable& rpcs, const HttpCounters& counters);

/// How the node is, and nothing else: for ports of their own (listen-metrics-urls).
void add_status_services(Router& router, Backend& backend, const HttpCounters& counters);

}  // namespace rallypoint::server
