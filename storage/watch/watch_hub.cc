#include "storage/watch/watch_hub.h"

#include <algorithm>

#include "storage/watch/hub_state.h"

namespace rallypoint::watch {

using etcdserverpb::WatchCreateRequest;
using mvcc::Event;
using mvcc::HeaderInfo;
using mvcc::Keyspace;

void WatchHub::State::leave_place(Watcher& watcher) {
  switch (std::exchange(watcher.where, Watcher::Where::kNowhere)) {
    case Watcher::Where::kNowhere: return;
    case Watcher::Where::kSynced: watcher.group->synced.take_out(watcher.place)->place = watcher.place; return;
    case Watcher::Where::kBehind: behind.erase(watcher); break;
    case Watcher::Where::kStalled:
      watcher.stream->stalled.erase(watcher);
      --stalled;
      break;
    case Watcher::Where::kFuture: {
      auto it = future.find(watcher.next);
      it->second.erase(watcher);
      if (it->second.empty()) future.erase(it);
      break;
    }
  }
  --watcher.stream->not_synced;
}

void WatchHub::State::set_synced(Watcher& watcher) {
  leave_place(watcher);
  watcher.where = Watcher::Where::kSynced;
  watcher.place = watcher.group->synced.size();
  watcher.group->synced.push_back(&watcher);
}

void WatchHub::State::set_next(Watcher& watcher, int64_t next) {
  leave_place(watcher);
  watcher.next = next;
  ++watcher.stream->not_synced;
  if (next > published) {
    watcher.where = Watcher::Where::kFuture;
    future[next].push_back(watcher);
  } else if (!watcher.stream->open) {
    watcher.where = Watcher::Where::kStalled;
    watcher.stream->stalled.push_back(watcher);
    ++stalled;
  } else {
    watcher.where = Watcher::Where::kBehind;
    behind.push_back(watcher);
  }
}

void WatchHub::State::remove(Watcher& watcher) {
  leave_place(watcher);
  set.leave(*watcher.group);
  --watchers;
  if (watcher.progress_notify) --watcher.stream->progress_notify;
  watcher.stream->watchers.erase(watcher);
  delete &watcher;
}

void WatchHub::State::wake_future(int64_t first, int64_t last) {
  while (!future.empty() && future.begin()->first <= last) {
    Watcher& watcher = *future.begin()->second.first();
    if (watcher.next <= first) set_synced(watcher);
    else set_next(watcher, watcher.next);
  }
}

WatchHub::WatchHub(Settings settings) : state_(std::make_unique<State>(settings)) {}
WatchHub::~WatchHub() {
  while (!state_->streams.empty()) close(state_->streams.begin()->first);
}

void WatchHub::handle(StreamId id, const etcdserverpb::WatchRequest& request, const Keyspace& keyspace, const HeaderInfo& header, Instant now) {
  State& state = *state_;
  if (state.published == 0) state.published = keyspace.revision();
  auto& stream = state.streams[id];
  if (!stream) {
    stream = std::make_unique<Stream>();
    stream->id = id;
  }
  if (request.has_create_request()) {
    state.create(*stream, request.create_request(), keyspace, header, now);
  } else if (request.has_cancel_request()) {
    Watcher* watcher = stream->find(request.cancel_request().watch_id());
    if (watcher == nullptr) return;  // unknown ids are not answered
    std::string response = response_head(header, keyspace.revision());
    mvcc::wire::append_bool(response, kCanceled, true);
    state.send(*stream, watcher->id, Bytes(std::move(response)));
    state.remove(*watcher);
  } else if (request.has_progress_request()) {
    // Answered when all of its watchers are synced; several questions meanwhile have one answer. (etcd drops the question.)
    if (!stream->progress_requested) state.progress_requests.push_back(stream.get());
    stream->progress_requested = true;
    state.answer_progress(keyspace, header);
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
  for (int filter : request.filters()) {  // unknown ones are ignored
    interest.no_put |= filter == WatchCreateRequest::NOPUT;
    interest.no_delete |= filter == WatchCreateRequest::NODELETE;
  }
  interest.prev_kv = request.prev_kv();
  interest.fragment = request.fragment();
  if (!interest.range_end.empty() && !interest.to_the_end() && interest.range_end <= interest.key)
    return refuse(stream, "mvcc: watcher range is empty", 0, keyspace, header);
  if (request.start_revision() < 0)
    return refuse(stream, "etcdserver: mvcc: required revision has been compacted", std::max<int64_t>(1, keyspace.compacted()), keyspace, header);
  int64_t watch_id = request.watch_id();
  if (watch_id != 0 && stream.find(watch_id) != nullptr)
    return refuse(stream, "mvcc: duplicate watch ID provided on the WatchStream", 0, keyspace, header);
  if (stream.watchers.size() >= settings.watchers_per_stream_max)
    return refuse(stream, "rallypoint: too many watchers on one stream; open another stream", 0, keyspace, header);
  if (watch_id == 0) {
    while (stream.find(stream.next_id) != nullptr) ++stream.next_id;
    watch_id = stream.next_id++;
  }
  auto& watcher = *new Watcher{.id = watch_id, .stream = &stream, .group = &set.join(interest), .progress_notify = request.progress_notify()};
  stream.watchers.insert(watcher);
  if (watcher.progress_notify) ++stream.progress_notify;
  ++watchers;
  std::string response = response_head(header, keyspace.revision());
  mvcc::wire::append_bool(response, kCreated, true);
  send(watcher, Bytes(std::move(response)), now);
  // "From now on" is also right on a stream that takes nothing at the moment: it falls behind with the first event.
  if (request.start_revision() == 0 && keyspace.revision() == published) set_synced(watcher);
  else set_next(watcher, request.start_revision() == 0 ? keyspace.revision() + 1 : request.start_revision());
}

void WatchHub::close(StreamId id) {
  State& state = *state_;
  auto it = state.streams.find(id);
  if (it == state.streams.end()) return;
  Stream& stream = *it->second;
  stream.watchers.for_each([&](Watcher& watcher) { state.remove(watcher); });
  if (stream.has_output) std::erase(state.with_output, &stream);
  if (stream.progress_requested) std::erase(state.progress_requests, &stream);
  state.streams.erase(it);
}

void WatchHub::set_flow(StreamId id, bool open) {
  auto it = state_->streams.find(id);
  if (it == state_->streams.end() || it->second->open == open) return;
  Stream& stream = *it->second;
  stream.open = open;
  // Closed: its watchers go to the side when there is something for them.
  while (open && !stream.stalled.empty()) state_->set_next(*stream.stalled.first(), stream.stalled.first()->next);
}

void WatchHub::publish(const std::vector<Event>& events, const Keyspace& keyspace, const HeaderInfo& header, Instant now) {
  State& state = *state_;
  if (events.empty()) return;
  const int64_t first = events.front().revision.main;
  const int64_t last = events.back().revision.main;
  RALLY_CHECK(state.published == 0 || first == state.published + 1, "first", first, "published", state.published);
  if (state.watchers == 0) {
    state.published = last;
    return;
  }
  state.published = last;
  state.wake_future(first, last);
  std::vector<Group*> touched, found;
  std::vector<std::vector<uint32_t>> places;  // by the group's slot
  for (size_t i = 0; i < events.size(); ++i) {
    found.clear();
    state.set.match(events[i].key.view(), found);
    for (Group* group : found) {
      if (group->synced.empty() || !group->wants(events[i])) continue;
      if (group->slot == UINT32_MAX) {
        group->slot = static_cast<uint32_t>(touched.size());
        touched.push_back(group);
        places.emplace_back();
      }
      places[group->slot].push_back(static_cast<uint32_t>(i));
    }
  }
  Encoder encoder(events, keyspace);
  std::vector<EncodedEvent> encoded;
  for (Group* group : touched) {
    encoded.clear();
    bool is_readable = true;
    for (uint32_t i : places[group->slot]) {
      auto field = encoder.get(i, group->prev_kv);
      if (!(is_readable = field.is_ok())) break;  // catching up meets the same error and returns it
      encoded.push_back({events[i].revision.main, *field});
    }
    group->slot = UINT32_MAX;
    std::vector<Bytes> responses;
    if (is_readable) responses = responses_of(header, encoded, encoded.back().revision, group->fragment, state.settings.fragment_bytes);
    for (size_t i = 0; i < group->synced.size();) {
      Watcher& watcher = *group->synced[i];
      if (!is_readable || !state.takes(*watcher.stream)) {
        state.set_next(watcher, first);  // another one takes its place
        continue;
      }
      for (const Bytes& response : responses) state.send(watcher, response, now);
      ++i;
    }
  }
}

void WatchHub::compacting(int64_t, const Keyspace& keyspace, const HeaderInfo& header, Instant now) {
  state_->note_progress(now, keyspace, header, now);
}

void WatchHub::state_replaced(const Keyspace& keyspace, const HeaderInfo&, Instant) {
  State& state = *state_;
  const int64_t told = state.published;
  if (told == 0 || told == keyspace.revision()) return;  // nobody has been here; or nothing was missed
  state.published = keyspace.revision();
  for (auto& [id, stream] : state.streams) {
    stream->watchers.for_each([&](Watcher& watcher) {
      if (watcher.where == Watcher::Where::kSynced) state.set_next(watcher, told + 1);
    });
  }
  state.wake_future(INT64_MIN, state.published);
}

void WatchHub::State::answer_progress(const Keyspace& keyspace, const HeaderInfo& header) {
  std::erase_if(progress_requests, [&](Stream* stream) {
    if (!takes(*stream) || stream->not_synced > 0 || published != keyspace.revision()) return false;
    stream->progress_requested = false;
    send(*stream, -1, Bytes(response_head(header, published)));
    return true;
  });
}

void WatchHub::State::note_progress(Instant since, const Keyspace& keyspace, const HeaderInfo& header, Instant now) {
  if (published != keyspace.revision()) return;
  const Bytes note(response_head(header, published));
  for (auto& [id, stream] : streams) {
    if (stream->progress_notify == 0 || !takes(*stream)) continue;
    stream->watchers.for_each([&](Watcher& watcher) {
      if (watcher.where == Watcher::Where::kSynced && watcher.progress_notify && watcher.last_sent <= since) send(watcher, note, now);
    });
  }
}

void WatchHub::tick(Instant now, const Keyspace& keyspace, const HeaderInfo& header) {
  State& state = *state_;
  if (now < state.looked_for_progress + Duration::micros(state.settings.progress_every.us / 10)) return;
  state.looked_for_progress = now;
  state.note_progress(now - state.settings.progress_every, keyspace, header, now);
}

std::vector<StreamOutput> WatchHub::take_output() {
  std::vector<StreamOutput> output;
  output.reserve(state_->with_output.size());
  for (Stream* stream : state_->with_output) {
    stream->has_output = false;
    stream->output_bytes = 0;
    output.push_back({stream->id, std::exchange(stream->output, {})});
  }
  state_->with_output.clear();
  return output;
}

size_t WatchHub::watchers() const { return state_->watchers; }
size_t WatchHub::slow_watchers() const { return state_->behind.size() + state_->stalled; }
size_t WatchHub::streams() const { return state_->streams.size(); }

}  // namespace rallypoint::watch
