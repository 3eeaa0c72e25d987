// WatcherSet: groups of watchers that want the same (range, filters, options), found by the key of an event. A group is
// matched once and its response is encoded once, however many watchers it has. Groups of single keys are found by hash;
// those of ranges in an interval tree (a treap by first key, in which every node knows the furthest end below it), so that
// an event meets only the ranges that cover its key, also beside ranges that cover everything.
//
// Pure; owned by the watch hub.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "storage/mvcc/event.h"
#include "storage/watch/hash_chains.h"

namespace rallypoint::watch {

struct Watcher;

/// What a watcher wants to see.
struct Interest {
  std::string key;
  std::string range_end;     ///< empty = the one key; "\0" = to the end
  bool no_put = false;
  bool no_delete = false;
  bool prev_kv = false;
  bool fragment = false;

  [[nodiscard]] bool to_the_end() const { return range_end == std::string_view("\0", 1); }
};

/// Pointers to watchers that know their places; a single one needs no memory of its own.
class WatcherList {
 public:
  WatcherList() = default;
  ~WatcherList() { if (room_ > 1) delete[] many_; }
  WatcherList(const WatcherList&) = delete;
  WatcherList& operator=(const WatcherList&) = delete;

  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] Watcher* operator[](size_t i) const { return room_ > 1 ? many_[i] : one_; }
  void push_back(Watcher* watcher);
  /// The last one takes the place; returns it.
  Watcher* take_out(size_t place);

 private:
  union {
    Watcher* one_ = nullptr;
    Watcher** many_;
  };
  uint32_t size_ = 0;
  uint32_t room_ = 1;
};

class Group {
 public:
  Group(const Interest& interest, uint32_t hash);

  [[nodiscard]] std::string_view key() const { return {bounds_.get(), key_size_}; }
  [[nodiscard]] std::string_view range_end() const { return {bounds_.get() + key_size_, end_size_}; }
  [[nodiscard]] bool is_range() const { return end_size_ > 0; }
  [[nodiscard]] bool is(const Interest& interest) const;
  /// Whether it wants an event of a key that its range covers.
  [[nodiscard]] bool wants(const mvcc::Event& event) const { return !(event.is_delete ? no_delete : no_put); }
  [[nodiscard]] size_t hash() const { return hash_; }
  /// Of ranges: whether it ends before or where the other does.
  [[nodiscard]] bool ends_within(const Group& other) const { return other.to_the_end || (!to_the_end && range_end() <= other.range_end()); }
  [[nodiscard]] bool ends_behind(std::string_view candidate) const { return to_the_end || candidate < range_end(); }

  WatcherList synced;                ///< those that are up to date
  uint32_t watchers = 0;             ///< all of them; the group goes with the last one
  uint32_t slot = UINT32_MAX;        ///< the hub's, while it gives out events

 private:  // in this order, a group is 56 bytes
  uint32_t hash_;
  uint32_t key_size_;
  uint32_t end_size_;

 public:
  bool no_put : 1;
  bool no_delete : 1;
  bool prev_kv : 1;
  bool fragment : 1;
  bool to_the_end : 1;
  Group* next_of_hash = nullptr;     ///< the table's

 private:
  std::unique_ptr<char[]> bounds_;   ///< key, then range_end
};

static_assert(sizeof(Group) == 56);

class WatcherSet {
 public:
  WatcherSet() = default;
  ~WatcherSet();
  WatcherSet(const WatcherSet&) = delete;
  WatcherSet& operator=(const WatcherSet&) = delete;

  /// The group of that interest, made if there is none; counts one watcher more.
  Group& join(const Interest& interest);
  /// One watcher less.
  void leave(Group& group);
  /// Appends every group whose range covers the key.
  void match(std::string_view key, std::vector<Group*>& out) const;
  [[nodiscard]] size_t groups() const { return groups_.size(); }

 private:
  struct RangeGroup;
  void insert(RangeGroup*& root, RangeGroup& group);
  void erase(RangeGroup*& root, RangeGroup& group);
  static void match(const RangeGroup* root, std::string_view key, std::vector<Group*>& out);

  HashChains<Group, &Group::next_of_hash> groups_;
  RangeGroup* ranges_ = nullptr;  ///< the tree's root
  uint64_t priority_ = 1;
};

}  // namespace rallypoint::watch
