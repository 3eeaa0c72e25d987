// StoreStats: what this process has done to its v2 store, for /v2/stats/store. Not replicated, from zero at start.
#pragma once

#include <cstdint>

#include "storage/v2/v2_types.h"

namespace rallypoint::v2 {

struct StoreStats {
  struct Count {
    uint64_t success = 0;
    uint64_t fail = 0;
    void add(bool ok) { ++(ok ? success : fail); }
  };
  Count gets, sets, deletes, updates, creates, compare_and_swaps, compare_and_deletes;
  uint64_t expired = 0;

  /// The counter that a write belongs to.
  Count& of(const WriteRequest& request);
};

/// What a write tries to do, from its parameters, as etcd tells them apart: prevExist first, then the compares.
Action action_of(const WriteRequest& request);

}  // namespace rallypoint::v2
