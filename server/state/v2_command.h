// v2::WriteRequest <-> the protobuf form that stands in a log entry.
#pragma once

#include <optional>

#include "server/state/command.pb.h"
#include "storage/v2/v2_types.h"

namespace rallypoint::server {

void to_proto(const v2::WriteRequest& request, pb::V2Write& out);
/// nullopt = not a request that this build's front could have made; ignored by the state machine on every node alike.
std::optional<v2::WriteRequest> from_proto(const pb::V2Write& in);

}  // namespace rallypoint::server
