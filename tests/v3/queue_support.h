// A node of few words for the tests of locks and elections: it checks what it is asked, and says what the test wants.
#pragma once

#include "storage/etcd_api/election.pb.h"
#include "storage/etcd_api/lock.pb.h"
#include "tests/v3/fake_rpc.h"

namespace rallypoint::server {

struct Pair {
  std::string key;
  int64_t created = 0;
  std::string value;
};

class QueueTest : public V3Test {
 protected:
  using TxnRequest = etcdserverpb::TxnRequest;
  using TxnResponse = etcdserverpb::TxnResponse;
  using RangeRequest = etcdserverpb::RangeRequest;

  static void add(TxnResponse& response, const std::vector<Pair>& pairs) {
    auto& range = *response.add_responses()->mutable_response_range();
    for (const Pair& pair : pairs) {
      auto& kv = *range.add_kvs();
      kv.set_key(pair.key);
      kv.set_create_revision(pair.created);
      kv.set_mod_revision(pair.created);
      kv.set_value(pair.value);
    }
  }

  /// The transaction with which `key` joins.
  V3Write take_join(const std::string& key, const std::string& value, int64_t lease) {
    auto write = take<V3Write>();
    EXPECT_EQ(write.kind, V3WriteKind::kTxn);
    const auto txn = parsed<TxnRequest>(write.message.view());
    EXPECT_EQ(txn.compare_size(), 1);
    EXPECT_EQ(txn.compare(0).target(), etcdserverpb::Compare::CREATE);
    EXPECT_EQ(txn.compare(0).key(), key);
    EXPECT_EQ(txn.compare(0).create_revision(), 0);
    EXPECT_EQ(txn.success(0).request_put().key(), key);
    EXPECT_EQ(txn.success(0).request_put().value(), value);
    EXPECT_EQ(txn.success(0).request_put().lease(), lease);
    EXPECT_EQ(txn.failure(0).request_range().key(), key);
    return write;
  }
  void joined(const V3Write& write, int64_t revision, const Pair& oldest) {
    TxnResponse response;
    response.mutable_header()->set_revision(revision);
    response.set_succeeded(true);
    response.add_responses()->mutable_response_put();
    add(response, {oldest});
    reply(write, response);
  }
  void was_there(const V3Write& write, int64_t revision, const Pair& own, const Pair& oldest) {
    TxnResponse response;
    response.mutable_header()->set_revision(revision);
    add(response, {own});
    add(response, {oldest});
    reply(write, response);
  }
  /// The look at who is older than `revision`, and at the own key.
  V3Read take_look(const std::string& key, int64_t revision) {
    auto read = take<V3Read>();
    EXPECT_EQ(read.kind, V3Read::Kind::kTxn);
    EXPECT_TRUE(read.linearizable);
    if (read.message) {
      const auto& txn = static_cast<const TxnRequest&>(*read.message);
      EXPECT_EQ(txn.success(0).request_range().max_create_revision(), revision - 1);
      EXPECT_EQ(txn.success(0).request_range().sort_order(), RangeRequest::DESCEND);
      EXPECT_EQ(txn.success(0).request_range().sort_target(), RangeRequest::CREATE);
      EXPECT_EQ(txn.success(0).request_range().limit(), 1);
      EXPECT_EQ(txn.success(1).request_range().key(), key);
    }
    return read;
  }
  void seen(const V3Read& read, int64_t revision, const std::vector<Pair>& older, const std::vector<Pair>& own) {
    TxnResponse response;
    response.mutable_header()->set_revision(revision);
    response.set_succeeded(true);
    add(response, older);
    add(response, own);
    reply(read, response);
  }
  V3WatchMessage take_watch(const std::string& key, int64_t revision, const std::string& range_end = "") {
    auto watch = take<V3WatchMessage>();
    if (watch.message) {
      const auto& create = static_cast<const etcdserverpb::WatchRequest&>(*watch.message).create_request();
      EXPECT_EQ(create.key(), key);
      EXPECT_EQ(create.range_end(), range_end);
      EXPECT_EQ(create.start_revision(), revision);
    }
    return watch;
  }
  static mvccpb::Event event(mvccpb::Event::EventType type, const std::string& key, int64_t revision, const std::string& value = "") {
    mvccpb::Event event;
    event.set_type(type);
    event.mutable_kv()->set_key(key);
    event.mutable_kv()->set_mod_revision(revision);
    event.mutable_kv()->set_value(value);
    return event;
  }
  static mvccpb::Event deleted(const std::string& key, int64_t revision) { return event(mvccpb::Event::DELETE, key, revision); }
  static mvccpb::Event put(const std::string& key, int64_t revision, const std::string& value) {
    return event(mvccpb::Event::PUT, key, revision, value);
  }
  void tell(const V3WatchMessage& watch, const etcdserverpb::WatchResponse& response) {
    reply(watch, WatchParts{{{0, Bytes(response.SerializeAsString())}}}, false);
  }
  void tell(const V3WatchMessage& watch, const std::vector<mvccpb::Event>& events) {
    etcdserverpb::WatchResponse response;
    for (const mvccpb::Event& event : events) *response.add_events() = event;
    response.mutable_header()->set_revision(events.empty() ? 0 : events.back().kv().mod_revision());
    tell(watch, response);
  }
  void kept(const V3KeepAlive& renewal, int64_t ttl) {
    etcdserverpb::LeaseKeepAliveResponse response;
    response.set_ttl(ttl);
    reply(renewal, response, false);
  }
  /// What takes the key out of the queue again.
  void expect_left(const std::string& key, int64_t revision) {
    auto write = take<V3Write>();
    EXPECT_EQ(write.kind, V3WriteKind::kTxn);
    const auto txn = parsed<TxnRequest>(write.message.view());
    ASSERT_EQ(txn.compare_size(), 1);
    EXPECT_EQ(txn.compare(0).create_revision(), revision);
    EXPECT_EQ(txn.compare(0).key(), key);
    EXPECT_EQ(txn.success(0).request_delete_range().key(), key);
    EXPECT_EQ(txn.failure_size(), 0);
  }
};

}  // namespace rallypoint::server
