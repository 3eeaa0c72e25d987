// What the parts of the watch hub share (watch_hub.cc, catch_up.cc). Private to storage/watch.
//
// A watcher is in exactly one place:
//   synced   in its group: it has been told everything up to State::published
//   behind   in State::behind: `next` is the first revision that it has not been told; history will tell it
//   stalled  in its stream's list: behind, and the stream takes nothing at the moment
//   future   in State::future: `next` is beyond what there is; it hears nothing until then, not even progress
#pragma once

#include <map>
#include <memory>
#include <unordered_map>

#include "raft/base/check.h"
#include "storage/watch/hash_chains.h"
#include "storage/watch/response.h"
#include "storage/watch/watch_hub.h"
#include "storage/watch/watcher_set.h"

namespace rallypoint::watch {

struct Stream;

struct Watcher {
  enum class Where : uint8_t { kNowhere, kSynced, kBehind, kStalled, kFuture };

  int64_t id = 0;
  Stream* stream = nullptr;
  Group* group = nullptr;
  Instant last_sent;
  Watcher* next_of_hash = nullptr;
  // Of those that are not synced: links and the first revision to be told. Of the others: the place in the group.
  Watcher* before = nullptr;
  Watcher* behind = nullptr;
  union {
    int64_t next = 0;
    size_t place;
  };
  Where where = Where::kNowhere;
  bool progress_notify = false;

  [[nodiscard]] static size_t hash_of(int64_t id) { return static_cast<size_t>(static_cast<uint64_t>(id) * 0x9E3779B97F4A7C15u >> 32); }
  [[nodiscard]] size_t hash() const { return hash_of(id); }
};

/// A doubly linked list through the watchers themselves.
class WatcherQueue {
 public:
  [[nodiscard]] bool empty() const { return first_ == nullptr; }
  [[nodiscard]] Watcher* first() const { return first_; }
  [[nodiscard]] size_t size() const { return size_; }
  void push_back(Watcher& watcher) {
    watcher.before = last_;
    watcher.behind = nullptr;
    (last_ != nullptr ? last_->behind : first_) = &watcher;
    last_ = &watcher;
    ++size_;
  }
  void erase(Watcher& watcher) {
    (watcher.before != nullptr ? watcher.before->behind : first_) = watcher.behind;
    (watcher.behind != nullptr ? watcher.behind->before : last_) = watcher.before;
    --size_;
  }

 private:
  Watcher* first_ = nullptr;
  Watcher* last_ = nullptr;
  size_t size_ = 0;
};

struct Stream {
  StreamId id = 0;
  bool open = true;
  bool progress_requested = false;
  bool has_output = false;
  uint32_t progress_notify = 0;  ///< watchers that want notes
  size_t not_synced = 0;
  size_t output_bytes = 0;
  int64_t next_id = 0;           ///< for the next watcher without an id of its own
  HashChains<Watcher, &Watcher::next_of_hash> watchers;
  WatcherQueue stalled;
  std::vector<Part> output;

  [[nodiscard]] Watcher* find(int64_t watch_id) const {
    return watchers.find(Watcher::hash_of(watch_id), [&](const Watcher& watcher) { return watcher.id == watch_id; });
  }
};

struct WatchHub::State {
  explicit State(const Settings& s) : settings(s) {}
  Settings settings;
  WatcherSet set;
  std::unordered_map<StreamId, std::unique_ptr<Stream>> streams;
  WatcherQueue behind;                       ///< in turn
  std::map<int64_t, WatcherQueue> future;    ///< by their first revision
  std::vector<Stream*> with_output;
  std::vector<Stream*> progress_requests;    ///< those that wait for a note
  size_t watchers = 0;
  size_t stalled = 0;
  int64_t published = 0;                     ///< what everybody who is synced has been told; 0 = no watcher has been here yet
  Instant looked_for_progress;

  // What a stream is told, in order.
  void send(Stream& stream, int64_t watch_id, Bytes response) {
    if (!stream.has_output) {
      stream.has_output = true;
      with_output.push_back(&stream);
    }
    stream.output_bytes += response.size();
    stream.output.push_back({watch_id, std::move(response)});
  }
  void send(Watcher& watcher, const Bytes& response, Instant now) {
    watcher.last_sent = now;
    send(*watcher.stream, watcher.id, response);
  }
  /// Whether it can be given more events now.
  [[nodiscard]] bool takes(const Stream& stream) const { return stream.open && stream.output_bytes < settings.stream_bytes_max; }

  // Where a watcher is.
  void leave_place(Watcher& watcher);
  void set_synced(Watcher& watcher);
  /// Behind, stalled or future.
  void set_next(Watcher& watcher, int64_t next);
  void remove(Watcher& watcher);
  /// Those who wait for revisions up to `last`: the ones that begin with `first` are synced, later ones have to look back.
  void wake_future(int64_t first, int64_t last);

  // watch_hub.cc
  void create(Stream& stream, const etcdserverpb::WatchCreateRequest& request, const mvcc::Keyspace& keyspace, const mvcc::HeaderInfo& header, Instant now);
  void refuse(Stream& stream, const std::string& reason, int64_t compact_revision, const mvcc::Keyspace& keyspace, const mvcc::HeaderInfo& header);
  void answer_progress(const mvcc::Keyspace& keyspace, const mvcc::HeaderInfo& header);
  /// A progress note for every watcher that wants one and has heard nothing since `since`.
  void note_progress(Instant since, const mvcc::Keyspace& keyspace, const mvcc::HeaderInfo& header, Instant now);

  // catch_up.cc
  /// Who need not look at history: true = it was moved, or is gone.
  bool settle(Watcher& watcher, const mvcc::Keyspace& keyspace, const mvcc::HeaderInfo& header);
  Status serve_slice(const mvcc::Keyspace& keyspace, const mvcc::HeaderInfo& header, Instant now);
};

}  // namespace rallypoint::watch
