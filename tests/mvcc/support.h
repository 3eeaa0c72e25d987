// What the tests of the keyspace share: a keyspace on an engine that can crash, a book of leases, and requests in few words.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "storage/engine/memory_engine.h"
#include "storage/mvcc/keyspace.h"

namespace rallypoint::mvcc {

using etcdserverpb::Compare;
using etcdserverpb::CompactionRequest;
using etcdserverpb::DeleteRangeRequest;
using etcdserverpb::DeleteRangeResponse;
using etcdserverpb::PutRequest;
using etcdserverpb::PutResponse;
using etcdserverpb::RangeRequest;
using etcdserverpb::RangeResponse;
using etcdserverpb::RequestOp;
using etcdserverpb::TxnRequest;
using etcdserverpb::TxnResponse;

inline const HeaderInfo kHeader{7, 8, 9};

/// Leases that exist because a test says so, and their keys.
class Book final : public LeaseBook {
 public:
  std::map<int64_t, std::set<std::string>> leases;
  bool exists(int64_t lease) const override { return leases.contains(lease); }
  void attach(int64_t lease, std::string_view key) override { leases[lease].emplace(key); }
  void detach(int64_t lease, std::string_view key) override { leases[lease].erase(std::string(key)); }
};

class KeyspaceTest : public testing::Test {
 protected:
  KeyspaceTest() { reopen(); }
  void reopen() {
    for (auto& [id, keys] : book.leases) keys.clear();
    keyspace.reset();
    auto opened = Keyspace::open(engine, settings, book);
    ASSERT_TRUE(opened.is_ok()) << opened.status();
    keyspace = std::move(*opened);
  }
  /// What the state machine does behind every batch.
  void write() {
    storage::WriteBatch batch;
    keyspace->collect_changes(batch);
    ASSERT_TRUE(engine->write(batch).is_ok());
    keyspace->changes_written();
  }
  template <class Response>
  Response parsed(const Outcome& outcome) {
    EXPECT_TRUE(outcome.status.is_ok()) << outcome.status;
    Response response;
    EXPECT_TRUE(response.ParseFromString(outcome.response));
    return response;
  }
  PutResponse put(const std::string& key, const std::string& value, int64_t lease = 0) {
    PutRequest request;
    request.set_key(key);
    request.set_value(value);
    request.set_lease(lease);
    request.set_prev_kv(true);
    return parsed<PutResponse>(keyspace->put(request, &kHeader).value());
  }
  DeleteRangeResponse erase(const std::string& key, const std::string& end = "") {
    DeleteRangeRequest request;
    request.set_key(key);
    request.set_range_end(end);
    request.set_prev_kv(true);
    return parsed<DeleteRangeResponse>(keyspace->delete_range(request, &kHeader).value());
  }
  Status compact(int64_t revision) {
    CompactionRequest request;
    request.set_revision(revision);
    return keyspace->compact(request, &kHeader).value().status;
  }
  /// All slices; as the node loop does it.
  void compact_all() {
    while (keyspace->compact_slice(3).value()) write();
  }
  static RangeRequest range_of(const std::string& key, const std::string& end = "", int64_t revision = 0) {
    RangeRequest request;
    request.set_key(key);
    request.set_range_end(end);
    request.set_revision(revision);
    return request;
  }
  Outcome ask(const RangeRequest& request) { return keyspace->range(request, kHeader).value(); }
  RangeResponse get(const RangeRequest& request) { return parsed<RangeResponse>(ask(request)); }
  /// "a=1 b=2"
  static std::string text(const RangeResponse& response) {
    std::string out;
    for (const auto& kv : response.kvs()) out += (out.empty() ? "" : " ") + kv.key() + "=" + kv.value();
    return out;
  }

  std::shared_ptr<storage::MemoryEngine> engine = std::make_shared<storage::MemoryEngine>();
  Keyspace::Settings settings;
  Book book;
  std::unique_ptr<Keyspace> keyspace;
};

}  // namespace rallypoint::mvcc
