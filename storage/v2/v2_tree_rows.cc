// The tree as rows of the engine: what changed, loading it back, and the digest over all of it.
#include <utility>

#include "raft/base/check.h"
#include "storage/v2/v2_codec.h"
#include "storage/v2/v2_node.h"
#include "storage/v2/v2_tree.h"

namespace rallypoint::v2 {

void Tree::collect_changes(storage::WriteBatch& batch) {
  // Erases first: a path that was deleted and made again is in both lists.
  for (const std::string& path : erased_) batch.erase(node_row_key(path));
  erased_.clear();
  for (Node* node : changed_) {
    if (!node) continue;
    node->changed_slot = Node::kNotChanged;
    batch.put(node_row_key(node->path), encode_node(*node));
  }
  changed_.clear();

  save_history(batch);

  if (meta_changed_) batch.put(std::string(kMetaRow), encode_meta({index_, history_.dropped_through()}));
  meta_changed_ = false;
}

void Tree::save_history(storage::WriteBatch& batch) {
  const auto& events = history_.events();
  auto first_new = events.end();
  while (first_new != events.begin() && event_index(**std::prev(first_new)) > saved_through_) --first_new;
  saved_through_ = index_;
  if (first_new != events.end()) {
    const uint64_t first = event_index(**first_new);
    std::string row = begin_history_row(static_cast<uint64_t>(events.end() - first_new));
    for (auto event = first_new; event != events.end(); ++event) append_event(row, **event);
    batch.put(history_row_key(first), std::move(row));
    history_rows_.push_back({first, event_index(*events.back())});
  }
  while (!history_rows_.empty() && history_rows_.front().last <= history_.dropped_through()) {
    batch.erase(history_row_key(history_rows_.front().first));
    history_rows_.pop_front();
  }
}

Status Tree::load(const storage::EngineView& view) {
  reset();
  auto meta_row = view.get(kMetaRow);
  if (!meta_row.is_ok()) return meta_row.status();
  if (!meta_row.value()) {
    bool rows = false;
    Status scanned = view.scan(kRowsBegin, kRowsEnd, [&](std::string_view, std::string_view) {
      rows = true;
      return false;
    });
    if (!scanned.is_ok()) return scanned;
    return rows ? Status::data_loss("the v2 tree has rows, but row 2m with its index is missing") : Status::ok();
  }
  auto meta = decode_meta(*meta_row.value());
  if (!meta.is_ok()) return meta.status();

  // The fresh tree's directory is in the rows too, unless it has been deleted.
  by_path_.clear();
  root_->children.clear();
  changed_.clear();
  index_ = meta.value().index;
  history_.reset(meta.value().dropped_through);
  saved_through_ = index_;
  meta_changed_ = false;
  if (Status status = load_nodes(view); !status.is_ok()) return status;
  return load_history(view);
}

Status Tree::load_nodes(const storage::EngineView& view) {
  Status status;
  auto visit = [&](std::string_view key, std::string_view row) {
    const std::string path(key.substr(kNodeRows.size()));
    // In key order a directory comes before what it holds.
    const Place place = find(path);
    Node decoded;
    if (path.size() < 2 || path[0] != '/' || path.back() == '/' || place.node || place.missing != path ||
        !place.deepest->dir || !decode_node(row, decoded)) {
      status = Status::data_loss("the v2 row of key " + path + " is damaged");
      return false;
    }
    Node& node = add_child(*place.deepest, path, decoded.created_index);
    node.dir = decoded.dir;
    node.value = std::move(decoded.value);
    node.modified_index = decoded.modified_index;
    node.deadline = decoded.deadline;
    node.expiration_unix_ns = decoded.expiration_unix_ns;
    node.changed_slot = Node::kNotChanged;
    if (node.deadline) deadlines_.set(node.path, *node.deadline);
    return true;
  };
  Status scanned = view.scan(kNodeRows, std::string(1, kNodeRows[0]) + static_cast<char>(kNodeRows[1] + 1), visit);
  changed_.clear();
  return scanned.is_ok() ? status : scanned;
}

Status Tree::load_history(const storage::EngineView& view) {
  Status status;
  auto visit = [&](std::string_view key, std::string_view row) {
    const auto count = open_history_row(row);
    bool good = count && *count != 0;
    uint64_t first = 0;
    uint64_t last = history_rows_.empty() ? 0 : history_rows_.back().last;
    for (uint64_t i = 0; good && i < *count; ++i) {
      EventPtr event = take_event(row);
      good = event && event_index(*event) > last && event_index(*event) <= index_;
      if (!good) break;
      last = event_index(*event);
      if (i == 0) first = last;
      // A row stays until all of its events have left the window.
      if (last > history_.dropped_through()) history_.add(std::move(event));
    }
    if (!good || !row.empty() || history_row_key(first) != key) {
      status = Status::data_loss("a v2 history row is damaged");
      return false;
    }
    history_rows_.push_back({first, last});
    return true;
  };
  Status scanned =
      view.scan(kHistoryRows, std::string(1, kHistoryRows[0]) + static_cast<char>(kHistoryRows[1] + 1), visit);
  return scanned.is_ok() ? status : scanned;
}

namespace {

void add_nodes(const Node& node, Digest& digest) {
  for (const auto& [name, child] : node.children) {
    digest.add(child->path);
    digest.add(encode_node(*child));
    add_nodes(*child, digest);
  }
}

}  // namespace

uint64_t Tree::digest() const {
  Digest digest;
  digest.add(index_);
  digest.add(history_.dropped_through());
  add_nodes(*root_, digest);
  std::string encoded;
  for (const EventPtr& event : history_.events()) {
    encoded.clear();
    append_event(encoded, *event);
    digest.add(encoded);
  }
  return digest.value();
}

}  // namespace rallypoint::v2
