// What the tests of the watch hub share: a real keyspace on a memory engine with a hub beside it, driven as the node drives
// them, and what the streams are told as short lines:
//   "1/0 created @1"          stream 1, watcher 0, header.revision 1
//   "1/0 @2 a=x! b=y<old c-"  events: a put that made its key, a put with the pair before it, a delete
//   "1/0 @2.. a=x!"           a fragment, more to come
//   "1/-1 @2"                 a progress note
//   "1/0 canceled @0 compacted 5: reason"
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "storage/engine/memory_engine.h"
#include "storage/watch/watch_hub.h"

namespace rallypoint::watch::testing {

class NoLeases final : public mvcc::LeaseBook {
 public:
  [[nodiscard]] bool exists(int64_t) const override { return false; }
  void attach(int64_t, std::string_view) override {}
  void detach(int64_t, std::string_view) override {}
};

inline etcdserverpb::WatchResponse parse(const Part& part) {
  etcdserverpb::WatchResponse response;
  EXPECT_TRUE(response.ParseFromArray(part.response.data(), static_cast<int>(part.response.size())));
  EXPECT_EQ(response.watch_id(), 0) << "the id is not the hub's to encode";
  response.set_watch_id(part.watch_id);
  return response;
}

inline std::string show(const mvccpb::Event& event) {
  std::string text = event.kv().key();
  if (event.type() == mvccpb::Event::DELETE) {
    EXPECT_EQ(event.kv().create_revision() + event.kv().version(), 0);
    text += "-";
  } else {
    text += "=" + event.kv().value();
    EXPECT_EQ(event.kv().create_revision() == event.kv().mod_revision(), event.kv().version() == 1);
    if (event.kv().version() == 1) text += "!";
  }
  if (event.has_prev_kv()) text += "<" + event.prev_kv().value();
  return text;
}

inline std::string show(StreamId stream, const etcdserverpb::WatchResponse& response) {
  std::string text = std::to_string(stream) + "/" + std::to_string(response.watch_id());
  if (response.created()) text += " created";
  if (response.canceled()) text += " canceled";
  text += " @" + std::to_string(response.header().revision());
  if (response.fragment()) text += "..";
  if (response.compact_revision() != 0) text += " compacted " + std::to_string(response.compact_revision());
  if (!response.cancel_reason().empty()) text += ": " + response.cancel_reason();
  for (const auto& event : response.events()) text += " " + show(event);
  return text;
}

class Store {
 public:
  explicit Store(WatchHub::Settings settings = {}) : engine(std::make_shared<storage::MemoryEngine>()), hub(settings) {
    auto opened = mvcc::Keyspace::open(engine, {}, leases_);
    keyspace = std::move(*opened);
  }

  // ---- writes, told to the hub at once unless `held` ----
  void put(std::string key, std::string value) {
    etcdserverpb::PutRequest request;
    request.set_key(std::move(key));
    request.set_value(std::move(value));
    ASSERT_TRUE(keyspace->put(request, nullptr).is_ok());
    if (!held) publish();
  }
  void erase(std::string key, std::string range_end = "") {
    etcdserverpb::DeleteRangeRequest request;
    request.set_key(std::move(key));
    request.set_range_end(std::move(range_end));
    ASSERT_TRUE(keyspace->delete_range(request, nullptr).is_ok());
    if (!held) publish();
  }
  /// Puts and deletes ("a=x", "b-") in one transaction.
  void txn(const std::vector<std::string>& operations) {
    etcdserverpb::TxnRequest request;
    for (const std::string& operation : operations) {
      const size_t equals = operation.find('=');
      if (equals == std::string::npos) {
        request.add_success()->mutable_request_delete_range()->set_key(operation.substr(0, operation.size() - 1));
      } else {
        auto* put = request.add_success()->mutable_request_put();
        put->set_key(operation.substr(0, equals));
        put->set_value(operation.substr(equals + 1));
      }
    }
    auto outcome = keyspace->txn(request, nullptr);
    ASSERT_TRUE(outcome.is_ok() && outcome->status.is_ok());
    if (!held) publish();
  }
  void publish() {
    write();
    hub.publish(keyspace->take_events(), *keyspace, header, now);
  }
  /// What was applied goes to the engine.
  void write() {
    storage::WriteBatch batch;
    keyspace->collect_changes(batch);
    ASSERT_TRUE(engine->write(batch).is_ok());
    keyspace->changes_written();
  }
  void mark_compacted(int64_t revision) {
    etcdserverpb::CompactionRequest request;
    request.set_revision(revision);
    auto outcome = keyspace->compact(request, nullptr);
    ASSERT_TRUE(outcome.is_ok() && outcome->status.is_ok()) << outcome->status;
    write();
    hub.compacting(revision, *keyspace, header, now);
  }
  void compact(int64_t revision) {
    mark_compacted(revision);
    while (*keyspace->compact_slice(10)) write();
    write();
  }

