// What the tests of the v2 store share: short ways to write requests, and an engine that is a std::map.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/engine/engine.h"
#include "storage/v2/v2_tree.h"

namespace rallypoint::v2::testing {

/// Cluster time in seconds; the wall clock is 1,000,000,000 s ahead of it.
inline Clock at(double seconds) {
  const auto us = static_cast<int64_t>(seconds * 1e6);
  return {Instant{us}, us * 1000 + 1'000'000'000'000'000'000};
}

inline WriteRequest put(std::string path, std::string value = "", std::optional<int64_t> ttl_s = std::nullopt) {
  WriteRequest request;
  request.path = std::move(path);
  request.value = Bytes(std::move(value));
  request.ttl_s = ttl_s;
  return request;
}

inline WriteRequest make_dir(std::string path, std::optional<int64_t> ttl_s = std::nullopt) {
  WriteRequest request = put(std::move(path), "", ttl_s);
  request.dir = true;
  return request;
}

inline WriteRequest post(std::string path, std::string value = "") {
  WriteRequest request = put(std::move(path), std::move(value));
  request.method = WriteRequest::Method::kPost;
  return request;
}

inline WriteRequest erase(std::string path, bool dir = false, bool recursive = false) {
  WriteRequest request;
  request.method = WriteRequest::Method::kDelete;
  request.path = std::move(path);
  request.dir = dir;
  request.recursive = recursive;
  return request;
}

inline WriteRequest with_prev_exist(WriteRequest request, bool prev_exist) {
  request.prev_exist = prev_exist;
  return request;
}
inline WriteRequest with_prev_value(WriteRequest request, std::string prev_value) {
  request.prev_value = std::move(prev_value);
  return request;
}
inline WriteRequest with_prev_index(WriteRequest request, uint64_t prev_index) {
  request.prev_index = prev_index;
  return request;
}
inline WriteRequest as_refresh(WriteRequest request) {
  request.refresh = true;
  return request;
}

/// The event of a success; fails the test and returns an empty one otherwise.
inline Event ok(const Outcome& outcome) {
  if (const auto* error = std::get_if<Error>(&outcome)) {
    ADD_FAILURE() << "error " << error->code << " " << error->cause;
    return {};
  }
  return *std::get<EventPtr>(outcome);
}

/// "104 /a/b" for an error, "ok" for a success.
inline std::string failure(const Outcome& outcome) {
  const auto* error = std::get_if<Error>(&outcome);
  return error ? std::to_string(error->code) + " " + error->cause : "ok";
}

/// Everything that an answer shows of a node, as text.
inline std::string show(const NodeView& view) {
  std::string out = view.key + (view.dir ? "/" : "") + (view.value ? "=" + view.value->to_string() : "");
  out += " " + std::to_string(view.modified_index) + "," + std::to_string(view.created_index);
  if (view.ttl_s != 0) out += " ttl " + std::to_string(view.ttl_s);
  if (view.expiration_unix_ns != 0) out += " until " + std::to_string(view.expiration_unix_ns);
  if (!view.nodes.empty()) {
    out += " [";
    for (const NodeView& child : view.nodes) out += show(child) + "; ";
    out += "]";
  }
  return out;
}
inline std::string show(const Event& event) {
  std::string out = std::string(action_name(event.action)) + " " + show(event.node);
  if (event.prev_node) out += " <- " + show(*event.prev_node);
  return out;
}
inline std::string show(const Outcome& outcome) {
  const auto* error = std::get_if<Error>(&outcome);
  return error ? failure(outcome) + " @" + std::to_string(error->index) : show(*std::get<EventPtr>(outcome));
}

/// An engine of rows in memory.
class RowStore : public storage::EngineView {
 public:
  void write(const storage::WriteBatch& batch) {
    using Kind = storage::WriteBatch::Operation::Kind;
    for (const auto& operation : batch.operations()) {
      if (operation.kind == Kind::kPut) rows[operation.key] = operation.value;
      if (operation.kind == Kind::kErase) rows.erase(operation.key);
      if (operation.kind == Kind::kEraseRange) {
        rows.erase(rows.lower_bound(operation.key), rows.lower_bound(operation.value));
      }
    }
  }
  Result<std::optional<std::string>> get(std::string_view key) const override {
    auto row = rows.find(std::string(key));
    return row == rows.end() ? std::optional<std::string>() : row->second;
  }
  Status scan(std::string_view from, std::string_view to, const Visitor& visit) const override {
    for (auto row = rows.lower_bound(std::string(from)); row != rows.end(); ++row) {
      if ((!to.empty() && row->first >= to) || !visit(row->first, row->second)) break;
    }
    return Status::ok();
  }

  std::map<std::string, std::string> rows;
};

/// Saves what has changed; returns how many rows were written or erased.
inline size_t save(Tree& tree, RowStore& store) {
  storage::WriteBatch batch;
  tree.collect_changes(batch);
  store.write(batch);
  return batch.operations().size();
}

}  // namespace rallypoint::v2::testing
