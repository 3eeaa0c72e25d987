// The nine guarantees of watches as a model: random writes, compactions, watchers, cancels, flow control, lost streams that
// resume, snapshots that replace the state. The twin keeps every event there ever was in a list and scans it; what a watcher
// is told must be exactly what the scan finds between its bookmark and the response's revision. So all of ordered, unique,
// atomic, reliable, resumable, bookmarkable, filter, prev_kv and is-create are one comparison. A failure prints the seed.
#include <map>
#include <optional>

#include "raft/base/random.h"
#include "tests/watch/support.h"

namespace rallypoint::watch {
namespace {

using namespace testing;
using etcdserverpb::WatchCreateRequest;
using etcdserverpb::WatchResponse;
using mvccpb::KeyValue;

struct TwinEvent {
  bool is_delete = false;
  KeyValue kv;
  std::optional<KeyValue> before;
};

bool equal(const KeyValue& a, const KeyValue& b) { return a.SerializeAsString() == b.SerializeAsString(); }

/// What a client knows of one watcher.
struct Client {
  Store::Watch wants;
  int64_t start = 0;      ///< nothing may come below it; 0 = from now on
  int64_t next = 0;       ///< the bookmark: everything before was told
  std::vector<mvccpb::Event> fragments;

  [[nodiscard]] bool wants_event(const TwinEvent& event) const {
    const std::string& key = event.kv.key();
    const bool covers = wants.range_end.empty() ? key == wants.key : key >= wants.key && (wants.range_end == std::string(1, '\0') || key < wants.range_end);
    const int filter = event.is_delete ? WatchCreateRequest::NODELETE : WatchCreateRequest::NOPUT;
    return covers && std::find(wants.filters.begin(), wants.filters.end(), filter) == wants.filters.end();
  }
};

struct ClientStream {
  bool open = true;
  int64_t next_id = 0;
  std::map<int64_t, Client> watchers;
};

class WatchModel {
 public:
  explicit WatchModel(uint64_t seed)
      : random_(seed), store_({.fragment_bytes = 60 + random_.below(400),
                               .progress_every = Duration::seconds(100),
                               .catch_up_bytes = 50 + random_.below(1000),
                               .stream_bytes_max = 500 + random_.below(5000),
                               .watchers_per_stream_max = 12}) {
    store_.held = true;
  }

  void run() {
    for (int step = 0; step < 1500 && !failed(); ++step) {
      this->step();
      read(false);
      for (uint64_t slices = random_.below(4); slices > 0 && !failed(); --slices) read(true);
    }
    finish();
  }

 private:
  static bool failed() { return ::testing::Test::HasFatalFailure() || ::testing::Test::HasNonfatalFailure(); }
  std::string some_key() { return std::string(1, static_cast<char>('a' + random_.below(6))); }
  StreamId some_stream() { return 1 + random_.below(4); }
  [[nodiscard]] int64_t revision() const { return store_.keyspace->revision(); }

  void step() {
    switch (random_.below(20)) {
      case 0:
      case 1: return create(some_stream());
      case 2: return cancel();
      case 3:
        store_.ask_progress(1 + random_.below(4));
        return;
      case 4:
      case 5: return flow();
      case 6:
        if (random_.chance(1, 4)) lose(some_stream());
        return;
      case 7:
        if (random_.chance(1, 3)) compact();
        return;
      case 8:
        if (random_.chance(1, 6)) replace();
        return;
      case 9:
        store_.pass(static_cast<int64_t>(random_.below(60)));
        store_.tick();
        return;
      case 10:
        ASSERT_TRUE(store_.keyspace->compact_slice(1 + random_.below(10)).is_ok());
        store_.write();
        return;
      default:
        for (uint64_t n = random_.chance(1, 3) ? 1 + random_.below(6) : 1; n > 0; --n) write();
        store_.publish();
    }
  }

  // ---- writes, and the twin's ----
  void write() {
    std::vector<std::string> operations;
    std::set<std::string> used;
    for (uint64_t n = random_.chance(1, 3) ? 1 + random_.below(4) : 1; n > 0; --n) {
      const std::string key = some_key();
      if (!used.insert(key).second) continue;
      operations.push_back(random_.chance(1, 3) ? key + "-" : key + "=" + std::string(random_.below(random_.chance(1, 10) ? 200 : 20), 'v') + std::to_string(writes_++));
    }
    const int64_t before = revision();
    store_.txn(operations);
    for (const std::string& operation : operations) {
      const std::string key = operation.substr(0, 1);
      auto it = pairs_.find(key);
      TwinEvent event;
      if (it != pairs_.end()) event.before = it->second;
      event.kv.set_key(key);
      event.kv.set_mod_revision(before + 1);
      if (operation.back() == '-' && operation.size() == 2) {
        if (it == pairs_.end()) continue;
        event.is_delete = true;
        pairs_.erase(it);
      } else {
        event.kv.set_value(operation.substr(2));
        event.kv.set_create_revision(event.before ? event.before->create_revision() : before + 1);
        event.kv.set_version(event.before ? event.before->version() + 1 : 1);
        pairs_[key] = event.kv;
      }
      events_.push_back(event);
    }
  }
  void compact() {
    const int64_t compacted = std::max<int64_t>(1, store_.keyspace->compacted());
    if (compacted >= revision()) return;
    store_.mark_compacted(compacted + 1 + static_cast<int64_t>(random_.below(static_cast<uint64_t>(revision() - compacted))));
  }
  void replace() {
    for (uint64_t n = random_.below(6); n > 0; --n) write();
    store_.keyspace->take_events();
    store_.write();
    if (const int64_t compacted = store_.keyspace->compacted(); random_.chance(1, 3) && compacted < revision()) {
      etcdserverpb::CompactionRequest request;
      request.set_revision(std::max<int64_t>(1, compacted + 1));
      ASSERT_TRUE(store_.keyspace->compact(request, nullptr).is_ok());
      store_.write();
    }
    store_.hub.state_replaced(*store_.keyspace, store_.header, store_.now);
  }