  // ---- the client's side ----
  struct Watch {
    std::string key;
    std::string range_end;
    int64_t start = 0;
    int64_t id = 0;
    bool prev_kv = false;
    bool progress = false;
    bool fragment = false;
    std::vector<int> filters;
  };
  void watch(StreamId stream, const Watch& watch) {
    etcdserverpb::WatchRequest request;
    auto* create = request.mutable_create_request();
    create->set_key(watch.key);
    create->set_range_end(watch.range_end);
    create->set_start_revision(watch.start);
    create->set_watch_id(watch.id);
    create->set_prev_kv(watch.prev_kv);
    create->set_progress_notify(watch.progress);
    create->set_fragment(watch.fragment);
    for (int filter : watch.filters) create->add_filters(static_cast<etcdserverpb::WatchCreateRequest::FilterType>(filter));
    hub.handle(stream, request, *keyspace, header, now);
  }
  void cancel(StreamId stream, int64_t id) {
    etcdserverpb::WatchRequest request;
    request.mutable_cancel_request()->set_watch_id(id);
    hub.handle(stream, request, *keyspace, header, now);
  }
  void ask_progress(StreamId stream) {
    etcdserverpb::WatchRequest request;
    request.mutable_progress_request();
    hub.handle(stream, request, *keyspace, header, now);
  }
  void tick() { hub.tick(now, *keyspace, header); }
  void pass(int64_t seconds) { now = now + Duration::seconds(seconds); }

  /// One turn of the node: a slice of history, then the output.
  std::vector<std::pair<StreamId, etcdserverpb::WatchResponse>> turn(bool* more = nullptr) {
    auto behind = hub.catch_up(*keyspace, header, now);
    EXPECT_TRUE(behind.is_ok()) << behind.status();
    if (more != nullptr) *more = behind.is_ok() && *behind;
    return output();
  }
  std::vector<std::pair<StreamId, etcdserverpb::WatchResponse>> output() {
    std::vector<std::pair<StreamId, etcdserverpb::WatchResponse>> responses;
    for (const StreamOutput& output : hub.take_output())
      for (const Part& part : output.parts) responses.emplace_back(output.stream, parse(part));
    return responses;
  }
  /// Everything there is to tell, however many turns it takes.
  std::vector<std::string> told() {
    std::vector<std::string> lines;
    for (bool more = true; more;)
      for (const auto& [stream, response] : turn(&more)) lines.push_back(show(stream, response));
    return lines;
  }

  std::shared_ptr<storage::MemoryEngine> engine;
  std::unique_ptr<mvcc::Keyspace> keyspace;
  WatchHub hub;
  mvcc::HeaderInfo header{77, 1, 3};
  Instant now = Instant{1'000'000'000};
  bool held = false;

 private:
  NoLeases leases_;
};

}  // namespace rallypoint::watch::testing
