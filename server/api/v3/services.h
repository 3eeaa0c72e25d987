// The table of etcd's v3 services: what a node offers over gRPC and the JSON gateway.
#pragma once

#include <cstddef>

#include "server/rpc/rpc.h"

namespace rallypoint::server {

struct V3Settings {
  size_t request_bytes_max = 3 << 19;  ///< of what goes into the log: option max-request-bytes
  size_t txn_operations_max = 128;     ///< option max-txn-ops
  Duration election_timeout = Duration::seconds(1);
};

/// Adds every method. The table must stay where it is: the health service looks services up in it.
void register_v3_services(RpcTable& table, const V3Settings& settings);

}  // namespace rallypoint::server