  // ---- what clients do ----
  Store::Watch some_watch() {
    Store::Watch watch;
    watch.key = random_.chance(1, 10) ? "" : some_key();
    switch (random_.below(4)) {
      case 0: watch.range_end = std::string(1, '\0'); break;
      case 1: watch.range_end = some_key(); break;
      default: break;
    }
    switch (random_.below(8)) {
      case 0: watch.start = -1 - static_cast<int64_t>(random_.below(3)); break;
      case 1: watch.start = revision() + static_cast<int64_t>(random_.below(12)); break;
      case 2:
      case 3: watch.start = 1 + static_cast<int64_t>(random_.below(static_cast<uint64_t>(revision()))); break;
      default: break;
    }
    watch.id = random_.chance(1, 4) ? static_cast<int64_t>(random_.below(15)) - 2 : 0;
    if (watch.id == -1) watch.id = 0;  // would look like the stream's own
    watch.prev_kv = random_.chance(1, 2);
    watch.progress = random_.chance(1, 2);
    watch.fragment = random_.chance(1, 3);
    for (int filter : {0, 1})
      if (random_.chance(1, 6)) watch.filters.push_back(filter);
    return watch;
  }
  void create(StreamId id, std::optional<Store::Watch> resumed = std::nullopt) {
    ClientStream& stream = streams_[id];
    const Store::Watch watch = resumed ? *resumed : some_watch();
    store_.watch(id, watch);
    const auto responses = store_.output();
    ASSERT_EQ(responses.size(), 1u);
    const WatchResponse& response = responses[0].second;
    ASSERT_TRUE(response.created());
    ASSERT_EQ(response.events_size(), 0);
    ASSERT_EQ(response.header().revision(), revision());
    const std::string key = watch.key.empty() ? std::string(1, '\0') : watch.key;
    const bool is_empty = !watch.range_end.empty() && watch.range_end != std::string(1, '\0') && watch.range_end <= key;
    const bool is_refused = is_empty || watch.start < 0 || (watch.id != 0 && stream.watchers.contains(watch.id)) || stream.watchers.size() >= 12;
    ASSERT_EQ(response.canceled(), is_refused);
    if (is_refused) {
      ASSERT_EQ(response.watch_id(), -1);
      ASSERT_FALSE(response.cancel_reason().empty());
      return;
    }
    int64_t expected = watch.id;
    if (expected == 0) {
      while (stream.watchers.contains(stream.next_id)) ++stream.next_id;
      expected = stream.next_id++;
    }
    ASSERT_EQ(response.watch_id(), expected);
    Client& client = stream.watchers[expected];
    client.wants = watch;
    client.wants.key = key;
    client.start = watch.start;
    client.next = watch.start > 0 ? watch.start : revision() + 1;
  }
  void cancel() {
    const StreamId id = some_stream();
    ClientStream& stream = streams_[id];
    const auto watch_id = static_cast<int64_t>(random_.below(12));
    store_.cancel(id, watch_id);
    const auto responses = store_.output();
    ASSERT_EQ(responses.size(), stream.watchers.contains(watch_id) ? 1u : 0u);
    if (responses.empty()) return;
    ASSERT_EQ(show(id, responses[0].second), show(id, canceled(watch_id)));
    stream.watchers.erase(watch_id);
  }
  [[nodiscard]] WatchResponse canceled(int64_t id) const {
    WatchResponse response;
    response.mutable_header()->set_revision(revision());
    response.set_watch_id(id);
    response.set_canceled(true);
    return response;
  }
  void flow() {
    const StreamId id = some_stream();
    streams_[id].open = !streams_[id].open;
    store_.hub.set_flow(id, streams_[id].open);
    // The hub knows a stream from its first message on.
    if (store_.hub.streams() < 4) {
      for (StreamId each = 1; each <= 4; ++each) store_.hub.handle(each, {}, *store_.keyspace, store_.header, store_.now);
      store_.hub.set_flow(id, streams_[id].open);
    }
  }
  /// The connection breaks; the client comes back with its bookmarks.
  void lose(StreamId id) {
    store_.hub.close(id);
    const ClientStream lost = std::exchange(streams_[id], {});
    for (const auto& [watch_id, client] : lost.watchers) {
      Store::Watch watch = client.wants;
      watch.start = client.next;
      watch.id = random_.chance(1, 2) ? watch_id : 0;
      create(id, watch);
      if (failed()) return;
    }
  }

