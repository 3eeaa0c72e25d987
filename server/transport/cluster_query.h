// ClusterQuery: asks a member at its peer port which cluster it is in, before this node knows any (frame.h: Query).
// Blocking, on the caller's thread; only bootstrap does it, before any loop runs.
#pragma once

#include "server/transport/transport.h"

namespace rallypoint::server {

/// The body of the answer, an encoded pb::ClusterAnswer. Unavailable: nobody answered there within `timeout`.
Result<Bytes> ask_cluster(const HostPort& endpoint, Duration timeout);

}  // namespace rallypoint::server
