// Node: one file or directory of the Tree. Internal to storage/v2.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "raft/base/bytes.h"
#include "raft/base/units.h"

namespace rallypoint::v2 {

struct Node {
  static constexpr size_t kNotChanged = SIZE_MAX;

  std::string path;  ///< "/a/b"; "/" for the root. Never changes: the parent's map and views point into it.
  Node* parent = nullptr;
  bool dir = false;
  Bytes value;  ///< empty for directories
  uint64_t created_index = 0;
  uint64_t modified_index = 0;
  std::optional<Instant> deadline;   ///< cluster time
  int64_t expiration_unix_ns = 0;    ///< wall time of the deadline, for display; 0 = none
  size_t changed_slot = kNotChanged;  ///< position in the tree's list of changed nodes
  std::map<std::string_view, std::unique_ptr<Node>> children;  ///< by name; each key is a view into child->path

  [[nodiscard]] std::string_view name() const {
    return std::string_view(path).substr(path.rfind('/') + 1);
  }
  [[nodiscard]] bool is_hidden() const { return name().starts_with('_'); }
};

}  // namespace rallypoint::v2
