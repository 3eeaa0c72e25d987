// How a request is executed: find() walks its path once, check() decides whether it can succeed, and only then is
// anything changed; so an error leaves no trace, and would_fail() is the same decision without the change.
#include "storage/v2/v2_tree.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "raft/base/check.h"
#include "storage/v2/v2_node.h"

namespace rallypoint::v2 {
namespace {

/// Longest path in components. etcd has no bound; ours keeps every walk over the tree within a normal stack.
constexpr int64_t kDepthMax = 1000;
/// About 220 years: larger TTLs are cut to it, so that no sum of times can overflow.
constexpr int64_t kTtlSecondsMax = 7'000'000'000;

NodeView view_of(const Node& node, const Clock& now) {
  NodeView view;
  if (node.parent != nullptr) view.key = node.path;
  view.dir = node.dir;
  if (!node.dir) view.value = node.value;
  if (node.deadline) {
    const int64_t left_us = (*node.deadline - now.cluster_time).us;
    view.ttl_s = left_us <= 0 ? 0 : (left_us + 999'999) / 1'000'000;
    view.expiration_unix_ns = node.expiration_unix_ns;
  }
  view.modified_index = node.modified_index;
  view.created_index = node.created_index;
  return view;
}

void list_children(const Node& node, bool recursive, const Clock& now, NodeView& view) {
  view.nodes.reserve(node.children.size());
  for (const auto& [name, child] : node.children) {
    if (child->is_hidden()) continue;
    view.nodes.push_back(view_of(*child, now));
    if (recursive && child->dir) list_children(*child, recursive, now, view.nodes.back());
  }
}

/// The name of an in-order key: 20 digits, so that names sort like indexes.
std::string in_order_name(uint64_t index) {
  char name[24];
  std::snprintf(name, sizeof name, "%020llu", static_cast<unsigned long long>(index));
  return name;
}

std::string join(std::string_view directory, std::string_view name) {
  std::string path;
  path.reserve(directory.size() + 1 + name.size());
  if (directory != "/") path.append(directory);
  return path.append("/").append(name);
}

/// Etcd's "[wanted != actual]", for each compare that failed.
std::string compare_cause(const WriteRequest& request, const Node& node, bool value_ok, bool index_ok) {
  std::string cause;
  if (!value_ok) cause.append("[").append(*request.prev_value).append(" != ").append(node.value.view()).append("]");
  if (!value_ok && !index_ok) cause += ' ';
  if (!index_ok) {
    cause += '[' + std::to_string(request.prev_index) + " != " + std::to_string(node.modified_index) + ']';
  }
  return cause;
}

}  // namespace

Tree::Tree() { reset(); }
Tree::~Tree() = default;
Tree::Tree(Tree&&) noexcept = default;
Tree& Tree::operator=(Tree&&) noexcept = default;

void Tree::reset() {
  by_path_.clear();
  root_ = std::make_unique<Node>();
  root_->path = "/";
  root_->dir = true;
  index_ = kFirstIndex;
  history_.reset(0);
  deadlines_.clear();
  changed_.clear();
  erased_.clear();
  history_rows_.clear();
  saved_through_ = index_;
  meta_changed_ = true;
  Place place = find(kStoreDirectory);
  add_child(make_parents(place, kStoreDirectory, index_), std::string(kStoreDirectory), index_).dir = true;
}

// ---- deciding ----------------------------------------------------------------------------------------------------

Tree::Place Tree::find(std::string_view path) const {
  if (const auto known = by_path_.find(path); known != by_path_.end()) return {known->second, known->second, {}};
  Place place{nullptr, root_.get(), {}};
  size_t begin = 1;
  while (begin < path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    auto child = place.deepest->children.find(path.substr(begin, end - begin));
    if (child == place.deepest->children.end()) {
      place.missing = path.substr(0, end);
      return place;
    }
    place.deepest = child->second.get();
    begin = end + 1;
  }
  place.node = place.deepest;
  return place;
}

std::optional<Error> Tree::check(const WriteRequest& request, Action action, const Place& place) const {
  const bool is_post = request.method == WriteRequest::Method::kPost;
  // Etcd forgets to protect the root from compareAndDelete; it then fails as "not a file", without a cause.
  const bool at_root = place.node == root_.get();
  if (at_root && !is_post && action != Action::kCompareAndDelete) return error(107, "/");
  if (!place.node && !place.deepest->dir) return error(104, place.deepest->path);

  switch (action) {
    case Action::kSet:
    case Action::kCreate:
      if (!place.node) {
        if (action == Action::kSet && request.refresh) return error(100, std::string(place.missing));
        if (std::count(request.path.begin(), request.path.end(), '/') >= kDepthMax) {
          return error(209, "a key may have at most " + std::to_string(kDepthMax) + " components");
        }
      } else if (is_post) {
        if (!place.node->dir) return error(104, place.node->path);
        const std::string name = in_order_name(index_ + 1);
        if (place.node->children.contains(name)) return error(105, join(request.path, name));
      } else if (action == Action::kCreate) {
        return error(105, request.path);
      } else if (place.node->dir) {
        return error(102, request.path);
      }
      return std::nullopt;

    case Action::kUpdate:
      if (!place.node) return error(100, std::string(place.missing));
      if (place.node->dir && !request.value.empty()) return error(102, request.path);
      return std::nullopt;

    case Action::kCompareAndSwap:
    case Action::kCompareAndDelete:
      if (!place.node) return error(100, std::string(place.missing));
      if (place.node->dir) return error(102, at_root ? "" : request.path);
      return check_compare(request, *place.node);

    case Action::kDelete:
      if (!place.node) return error(100, std::string(place.missing));
      if (place.node->dir && !request.recursive) {
        if (!request.dir) return error(102, request.path);
        if (!place.node->children.empty()) return error(108, request.path);
      }
      return std::nullopt;

    case Action::kGet:
    case Action::kExpire: break;
  }
  RALLY_CHECK(false, "action", action_name(action));
}

std::optional<Error> Tree::check_compare(const WriteRequest& request, const Node& node) const {
  const bool value_ok = !request.prev_value || node.value.view() == *request.prev_value;
  const bool index_ok = request.prev_index == 0 || node.modified_index == request.prev_index;
  if (value_ok && index_ok) return std::nullopt;
  return error(101, compare_cause(request, node, value_ok, index_ok));
}

std::optional<Error> Tree::would_fail(const WriteRequest& request) const {
  return check(request, action_of(request), find(request.path));
}

// ---- executing ---------------------------------------------------------------------------------------------------

Outcome Tree::apply(const WriteRequest& request, const Clock& now) {
  const Action action = action_of(request);
  const Place place = find(request.path);
  auto failure = check(request, action, place);
  stats_.of(request).add(!failure);
  if (failure) return std::move(*failure);

  const bool removes = action == Action::kDelete || action == Action::kCompareAndDelete;
  EventPtr event = removes ? remove(action, *place.node, now) : put(request, action, place, now);
  if (!event->refresh) history_.add(event);
  return event;
}

EventPtr Tree::put(const WriteRequest& request, Action action, const Place& place, const Clock& now) {
  const uint64_t index = next_index();
  auto event = std::make_shared<Event>();
  event->action = action;
  event->etcd_index = index;
  event->no_value_on_success = request.no_value_on_success;

  Node* node = place.node;
  const bool is_post = request.method == WriteRequest::Method::kPost;
  const bool comes_into_being = is_post || node == nullptr;
  if (is_post) {
    Node& directory = node ? *node : make_directory(place, request.path, index);
    node = &add_child(directory, join(request.path, in_order_name(index)), index);
  } else if (!node) {
    node = &add_child(make_parents(place, request.path, index), request.path, index);
  } else {
    event->prev_node = view_of(*node, now);
    event->refresh = request.refresh;
  }

  if (action == Action::kSet || action == Action::kCreate) {
    // A set replaces the node, also its kind and its createdIndex.
    node->dir = request.dir;
    node->created_index = index;
  }
  if (node->dir) {
    node->value = {};
  } else if (comes_into_being || !request.refresh) {
    node->value = request.value;
  }
  // Etcd's quirk: updating a directory leaves its modifiedIndex alone, though the answer shows the new one.
  if (!node->dir || action != Action::kUpdate) node->modified_index = index;
  set_deadline(*node, request.ttl_s, now);
  mark_changed(*node);

  event->node = view_of(*node, now);
  event->node.modified_index = index;
  return event;
}

EventPtr Tree::remove(Action action, Node& node, const Clock& now) {
  auto event = std::make_shared<Event>();
  event->action = action;
  event->etcd_index = next_index();
  event->node.key = node.path;
  event->node.dir = node.dir;
  event->node.modified_index = index_;
  event->node.created_index = node.created_index;
  event->prev_node = view_of(node, now);
  detach(node);
  return event;
}

std::vector<EventPtr> Tree::expire(const Clock& now) {
  std::vector<EventPtr> events;
  while (auto path = deadlines_.pop_due(now.cluster_time)) {
    Node* node = find(*path).node;
    RALLY_CHECK(node != nullptr && node->deadline, "path", *path);
    events.push_back(remove(Action::kExpire, *node, now));
    history_.add(events.back());
    ++stats_.expired;
  }
  return events;
}

std::optional<Instant> Tree::next_deadline() { return deadlines_.next(); }

Outcome Tree::read(const ReadRequest& request, const Clock& now) const {
  const Place place = find(request.path);
  stats_.gets.add(place.node != nullptr);
  if (!place.node) {
    if (!place.deepest->dir) return error(104, place.deepest->path);
    return error(100, std::string(place.missing));
  }
  auto event = std::make_shared<Event>();
  event->action = Action::kGet;
  event->etcd_index = index_;
  event->node = view_of(*place.node, now);
  if (place.node->dir) list_children(*place.node, request.recursive, now, event->node);
  return EventPtr(std::move(event));
}

// ---- the shape of the tree ---------------------------------------------------------------------------------------

uint64_t Tree::next_index() {
  meta_changed_ = true;
  return ++index_;
}

Node& Tree::make_parents(const Place& place, std::string_view path, uint64_t index) {
  Node* parent = place.deepest;
  // Every component after the deepest node and before the last one.
  for (size_t end = place.missing.size(); end < path.size(); end = std::min(path.find('/', end + 1), path.size())) {
    parent = &add_child(*parent, std::string(path.substr(0, end)), index);
    parent->dir = true;
  }
  return *parent;
}

Node& Tree::make_directory(const Place& place, std::string_view path, uint64_t index) {
  Node& directory = add_child(make_parents(place, path, index), std::string(path), index);
  directory.dir = true;
  return directory;
}

Node& Tree::add_child(Node& parent, std::string path, uint64_t index) {
  auto node = std::make_unique<Node>();
  node->path = std::move(path);
  node->parent = &parent;
  node->created_index = index;
  node->modified_index = index;
  Node& child = *node;
  const bool added = parent.children.emplace(child.name(), std::move(node)).second;
  RALLY_CHECK(added, "path", child.path);
  by_path_.emplace(child.path, &child);
  mark_changed(child);
  return child;
}

void Tree::detach(Node& node) {
  forget(node);
  node.parent->children.erase(node.name());
}

void Tree::forget(Node& node) {
  for (auto& [name, child] : node.children) forget(*child);
  if (node.deadline) deadlines_.erase(node.path);
  if (node.changed_slot != Node::kNotChanged) changed_[node.changed_slot] = nullptr;
  by_path_.erase(node.path);
  erased_.push_back(node.path);
}

void Tree::set_deadline(Node& node, std::optional<int64_t> ttl_s, const Clock& now) {
  if (!ttl_s) {
    if (node.deadline) deadlines_.erase(node.path);
    node.deadline.reset();
    node.expiration_unix_ns = 0;
    return;
  }
  const int64_t seconds = std::clamp<int64_t>(*ttl_s, 0, kTtlSecondsMax);
  node.deadline = now.cluster_time + Duration::seconds(seconds);
  node.expiration_unix_ns = now.wall_unix_ns + seconds * 1'000'000'000;
  deadlines_.set(node.path, *node.deadline);
}

void Tree::mark_changed(Node& node) {
  if (node.changed_slot != Node::kNotChanged) return;
  node.changed_slot = changed_.size();
  changed_.push_back(&node);
}

}  // namespace rallypoint::v2
