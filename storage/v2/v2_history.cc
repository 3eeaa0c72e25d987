#include "storage/v2/v2_history.h"

#include <algorithm>
#include <string>
#include <utility>

#include "raft/base/check.h"

namespace rallypoint::v2 {
namespace {

/// Whether `path` lies strictly below the directory `above`.
bool is_below(std::string_view path, std::string_view above) {
  if (above == "/") return path.size() > 1;
  return path.size() > above.size() && path.starts_with(above) && path[above.size()] == '/';
}

}  // namespace

bool event_concerns(const Event& event, std::string_view watched, bool recursive) {
  const std::string_view key = event.node.key;
  if (key == watched) return true;
  if (is_below(key, watched)) {
    if (!recursive) return false;
    const std::string_view rest = watched == "/" ? key : key.substr(watched.size());
    return rest.find("/_") == std::string_view::npos;
  }
  const bool removed = event.action == Action::kDelete || event.action == Action::kExpire;
  return removed && event.node.dir && is_below(watched, key);
}

void History::add(EventPtr event) {
  RALLY_CHECK(events_.empty() || event_index(*events_.back()) < event_index(*event), "index", event_index(*event));
  events_.push_back(std::move(event));
  if (events_.size() <= kEventsMax) return;
  dropped_through_ = event_index(*events_.front());
  events_.pop_front();
}

std::variant<EventPtr, Error> History::find(std::string_view path, bool recursive, uint64_t since,
                                            uint64_t now) const {
  if (since <= dropped_through_) {
    return Error{401,
                 "the requested history has been cleared [" + std::to_string(dropped_through_ + 1) + "/" +
                     std::to_string(since) + "]",
                 now};
  }
  auto first = std::lower_bound(events_.begin(), events_.end(), since, [](const EventPtr& event, uint64_t index) {
    return event_index(*event) < index;
  });
  auto found = std::find_if(first, events_.end(), [&](const EventPtr& event) {
    return event_concerns(*event, path, recursive);
  });
  return found == events_.end() ? EventPtr() : *found;
}

void History::reset(uint64_t dropped_through) {
  events_.clear();
  dropped_through_ = dropped_through;
}

}  // namespace rallypoint::v2
