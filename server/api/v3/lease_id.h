// The ids of leases, where more than one service needs them.
#pragma once

#include <cstdint>

namespace rallypoint::server::v3 {

/// A random positive id. Two that are equal are refused by the state machine, and as likely as a lost disk.
int64_t choose_lease_id();

}  // namespace rallypoint::server::v3
