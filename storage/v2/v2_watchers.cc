#include "storage/v2/v2_watchers.h"

#include <algorithm>
#include <utility>

#include "raft/base/check.h"

namespace rallypoint::v2 {

std::variant<WatcherHub::Started, Error> WatcherHub::add(Token token, const WatchRequest& request,
                                                         const History& history, uint64_t now) {
  RALLY_CHECK(!by_token_.contains(token), "token", token);
  Started started;
  uint64_t since = request.wait_index == 0 ? now + 1 : request.wait_index;
  while (since <= now) {
    auto found = history.find(request.path, request.recursive, since, now);
    if (auto* error = std::get_if<Error>(&found)) return std::move(*error);
    auto& event = std::get<EventPtr>(found);
    if (!event) break;
    since = event_index(*event) + 1;
    started.events.push_back(std::move(event));
    if (!request.stream) {
      started.registered = false;
      return started;
    }
  }
  paths_[request.path].push_back({token, request.recursive, request.stream, since});
  by_token_.emplace(token, request.path);
  return started;
}

void WatcherHub::cancel(Token token) {
  auto known = by_token_.find(token);
  if (known == by_token_.end()) return;
  auto place = paths_.find(known->second);
  RALLY_CHECK(place != paths_.end(), "token", token);
  std::erase_if(place->second, [token](const Watch& watch) { return watch.token == token; });
  if (place->second.empty()) paths_.erase(place);
  by_token_.erase(known);
}

void WatcherHub::match(const EventPtr& event, std::vector<Delivery>& out) {
  if (event->refresh || paths_.empty()) return;
  const std::string& key = event->node.key;
  const size_t before = out.size();

  // The directories above, the root first; then the key itself.
  if (auto root = paths_.find(std::string_view("/")); root != paths_.end()) serve(root, event, out);
  for (size_t end = key.find('/', 1); !key.empty(); end = key.find('/', end + 1)) {
    auto place = paths_.find(std::string_view(key).substr(0, end));
    if (place != paths_.end()) serve(place, event, out);
    if (end == std::string::npos) break;
  }
  // A directory that goes takes everything below it along, so whoever watches there is told.
  if (event->node.dir && (event->action == Action::kDelete || event->action == Action::kExpire)) {
    for (auto place = paths_.lower_bound(key + '/'); place != paths_.end() && place->first.starts_with(key) &&
                                                     place->first[key.size()] == '/';) {
      place = serve(place, event, out);
    }
  }
  std::sort(out.begin() + static_cast<ptrdiff_t>(before), out.end(),
            [](const Delivery& a, const Delivery& b) { return a.token < b.token; });
}

WatcherHub::Paths::iterator WatcherHub::serve(Paths::iterator place, const EventPtr& event,
                                              std::vector<Delivery>& out) {
  // Which of the two kinds at this path are to see the event is the same for all of them.
  const bool direct = event_concerns(*event, place->first, false);
  const bool recursive = direct || event_concerns(*event, place->first, true);
  if (!recursive) return std::next(place);
  std::erase_if(place->second, [&](const Watch& watch) {
    if (!(watch.recursive ? recursive : direct) || event_index(*event) < watch.since) return false;
    out.push_back({watch.token, event, !watch.stream});
    if (watch.stream) return false;
    by_token_.erase(watch.token);
    return true;
  });
  return place->second.empty() ? paths_.erase(place) : std::next(place);
}

std::vector<WatcherHub::Token> WatcherHub::end_all() {
  std::vector<Token> tokens;
  tokens.reserve(by_token_.size());
  for (const auto& [token, path] : by_token_) tokens.push_back(token);
  std::sort(tokens.begin(), tokens.end());
  paths_.clear();
  by_token_.clear();
  return tokens;
}

Error WatcherHub::cleared_by_recovery(uint64_t now) { return {400, "", now}; }

}  // namespace rallypoint::v2
