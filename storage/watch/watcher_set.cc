#include "storage/watch/watcher_set.h"

#include <algorithm>

#include "raft/base/check.h"

namespace rallypoint::watch {

Group* WatcherSet::join(const Interest& interest) {
  auto [it, is_new] = groups_.try_emplace(interest);
  Group* group = &it->second;
  ++group->watchers;
  if (!is_new) return group;
  group->interest = &it->first;
  if (it->first.range_end.empty()) {
    // The view is into the first group's own key; leave() moves it on when that group goes.
    by_key_[it->first.key].push_back(group);
  } else {
    ranges_changed_ = true;
  }
  return group;
}

void WatcherSet::leave(Group* group) {
  RALLY_CHECK(group->watchers > 0);
  if (--group->watchers > 0) return;
  auto it = groups_.find(*group->interest);
  RALLY_CHECK(it != groups_.end() && group->synced.empty());
  if (it->first.range_end.empty()) {
    auto node = by_key_.extract(std::string_view(it->first.key));
    std::erase(node.mapped(), group);
    if (!node.mapped().empty()) {
      node.key() = node.mapped().front()->interest->key;
      by_key_.insert(std::move(node));
    }
  } else {
    ranges_changed_ = true;
  }
  groups_.erase(it);
}

void WatcherSet::rebuild() {
  ranges_changed_ = false;
  ranges_.clear();
  for (auto& [interest, group] : groups_) {  // in order of the first key
    if (interest.range_end.empty()) continue;
    Range range{interest.key, interest.to_the_end() ? std::string_view() : std::string_view(interest.range_end), {}, false, &group};
    range.furthest = range.end;
    range.furthest_is_end = range.end.empty();
    if (!ranges_.empty()) {
      const Range& before = ranges_.back();
      range.furthest_is_end |= before.furthest_is_end;
      range.furthest = std::max(range.furthest, before.furthest);
    }
    ranges_.push_back(range);
  }
}

void WatcherSet::match(std::string_view key, std::vector<Group*>& out) {
  if (auto it = by_key_.find(key); it != by_key_.end()) out.insert(out.end(), it->second.begin(), it->second.end());
  if (ranges_changed_) rebuild();
  auto it = std::upper_bound(ranges_.begin(), ranges_.end(), key, [](std::string_view k, const Range& range) { return k < range.begin; });
  while (it != ranges_.begin()) {
    --it;
    if (!it->furthest_is_end && it->furthest <= key) break;  // neither it nor any before it reaches the key
    if (it->end.empty() || key < it->end) out.push_back(it->group);
  }
}

}  // namespace rallypoint::watch
