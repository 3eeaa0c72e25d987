#include "storage/watch/watch_hub.h"

#include <algorithm>
#include <list>
#include <unordered_map>

#include "raft/base/check.h"
#include "storage/watch/response.h"
#include "storage/watch/watcher_set.h"

namespace rallypoint::watch {

using etcdserverpb::WatchCreateRequest;
using mvcc::Event;
using mvcc::HeaderInfo;
using mvcc::Keyspace;

namespace {
struct Stream;
}

/// One watcher. It is up to date (in its group's list), or behind (in the hub's list) with `next` the first revision
/// that it has not been told; a start in the future is a `next` that is not reached yet.
struct Watcher {
  Stream* stream = nullptr;
  Group* group = nullptr;
  int64_t id = 0;
  int64_t next = 0;
  Instant last_sent;
  size_t place = 0;                            ///< in group->synced
  std::list<Watcher*>::iterator behind_place;  ///< in State::behind
  bool is_synced = false;
  bool progress_notify = false;
};

namespace {

struct Stream {
  StreamId id = 0;
  bool open = true;
  bool progress_requested = false;
  bool has_output = false;
  size_t behind = 0;
  int64_t next_id = 0;
  std::unordered_map<int64_t, std::unique_ptr<Watcher>> watchers;
  std::vector<Part> output;
};

/// The events of one publish or slice, encoded on demand, once with the pair before and once without.
class Encoded {
 public:
  Encoded(const std::vector<Event>& events, const Keyspace& keyspace) : events_(events), keyspace_(keyspace), plain_(events.size()), with_previous_(events.size()) {}
  const std::string& get(size_t i, bool prev_kv) {
    const Event& event = events_[i];
    if (!prev_kv || event.previous.main == 0) {
      if (plain_[i].empty()) plain_[i] = event_field(event, std::nullopt);
      return plain_[i];
    }
    if (with_previous_[i].empty()) {
      // Compacted away, or an engine that fails: then without; the node stops at its next write.
      auto previous = keyspace_.pair_at(event.previous);
      with_previous_[i] = event_field(event, previous.is_ok() ? *previous : std::optional<Bytes>());
    }
    return with_previous_[i];
  }

 private:
  const std::vector<Event>& events_;
  const Keyspace& keyspace_;
  std::vector<std::string> plain_, with_previous_;
};

}  // namespace

struct WatchHub::State {
  explicit State(const Settings& s) : settings(s) {}
  Settings settings;
  WatcherSet set;
  std::unordered_map<StreamId, std::unique_ptr<Stream>> streams;
  std::list<Watcher*> behind;
  std::vector<Stream*> with_output;
  size_t watchers = 0;
  int64_t published = 0;  ///< what everybody who is up to date has been told
  Instant looked_for_progress;
  size_t progress_requests = 0;  ///< streams that wait for a note

  void send(Stream& stream, int64_t watch_id, Bytes response) {
    if (!stream.has_output) {
      stream.has_output = true;
      with_output.push_back(&stream);
    }
    stream.output.push_back({watch_id, std::move(response)});
  }
  void send(Watcher& watcher, const Bytes& response, Instant now) {
    watcher.last_sent = now;
    send(*watcher.stream, watcher.id, response);
  }

  void set_synced(Watcher& watcher) {
    watcher.is_synced = true;
    watcher.place = watcher.group->synced.size();
    watcher.group->synced.push_back(&watcher);
  }
  void unset_synced(Watcher& watcher) {
    std::vector<Watcher*>& synced = watcher.group->synced;
    synced.back()->place = watcher.place;
    synced[watcher.place] = synced.back();
    synced.pop_back();
    watcher.is_synced = false;
  }
  void set_behind(Watcher& watcher, int64_t next) {
    watcher.next = next;
    watcher.behind_place = behind.insert(behind.end(), &watcher);
    ++watcher.stream->behind;
  }
  void unset_behind(Watcher& watcher) {
    behind.erase(watcher.behind_place);
    --watcher.stream->behind;
  }
  void catches_up(Watcher& watcher) {
    unset_behind(watcher);
    set_synced(watcher);
  }
  void falls_behind(Watcher& watcher, int64_t next) {
    unset_synced(watcher);
    set_behind(watcher, next);
  }
  void remove(Watcher& watcher) {
    if (watcher.is_synced) unset_synced(watcher);
    else unset_behind(watcher);
    set.leave(watcher.group);
    --watchers;
    watcher.stream->watchers.erase(watcher.id);
  }

