// Watchers that are behind: one slice of history at a time, read once for all who stand inside it.
#include <algorithm>
#include <map>

#include "storage/watch/hub_state.h"

namespace rallypoint::watch {
namespace {

using mvcc::Event;
using mvcc::HeaderInfo;
using mvcc::Keyspace;

/// Looked at in one slice: a bound on how long it takes, whoever is behind.
constexpr size_t kWatchersPerSlice = 20'000;

/// The events of a slice that one group wants, and the responses made of them: watchers of a group that begin with the same
/// event share theirs.
struct Share {
  Group* group = nullptr;
  std::vector<uint32_t> places;                       ///< in the slice's events
  std::map<size_t, std::vector<Bytes>> responses;     ///< by the first event (index in `places`)
};

}  // namespace

bool WatchHub::State::settle(Watcher& watcher, const Keyspace& keyspace, const HeaderInfo& header) {
  if (!watcher.stream->open) {
    set_next(watcher, watcher.next);
  } else if (watcher.next < keyspace.compacted()) {
    std::string response = response_head(header, 0);
    mvcc::wire::append_bool(response, kCanceled, true);
    mvcc::wire::append_number(response, kCompactRevision, keyspace.compacted());
    send(*watcher.stream, watcher.id, Bytes(std::move(response)));
    remove(watcher);
  } else {
    return false;
  }
  return true;
}

Status WatchHub::State::serve_slice(const Keyspace& keyspace, const HeaderInfo& header, Instant now) {
  // Whoever is first in turn decides where the slice begins.
  Watcher* first = nullptr;
  for (size_t left = behind.size(); left > 0 && first == nullptr; --left) {
    Watcher& watcher = *behind.first();
    if (settle(watcher, keyspace, header)) continue;
    if (takes(*watcher.stream)) first = &watcher;
    else set_next(watcher, watcher.next);  // to the end of the queue
  }
  if (first == nullptr) return Status::ok();
  const int64_t from = first->next;
  std::vector<Event> events;
  auto stopped = keyspace.history(from, published, settings.catch_up_bytes, [&](Event&& event) { events.push_back(std::move(event)); });
  if (!stopped.is_ok()) return stopped.status();
  const int64_t upto = *stopped - 1;

  std::vector<Watcher*> served;
  std::vector<Share> shares;
  size_t looks = std::min(behind.size(), kWatchersPerSlice);
  for (Watcher* watcher = behind.first(); looks > 0; --looks) {
    Watcher& candidate = *watcher;
    watcher = watcher->behind;
    if (settle(candidate, keyspace, header)) continue;
    if (candidate.next < from || candidate.next > upto) continue;
    served.push_back(&candidate);
    if (candidate.group->slot != UINT32_MAX) continue;
    candidate.group->slot = static_cast<uint32_t>(shares.size());
    shares.push_back({candidate.group, {}, {}});
  }
  std::vector<Group*> found;
  for (size_t i = 0; i < events.size(); ++i) {
    found.clear();
    set.match(events[i].key.view(), found);
    for (const Group* group : found)
      if (group->slot != UINT32_MAX && group->wants(events[i])) shares[group->slot].places.push_back(static_cast<uint32_t>(i));
  }
  Encoder encoder(events, keyspace);
  Status failure;
  for (Watcher* watcher : served) {
    if (!takes(*watcher->stream)) continue;
    Share& share = shares[watcher->group->slot];
    const auto begin = std::lower_bound(share.places.begin(), share.places.end(), watcher->next,
                                        [&](uint32_t place, int64_t next) { return events[place].revision.main < next; });
    if (begin != share.places.end()) {
      auto [it, is_new] = share.responses.try_emplace(static_cast<size_t>(begin - share.places.begin()));
      if (is_new) {
        std::vector<EncodedEvent> encoded;
        for (auto place = begin; place != share.places.end(); ++place) {
          auto field = encoder.get(*place, watcher->group->prev_kv);
          if (field.is_ok()) encoded.push_back({events[*place].revision.main, *field});
          else failure = field.status();
        }
        if (!failure.is_ok()) break;
        it->second = responses_of(header, encoded, upto, watcher->group->fragment, settings.fragment_bytes);
      }
      for (const Bytes& response : it->second) send(*watcher, response, now);
    }
    if (upto == published) {
      leave_place(*watcher);
      set_synced(*watcher);
    } else {
      set_next(*watcher, upto + 1);  // at the end of the queue
    }
  }
  for (const Share& share : shares) share.group->slot = UINT32_MAX;
  return failure;
}

Result<bool> WatchHub::catch_up(const Keyspace& keyspace, const HeaderInfo& header, Instant now) {
  State& state = *state_;
  if (!state.behind.empty()) RALLY_RETURN_IF_ERROR(state.serve_slice(keyspace, header, now));
  if (!state.progress_requests.empty()) state.answer_progress(keyspace, header);
  return !state.behind.empty();
}

}  // namespace rallypoint::watch
