// WatcherSet: groups of watchers that want the same (range, filters, options), found by the key of an event. A group is
// matched once and its response is encoded once, however many watchers it has. Single keys by hash, ranges by a sorted
// list with the furthest end so far beside it, so that only ranges that reach the key are looked at for long.
//
// Pure; owned by the watch hub.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "storage/mvcc/event.h"

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

  [[nodiscard]] bool covers(std::string_view candidate) const {
    if (range_end.empty()) return candidate == key;
    return candidate >= key && (to_the_end() || candidate < range_end);
  }
  [[nodiscard]] bool wants(const mvcc::Event& event) const { return !(event.is_delete ? no_delete : no_put) && covers(event.key.view()); }
  [[nodiscard]] bool to_the_end() const { return range_end == std::string_view("\0", 1); }
  [[nodiscard]] auto tie() const { return std::tie(key, range_end, no_put, no_delete, prev_kv, fragment); }
  friend bool operator<(const Interest& a, const Interest& b) { return a.tie() < b.tie(); }
};

struct Group {
  const Interest* interest = nullptr;
  std::vector<Watcher*> synced;      ///< those that are up to date
  size_t watchers = 0;               ///< all of them; the group goes with the last one
  std::vector<uint32_t> matched;     ///< of the events that are being published: their places
};

class WatcherSet {
 public:
  /// The group of that interest, made if there is none; counts one watcher more.
  Group* join(const Interest& interest);
  /// One watcher less.
  void leave(Group* group);
  /// Appends every group whose range covers the key.
  void match(std::string_view key, std::vector<Group*>& out);

 private:
  struct Range {
    std::string_view begin;
    std::string_view end;        ///< empty = to the end
    std::string_view furthest;   ///< the largest end of this range and all before it
    bool furthest_is_end = false;
    Group* group = nullptr;
  };
  void rebuild();

  std::map<Interest, Group> groups_;
  std::unordered_map<std::string_view, std::vector<Group*>> by_key_;
  std::vector<Range> ranges_;
  bool ranges_changed_ = false;
};

}  // namespace rallypoint::watch
