#include "storage/watch/watcher_set.h"

#include <algorithm>
#include <functional>

#include "raft/base/check.h"

namespace rallypoint::watch {
namespace {
/// Of single keys: of the key alone, since that is what an event has.
uint32_t hash_of(std::string_view key, std::string_view range_end) {
  size_t hash = std::hash<std::string_view>()(key);
  if (!range_end.empty()) hash = hash * 31 + std::hash<std::string_view>()(range_end);
  return static_cast<uint32_t>(hash ^ hash >> 32);
}
}  // namespace

void WatcherList::push_back(Watcher* watcher) {
  if (size_ == room_) {
    auto* more = new Watcher*[room_ * 2];
    for (size_t i = 0; i < size_; ++i) more[i] = (*this)[i];
    if (room_ > 1) delete[] many_;
    many_ = more;
    room_ *= 2;
  }
  (room_ > 1 ? many_[size_] : one_) = watcher;
  ++size_;
}

Watcher* WatcherList::take_out(size_t place) {
  RALLY_CHECK(place < size_, "place", place, "size", size_);
  Watcher* last = (*this)[--size_];
  if (place < size_) many_[place] = last;
  return last;
}

Group::Group(const Interest& interest, uint32_t hash)
    : hash_(hash), key_size_(static_cast<uint32_t>(interest.key.size())), end_size_(static_cast<uint32_t>(interest.range_end.size())),
      no_put(interest.no_put), no_delete(interest.no_delete), prev_kv(interest.prev_kv), fragment(interest.fragment), to_the_end(interest.to_the_end()),
      bounds_(new char[interest.key.size() + interest.range_end.size()]) {
  std::copy(interest.key.begin(), interest.key.end(), bounds_.get());
  std::copy(interest.range_end.begin(), interest.range_end.end(), bounds_.get() + key_size_);
}

bool Group::is(const Interest& interest) const {
  return no_put == interest.no_put && no_delete == interest.no_delete && prev_kv == interest.prev_kv && fragment == interest.fragment &&
         key() == interest.key && range_end() == interest.range_end;
}

/// A node of the tree. Ordered by (key, priority): priorities are unique, so equal keys have an order too, and are random
/// enough to keep the tree shallow.
struct WatcherSet::RangeGroup : Group {
  using Group::Group;
  RangeGroup* left = nullptr;
  RangeGroup* right = nullptr;
  const Group* furthest = nullptr;  ///< the group below or here with the furthest end
  uint64_t priority = 0;

  [[nodiscard]] bool before(const RangeGroup& other) const {
    const int order = key().compare(other.key());
    return order != 0 ? order < 0 : priority < other.priority;
  }
  void look() {
    furthest = this;
    for (const RangeGroup* below : {left, right})
      if (below != nullptr && furthest->ends_within(*below->furthest)) furthest = below->furthest;
  }
};

WatcherSet::~WatcherSet() {
  groups_.for_each([](Group& group) {
    if (group.is_range()) delete static_cast<RangeGroup*>(&group);
    else delete &group;
  });
}

Group& WatcherSet::join(const Interest& interest) {
  const uint32_t hash = hash_of(interest.key, interest.range_end);
  if (Group* group = groups_.find(hash, [&](const Group& candidate) { return candidate.is(interest); })) {
    ++group->watchers;
    return *group;
  }
  Group* group = nullptr;
  if (interest.range_end.empty()) {
    group = new Group(interest, hash);
  } else {
    auto* range = new RangeGroup(interest, hash);
    priority_ = priority_ * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator: full period, so unique
    range->priority = priority_ ^ priority_ >> 32;
    insert(ranges_, *range);
    group = range;
  }
  groups_.insert(*group);
  ++group->watchers;
  return *group;
}

void WatcherSet::leave(Group& group) {
  RALLY_CHECK(group.watchers > 0);
  if (--group.watchers > 0) return;
  RALLY_CHECK(group.synced.empty());
  groups_.erase(group);
  if (!group.is_range()) {
    delete &group;
    return;
  }
  auto* range = static_cast<RangeGroup*>(&group);
  erase(ranges_, *range);
  delete range;
}

void WatcherSet::insert(RangeGroup*& root, RangeGroup& group) {
  if (root == nullptr) {
    root = &group;
  } else if (group.before(*root)) {
    insert(root->left, group);
    if (RangeGroup* left = root->left; left->priority > root->priority) {  // turn right
      root->left = left->right;
      root->look();
      left->right = root;
      root = left;
    }
  } else {
    insert(root->right, group);
    if (RangeGroup* right = root->right; right->priority > root->priority) {  // turn left
      root->right = right->left;
      root->look();
      right->left = root;
      root = right;
    }
  }
  root->look();
}

void WatcherSet::erase(RangeGroup*& root, RangeGroup& group) {
  RALLY_CHECK(root != nullptr);
  if (root != &group) {
    erase(group.before(*root) ? root->left : root->right, group);
    root->look();
    return;
  }
  // Sink it until it has at most one child.
  RangeGroup* left = root->left;
  RangeGroup* right = root->right;
  if (left == nullptr || right == nullptr) {
    root = left != nullptr ? left : right;
    return;
  }
  if (left->priority > right->priority) {
    group.left = left->right;
    left->right = &group;
    root = left;
    erase(root->right, group);
  } else {
    group.right = right->left;
    right->left = &group;
    root = right;
    erase(root->left, group);
  }
  root->look();
}

void WatcherSet::match(const RangeGroup* root, std::string_view key, std::vector<Group*>& out) {
  while (root != nullptr && root->furthest->ends_behind(key)) {
    match(root->left, key, out);
    if (key < root->key()) return;
    if (root->ends_behind(key)) out.push_back(const_cast<RangeGroup*>(root));
    root = root->right;
  }
}

void WatcherSet::match(std::string_view key, std::vector<Group*>& out) const {
  groups_.for_each(hash_of(key, {}), [&](Group& group) {
    if (!group.is_range() && group.key() == key) out.push_back(&group);
  });
  match(ranges_, key, out);
}

}  // namespace rallypoint::watch