  // ---- what clients are told ----
  void read(bool catch_up) {
    auto responses = catch_up ? store_.turn() : store_.output();
    for (const auto& [id, response] : responses) {
      SCOPED_TRACE(show(id, response));
      told(id, response);
      if (failed()) return;
    }
  }
  void told(StreamId id, const WatchResponse& response) {
    ClientStream& stream = streams_[id];
    const int64_t at = response.header().revision();
    ASSERT_TRUE(stream.open) << "a stream that takes nothing was told something";
    ASSERT_FALSE(response.created()) << "twice";
    if (response.watch_id() == -1) {
      ASSERT_EQ(at, revision());
      for (auto& [watch_id, client] : stream.watchers) {
        ASSERT_GE(at, client.start) << watch_id;
        advance(client, at, {});
      }
      return;
    }
    ASSERT_TRUE(stream.watchers.contains(response.watch_id()));
    Client& client = stream.watchers[response.watch_id()];
    if (response.canceled()) {
      ASSERT_EQ(at, 0);
      ASSERT_EQ(response.compact_revision(), store_.keyspace->compacted());
      ASSERT_LT(client.next, response.compact_revision()) << "nothing was lost for it";
      stream.watchers.erase(response.watch_id());
      return;
    }
    ASSERT_GE(at, client.start);
    ASSERT_LE(at, revision());
    ASSERT_TRUE(response.events_size() > 0 || client.wants.progress);
    std::vector<mvccpb::Event> events = std::exchange(client.fragments, {});
    ASSERT_TRUE(events.empty() || response.events_size() > 0);
    events.insert(events.end(), response.events().begin(), response.events().end());
    if (response.fragment()) {
      ASSERT_TRUE(client.wants.fragment);
      client.fragments = std::move(events);
      return;
    }
    advance(client, at, events);
  }
  /// The client was told `events`, and so everything up to `at`.
  void advance(Client& client, int64_t at, const std::vector<mvccpb::Event>& events) {
    size_t told = 0;
    for (const TwinEvent& expected : events_) {
      const int64_t revision = expected.kv.mod_revision();
      if (revision < client.next || revision > at || !client.wants_event(expected)) continue;
      ASSERT_LT(told, events.size()) << "missing: " << expected.kv.ShortDebugString();
      const mvccpb::Event& event = events[told++];
      ASSERT_TRUE(equal(event.kv(), expected.kv)) << event.kv().ShortDebugString() << " instead of " << expected.kv.ShortDebugString();
      ASSERT_EQ(event.type() == mvccpb::Event::DELETE, expected.is_delete);
      if (event.has_prev_kv()) {
        ASSERT_TRUE(client.wants.prev_kv && expected.before);
        ASSERT_TRUE(equal(event.prev_kv(), *expected.before)) << event.prev_kv().ShortDebugString();
      } else if (client.wants.prev_kv && expected.before) {
        ASSERT_LE(revision, store_.keyspace->compacted()) << "the pair before is still there";
      }
    }
    ASSERT_EQ(told, events.size()) << "more than there was";
    client.next = std::max(client.next, at + 1);
  }

  /// Everything flows: nobody may be owed anything then.
  void finish() {
    if (failed()) return;
    for (auto& [id, stream] : streams_) {
      stream.open = true;
      store_.hub.set_flow(id, true);
      store_.ask_progress(id);
    }
    int turns = 0;
    for (bool more = true; more && !failed(); ++turns) {
      ASSERT_LT(turns, 10'000);
      for (const auto& [id, response] : store_.turn(&more)) {
        SCOPED_TRACE(show(id, response));
        told(id, response);
        if (failed()) return;
      }
    }
    read(true);
    size_t watchers = 0;
    for (auto& [id, stream] : streams_) {
      bool is_future = false;
      watchers += stream.watchers.size();
      for (auto& [watch_id, client] : stream.watchers) {
        SCOPED_TRACE("stream " + std::to_string(id) + " watcher " + std::to_string(watch_id));
        is_future |= client.start > revision();
        advance(client, revision(), {});
      }
      store_.ask_progress(id);
      ASSERT_EQ(store_.output().size(), is_future ? 0u : 1u);
    }
    ASSERT_EQ(store_.hub.watchers(), watchers);
    ASSERT_EQ(store_.hub.slow_watchers(), 0u);
  }

  Random random_;
  Store store_;
  std::map<StreamId, ClientStream> streams_;
  std::map<std::string, KeyValue> pairs_;
  std::vector<TwinEvent> events_;
  int writes_ = 0;
};

TEST(WatchModel, AllNineGuaranteesHold) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    WatchModel(seed).run();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace rallypoint::watch