  void create(Stream& stream, const WatchCreateRequest& request, const Keyspace& keyspace, const HeaderInfo& header, Instant now);
  void refuse(Stream& stream, const std::string& reason, int64_t compact_revision, const Keyspace& keyspace, const HeaderInfo& header);
  void cancel_compacted(Watcher& watcher, int64_t compacted, const HeaderInfo& header);
  void answer_progress(Stream& stream, const Keyspace& keyspace, const HeaderInfo& header);
};

WatchHub::WatchHub(Settings settings) : state_(std::make_unique<State>(settings)) {}
WatchHub::~WatchHub() = default;

void WatchHub::handle(StreamId id, const etcdserverpb::WatchRequest& request, const Keyspace& keyspace, const HeaderInfo& header, Instant now) {
  State& state = *state_;
  state.published = keyspace.revision();
  auto& stream = state.streams[id];
  if (!stream) {
    stream = std::make_unique<Stream>();
    stream->id = id;
  }
  if (request.has_create_request()) {
    state.create(*stream, request.create_request(), keyspace, header, now);
  } else if (request.has_cancel_request()) {
    auto it = stream->watchers.find(request.cancel_request().watch_id());
    if (it == stream->watchers.end()) return;  // unknown ids are not answered
    std::string response = response_head(header, keyspace.revision());
    mvcc::wire::append_bool(response, kCanceled, true);
    state.send(*stream, it->first, Bytes(std::move(response)));
    state.remove(*it->second);
  } else if (request.has_progress_request()) {
    state.progress_requests += stream->progress_requested ? 0 : 1;
    stream->progress_requested = true;
    state.answer_progress(*stream, keyspace, header);
  }
}

void WatchHub::State::refuse(Stream& stream, const std::string& reason, int64_t compact_revision, const Keyspace& keyspace, const HeaderInfo& header) {
  std::string response = response_head(header, keyspace.revision());
  mvcc::wire::append_bool(response, kCreated, true);
  mvcc::wire::append_bool(response, kCanceled, true);
  mvcc::wire::append_number(response, kCompactRevision, compact_revision);
  mvcc::wire::append_bytes(response, kCancelReason, reason);
  send(stream, -1, Bytes(std::move(response)));
}

void WatchHub::State::create(Stream& stream, const WatchCreateRequest& request, const Keyspace& keyspace, const HeaderInfo& header, Instant now) {
  Interest interest;
  interest.key = request.key().empty() ? std::string(1, '\0') : request.key();
  interest.range_end = request.range_end();
  for (int filter : request.filters()) {
    interest.no_put |= filter == WatchCreateRequest::NOPUT;
    interest.no_delete |= filter == WatchCreateRequest::NODELETE;
  }
  interest.prev_kv = request.prev_kv();
  interest.fragment = request.fragment();
  if (!interest.range_end.empty() && !interest.to_the_end() && interest.range_end <= interest.key)
    return refuse(stream, "mvcc: watcher range is empty", 0, keyspace, header);
  if (request.start_revision() < 0)
    return refuse(stream, "etcdserver: mvcc: required revision has been compacted", std::max<int64_t>(1, keyspace.compacted()), keyspace, header);
  if (request.watch_id() != 0 && stream.watchers.contains(request.watch_id()))
    return refuse(stream, "mvcc: duplicate watch ID provided on the WatchStream", 0, keyspace, header);
  if (stream.watchers.size() >= settings.watchers_per_stream_max)
    return refuse(stream, "rallypoint: too many watchers on one stream; open another stream", 0, keyspace, header);
  int64_t watch_id = request.watch_id();
  if (watch_id == 0) {
    while (stream.watchers.contains(stream.next_id)) ++stream.next_id;
    watch_id = stream.next_id++;
  }
  auto owned = std::make_unique<Watcher>();
  Watcher& watcher = *owned;
  watcher.stream = &stream;
  watcher.id = watch_id;
  watcher.progress_notify = request.progress_notify();
  watcher.group = set.join(interest);
  stream.watchers.emplace(watch_id, std::move(owned));
  ++watchers;
  std::string response = response_head(header, keyspace.revision());
  mvcc::wire::append_bool(response, kCreated, true);
  send(watcher, Bytes(std::move(response)), now);
  const int64_t next = request.start_revision() == 0 ? keyspace.revision() + 1 : request.start_revision();
  if (next == keyspace.revision() + 1 && stream.open) set_synced(watcher);
  else set_behind(watcher, next);
}

void WatchHub::close(StreamId id) {
  State& state = *state_;
  auto it = state.streams.find(id);
  if (it == state.streams.end()) return;
  Stream& stream = *it->second;
  while (!stream.watchers.empty()) state.remove(*stream.watchers.begin()->second);
  std::erase(state.with_output, &stream);
  state.progress_requests -= stream.progress_requested ? 1 : 0;
  state.streams.erase(it);
}

void WatchHub::set_flow(StreamId id, bool open) {
  auto it = state_->streams.find(id);
  if (it != state_->streams.end()) it->second->open = open;
}

void WatchHub::publish(const std::vector<Event>& events, const Keyspace& keyspace, const HeaderInfo& header, Instant now) {
  State& state = *state_;
  if (events.empty()) return;
  const int64_t first = events.front().revision.main;
  const int64_t last = events.back().revision.main;
  state.published = last;
  if (state.watchers == 0) return;
  std::vector<Group*> touched, found;
  for (size_t i = 0; i < events.size(); ++i) {
    found.clear();
    state.set.match(events[i].key.view(), found);
    for (Group* group : found) {
      if (events[i].is_delete ? group->interest->no_delete : group->interest->no_put) continue;
      if (group->synced.empty()) continue;
      if (group->matched.empty()) touched.push_back(group);
      group->matched.push_back(static_cast<uint32_t>(i));
    }
  }
  Encoded encoded(events, keyspace);
  std::vector<const std::string*> fields;
  for (Group* group : touched) {
    fields.clear();
    for (uint32_t i : group->matched) fields.push_back(&encoded.get(i, group->interest->prev_kv));
    const int64_t revision = events[group->matched.back()].revision.main;
    const auto responses = responses_of(response_head(header, revision), fields, group->interest->fragment ? state.settings.fragment_bytes : 0);
    group->matched.clear();
    for (size_t i = 0; i < group->synced.size();) {
      Watcher& watcher = *group->synced[i];
      if (!watcher.stream->open) {
        state.falls_behind(watcher, first);  // another one takes its place
        continue;
      }
      for (const Bytes& response : responses) state.send(watcher, response, now);
      ++i;
    }
  }
}

void WatchHub::compacting(int64_t, const Keyspace& keyspace, const HeaderInfo& header, Instant now) {
  State& state = *state_;
  const Bytes note(response_head(header, keyspace.revision()));
  for (auto& [id, stream] : state.streams) {
    if (!stream->open) continue;
    for (auto& [watch_id, watcher] : stream->watchers)
      if (watcher->is_synced && watcher->progress_notify) state.send(*watcher, note, now);
  }
}

void WatchHub::state_replaced(const Keyspace&, const HeaderInfo&, Instant) {
  State& state = *state_;
  for (auto& [id, stream] : state.streams)
    for (auto& [watch_id, watcher] : stream->watchers)
      if (watcher->is_synced) state.falls_behind(*watcher, state.published + 1);
}

void WatchHub::State::cancel_compacted(Watcher& watcher, int64_t compacted, const HeaderInfo& header) {
  std::string response = response_head(header, 0);
  mvcc::wire::append_bool(response, kCanceled, true);
  mvcc::wire::append_number(response, kCompactRevision, compacted);
  send(*watcher.stream, watcher.id, Bytes(std::move(response)));
  remove(watcher);
}

Result<bool> WatchHub::catch_up(const Keyspace& keyspace, const HeaderInfo& header, Instant now) {
  State& state = *state_;
  if (state.behind.empty() && state.progress_requests == 0) return false;
  const int64_t current = keyspace.revision();
  // The first one in turn decides where the slice begins; everybody who stands inside it is served from it.
  std::vector<Watcher*> ready;
  for (auto it = state.behind.begin(); it != state.behind.end();) {
    Watcher& watcher = **it++;
    if (!watcher.stream->open || watcher.next > current + 1) continue;
    if (watcher.next < keyspace.compacted()) {
      state.cancel_compacted(watcher, keyspace.compacted(), header);
      continue;
    }
    if (watcher.next == current + 1) state.catches_up(watcher);
    else ready.push_back(&watcher);
  }
  if (!ready.empty()) {
    const int64_t from = ready.front()->next;
    std::vector<Event> events;
    auto stopped = keyspace.history(from, current, state.settings.catch_up_bytes, [&](Event&& event) { events.push_back(std::move(event)); });
    if (!stopped.is_ok()) return stopped.status();
    const int64_t upto = *stopped - 1;
    const std::string head = response_head(header, upto == current ? current : upto);
    Encoded encoded(events, keyspace);
    std::vector<const std::string*> fields;
    for (Watcher* watcher : ready) {
      if (watcher->next < from || watcher->next > upto) continue;
      fields.clear();
      const Interest& interest = *watcher->group->interest;
      const auto begin = std::lower_bound(events.begin(), events.end(), watcher->next, [](const Event& event, int64_t next) { return event.revision.main < next; });
      for (auto it = begin; it != events.end(); ++it)
        if (interest.wants(*it)) fields.push_back(&encoded.get(static_cast<size_t>(it - events.begin()), interest.prev_kv));
      if (!fields.empty())
        for (const Bytes& response : responses_of(head, fields, interest.fragment ? state.settings.fragment_bytes : 0)) state.send(*watcher, response, now);
      if (upto == current) {
        state.catches_up(*watcher);
      } else {
        state.unset_behind(*watcher);
        state.set_behind(*watcher, upto + 1);  // at the end of the queue
      }
    }
  }
  bool more = false;
  if (state.progress_requests > 0)
    for (auto& [id, stream] : state.streams)
      if (stream->progress_requested) state.answer_progress(*stream, keyspace, header);
  for (const Watcher* watcher : state.behind) more |= watcher->stream->open && watcher->next <= current;
  return more;
}

void WatchHub::State::answer_progress(Stream& stream, const Keyspace& keyspace, const HeaderInfo& header) {
  if (!stream.open || stream.behind > 0) return;
  stream.progress_requested = false;
  --progress_requests;
  send(stream, -1, Bytes(response_head(header, keyspace.revision())));
}

void WatchHub::tick(Instant now, const Keyspace& keyspace, const HeaderInfo& header) {
  State& state = *state_;
  if (now < state.looked_for_progress + Duration::micros(state.settings.progress_every.us / 10)) return;
  state.looked_for_progress = now;
  const Bytes note(response_head(header, keyspace.revision()));
  for (auto& [id, stream] : state.streams) {
    if (!stream->open) continue;
    for (auto& [watch_id, watcher] : stream->watchers)
      if (watcher->is_synced && watcher->progress_notify && watcher->last_sent + state.settings.progress_every <= now) state.send(*watcher, note, now);
  }
}

std::vector<StreamOutput> WatchHub::take_output() {
  std::vector<StreamOutput> output;
  output.reserve(state_->with_output.size());
  for (Stream* stream : state_->with_output) {
    stream->has_output = false;
    output.push_back({stream->id, std::exchange(stream->output, {})});
  }
  state_->with_output.clear();
  return output;
}

size_t WatchHub::watchers() const { return state_->watchers; }
size_t WatchHub::slow_watchers() const { return state_->behind.size(); }
size_t WatchHub::streams() const { return state_->streams.size(); }

}  // namespace rallypoint::watch
