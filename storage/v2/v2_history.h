// History: the last 1000 events of the v2 store, so that a watcher that comes a little late misses nothing.
//
// Part of the replicated state (same on every node, kept over restarts and snapshots); owned by the Tree, which
// alone adds to it. Pure: no I/O, clock or threads. Refreshes are not events. Source: etcd's v2 API as observed
// (window of 1000 events of the whole store, error 401 for what is older).
#pragma once

#include <cstdint>
#include <deque>
#include <string_view>
#include <variant>

#include "storage/v2/v2_types.h"

namespace rallypoint::v2 {

/// Whether a watch of `watched` (recursive or not) is to see `event`:
/// - the key itself; below it too if recursive, but nothing under a hidden ('_') component below `watched`;
/// - the delete or expiry of a directory above it.
bool event_concerns(const Event& event, std::string_view watched, bool recursive);

class History {
 public:
  static constexpr size_t kEventsMax = 1000;

  /// Adds the newest event; drops the oldest when the window is full.
  void add(EventPtr event);

  /// The oldest event with index >= `since` that a watch of `path` is to see; null = none yet. Error 401 when an
  /// event at or after `since` has been dropped, so that the answer cannot be known. `now` = the store's index.
  [[nodiscard]] std::variant<EventPtr, Error> find(std::string_view path, bool recursive, uint64_t since,
                                                   uint64_t now) const;

  [[nodiscard]] const std::deque<EventPtr>& events() const { return events_; }
  /// Index of the newest event that was dropped; 0 = none was.
  [[nodiscard]] uint64_t dropped_through() const { return dropped_through_; }

  /// For loading: forgets everything and starts after `dropped_through`.
  void reset(uint64_t dropped_through);

 private:
  std::deque<EventPtr> events_;  ///< ascending by index, at most kEventsMax
  uint64_t dropped_through_ = 0;
};

/// The index of an event: the store's index right after it.
inline uint64_t event_index(const Event& event) { return event.node.modified_index; }

}  // namespace rallypoint::v2
