// The vocabulary of etcd's v2 keys API, shared by the tree that executes it and the HTTP layer that speaks it.
// Plain values. Source of the rules: etcd 3.4's v2 API as observed (actions, codes, indexes).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "raft/base/bytes.h"

namespace rallypoint::v2 {

enum class Action : uint8_t { kGet, kSet, kCreate, kUpdate, kDelete, kCompareAndSwap, kCompareAndDelete, kExpire };
/// As it stands in the JSON: "get", "set", "create", "update", "delete", "compareAndSwap", "compareAndDelete", "expire".
const char* action_name(Action action);

/// A parsed and validated write. `path` is clean: begins with '/', no '//', no '.' or '..', no trailing '/' ("/" = root).
struct WriteRequest {
  enum class Method : uint8_t { kPut, kPost, kDelete } method = Method::kPut;
  std::string path;
  Bytes value;
  bool dir = false;
  bool recursive = false;                 ///< DELETE only
  bool refresh = false;                   ///< renew the TTL, wake nobody
  bool no_value_on_success = false;
  std::optional<bool> prev_exist;
  std::optional<std::string> prev_value;  ///< set = compare; never empty
  uint64_t prev_index = 0;                ///< 0 = do not compare
  /// Seconds. nullopt = no TTL (clears one). 0 = expires at once.
  std::optional<int64_t> ttl_s;
};

struct ReadRequest {
  std::string path;
  bool recursive = false;
  bool sorted = false;
};

struct WatchRequest {
  std::string path;
  bool recursive = false;
  bool stream = false;
  uint64_t wait_index = 0;  ///< 0 = the next event
};

/// A node as an answer shows it: a copy of the state at the answer's index, values shared.
struct NodeView {
  std::string key;  ///< "" for the root, which the JSON leaves out
  bool dir = false;
  std::optional<Bytes> value;    ///< files only; nullopt = not shown (deleted node)
  std::vector<NodeView> nodes;   ///< children that were asked for
  int64_t ttl_s = 0;             ///< whole seconds left, rounded up as etcd does; 0 = none
  int64_t expiration_unix_ns = 0;  ///< for display; 0 = none
  uint64_t modified_index = 0;
  uint64_t created_index = 0;
};

/// A success: what a write, read, watch or expiry did.
struct Event {
  Action action = Action::kGet;
  NodeView node;
  std::optional<NodeView> prev_node;
  uint64_t etcd_index = 0;    ///< X-Etcd-Index: the store's index after a write; now, for a read
  bool refresh = false;       ///< wakes no watcher, enters no history
  bool no_value_on_success = false;
  /// HTTP 201 (a node came into being) instead of 200.
  [[nodiscard]] bool is_created() const;
};
using EventPtr = std::shared_ptr<const Event>;

/// A failure with etcd's error code (100 key not found, 101 compare failed, ...).
struct Error {
  int code = 0;
  std::string cause;
  uint64_t index = 0;  ///< the store's index when it failed
};

using Outcome = std::variant<EventPtr, Error>;

}  // namespace rallypoint::v2
