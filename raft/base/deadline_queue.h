// DeadlineQueue: which key is due next. A binary heap with lazy deletion: changing or cancelling a deadline only
// writes the map, stale heap items are skipped when they surface. Used by leases, v2 TTLs and rendezvous.
//
// Deterministic: equal deadlines come out in key order.
#pragma once

#include <cstddef>
#include <optional>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "raft/base/units.h"

namespace rallypoint {

template <class Key, class Hash = std::hash<Key>>
class DeadlineQueue {
 public:
  /// Sets or moves the deadline of `key`.
  void set(const Key& key, Instant deadline) {
    deadlines_[key] = deadline;
    heap_.push({deadline, key});
    // Moved deadlines leave stale items behind; rebuild before they outnumber the live ones.
    if (heap_.size() > 2 * deadlines_.size() + 64) rebuild();
  }
  void erase(const Key& key) { deadlines_.erase(key); }
  void clear() { deadlines_.clear(), heap_ = {}; }
  [[nodiscard]] size_t size() const { return deadlines_.size(); }
  [[nodiscard]] std::optional<Instant> deadline_of(const Key& key) const {
    auto it = deadlines_.find(key);
    if (it == deadlines_.end()) return std::nullopt;
    return it->second;
  }
  /// The earliest deadline, if there is any.
  std::optional<Instant> next() {
    drop_stale();
    if (heap_.empty()) return std::nullopt;
    return heap_.top().first;
  }
  /// Removes and returns the earliest key whose deadline is at or before `now`.
  std::optional<Key> pop_due(Instant now) {
    drop_stale();
    if (heap_.empty() || now < heap_.top().first) return std::nullopt;
    Key key = heap_.top().second;
    heap_.pop();
    deadlines_.erase(key);
    return key;
  }

 private:
  using Item = std::pair<Instant, Key>;
  struct Later {
    bool operator()(const Item& a, const Item& b) const {
      return b.first != a.first ? b.first < a.first : b.second < a.second;
    }
  };
  void drop_stale() {
    while (!heap_.empty()) {
      auto it = deadlines_.find(heap_.top().second);
      if (it != deadlines_.end() && it->second == heap_.top().first) return;
      heap_.pop();
    }
  }
  void rebuild() {
    std::vector<Item> items;
    items.reserve(deadlines_.size());
    for (const auto& [key, deadline] : deadlines_) items.push_back({deadline, key});
    heap_ = Heap(Later{}, std::move(items));
  }

  using Heap = std::priority_queue<Item, std::vector<Item>, Later>;
  std::unordered_map<Key, Instant, Hash> deadlines_;
  Heap heap_;
};

}  // namespace rallypoint
