// What a write did to one key, as watchers and leases hear of it. The pair is encoded once, as the row in the engine
// is (mvccpb.KeyValue), and shared by everybody who passes it on.
#pragma once

#include <compare>
#include <cstdint>

#include "raft/base/bytes.h"

namespace rallypoint::mvcc {

/// Main revision: one per write request or transaction that changed something. Sub: orders the changes inside.
struct Revision {
  int64_t main = 0;
  int64_t sub = 0;
  friend auto operator<=>(const Revision&, const Revision&) = default;
};

struct Event {
  Revision revision;
  Bytes key;
  Bytes kv;            ///< encoded mvccpb.KeyValue; of a delete: key and mod_revision only
  bool is_delete = false;
  bool is_create = false;  ///< the first put of the key since its last delete
  Revision previous;   ///< of the pair before this change; main 0 = there was none. Its row may be compacted away.
};

}  // namespace rallypoint::mvcc
