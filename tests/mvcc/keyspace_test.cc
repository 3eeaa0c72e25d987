#include "tests/mvcc/support.h"

namespace rallypoint::mvcc {
namespace {

using testing::HasSubstr;

RequestOp put_op(const std::string& key, const std::string& value, int64_t lease = 0) {
  RequestOp operation;
  operation.mutable_request_put()->set_key(key);
  operation.mutable_request_put()->set_value(value);
  operation.mutable_request_put()->set_lease(lease);
  return operation;
}
RequestOp get_op(const std::string& key, int64_t revision = 0) {
  RequestOp operation;
  operation.mutable_request_range()->set_key(key);
  operation.mutable_request_range()->set_revision(revision);
  return operation;
}
RequestOp delete_op(const std::string& key) {
  RequestOp operation;
  operation.mutable_request_delete_range()->set_key(key);
  return operation;
}
Compare value_is(const std::string& key, const std::string& value, Compare::CompareResult result = Compare::EQUAL) {
  Compare compare;
  compare.set_key(key);
  compare.set_target(Compare::VALUE);
  compare.set_result(result);
  compare.set_value(value);
  return compare;
}

TEST_F(KeyspaceTest, ANewStoreIsAtRevisionOne) {
  const RangeResponse response = get(range_of("a"));
  EXPECT_EQ(response.header().revision(), 1);
  EXPECT_EQ(response.header().cluster_id(), 7u);
  EXPECT_EQ(response.header().member_id(), 8u);
  EXPECT_EQ(response.header().raft_term(), 9u);
  EXPECT_EQ(put("a", "1").header().revision(), 2);
}

TEST_F(KeyspaceTest, VersionsCountFromTheLastCreation) {
  put("a", "1");
  const PutResponse second = put("a", "2");
  EXPECT_EQ(second.prev_kv().value(), "1");
  erase("a");
  put("a", "3");
  const auto kv = get(range_of("a")).kvs(0);
  EXPECT_EQ(kv.create_revision(), 5);
  EXPECT_EQ(kv.mod_revision(), 5);
  EXPECT_EQ(kv.version(), 1);
}

TEST_F(KeyspaceTest, EveryRevisionStaysReadable) {
  put("a", "1");
  put("a", "2");
  erase("a");
  put("a", "3");
  write();
  EXPECT_EQ(text(get(range_of("a", "", 2))), "a=1");
  EXPECT_EQ(text(get(range_of("a", "", 3))), "a=2");
  EXPECT_EQ(text(get(range_of("a", "", 4))), "");
  EXPECT_EQ(text(get(range_of("a", "", 5))), "a=3");
  EXPECT_EQ(ask(range_of("a", "", 6)).status, Status(Code::kOutOfRange, "etcdserver: mvcc: required revision is a future revision"));
}

TEST_F(KeyspaceTest, RangesEndAsInEtcd) {
  for (const char* key : {"a", "b", "c", "d"}) put(key, key);
  EXPECT_EQ(text(get(range_of("b", "d"))), "b=b c=c");
  EXPECT_EQ(text(get(range_of("c", std::string(1, '\0')))), "c=c d=d");
  EXPECT_EQ(text(get(range_of(std::string(1, '\0'), std::string(1, '\0')))), "a=a b=b c=c d=d");
  EXPECT_EQ(text(get(range_of("c", "b"))), "");
  EXPECT_EQ(ask(range_of("")).status, Status::invalid_argument("etcdserver: key is not provided"));
}

TEST_F(KeyspaceTest, CountIgnoresTheLimitAndMoreSaysThatItCut) {
  for (const char* key : {"a", "b", "c"}) put(key, key);
  RangeRequest request = range_of("a", "z");
  request.set_limit(2);
  RangeResponse response = get(request);
  EXPECT_EQ(text(response), "a=a b=b");
  EXPECT_TRUE(response.more());
  EXPECT_EQ(response.count(), 3);
  request.set_limit(3);
  EXPECT_FALSE(get(request).more());
  request.set_count_only(true);
  response = get(request);
  EXPECT_EQ(response.kvs_size(), 0);
  EXPECT_EQ(response.count(), 3);
}

TEST_F(KeyspaceTest, SortsFiltersThenCuts) {
  put("a", "3");
  put("b", "1");
  put("c", "2");
  put("b", "1");
  RangeRequest request = range_of("a", "z");
  request.set_sort_target(RangeRequest::VALUE);
  EXPECT_EQ(text(get(request)), "b=1 c=2 a=3") << "no order given is ascending, if not by key";
  request.set_sort_order(RangeRequest::DESCEND);
  request.set_limit(2);
  EXPECT_EQ(text(get(request)), "a=3 c=2");
  request = range_of("a", "z");
  request.set_min_mod_revision(4);
  EXPECT_EQ(text(get(request)), "b=1 c=2");
  EXPECT_EQ(get(request).count(), 3) << "the bounds do not change the count";
  request = range_of("a", "z");
  request.set_keys_only(true);
  EXPECT_EQ(text(get(request)), "a= b= c=");
  request.set_sort_order(static_cast<RangeRequest::SortOrder>(9));
  EXPECT_EQ(ask(request).status, Status::invalid_argument("etcdserver: invalid sort option"));
}

TEST_F(KeyspaceTest, AWriteThatChangesNothingMakesNoRevision) {
  put("a", "1");
  EXPECT_EQ(erase("b").header().revision(), 2);
  EXPECT_EQ(erase("a").deleted(), 1);
  EXPECT_EQ(keyspace->revision(), 3);
}

TEST_F(KeyspaceTest, KeepsWhatAPutIsToldToKeep) {
  book.leases[5];
  put("a", "1", 5);
  PutRequest request;
  request.set_key("a");
  request.set_ignore_value(true);
  ASSERT_TRUE(keyspace->put(request, &kHeader)->status.is_ok());
  EXPECT_EQ(text(get(range_of("a"))), "a=1");
  EXPECT_EQ(get(range_of("a")).kvs(0).lease(), 0) << "a put without a lease lets the old one go";
  EXPECT_TRUE(book.leases[5].empty());
  request.set_value("x");
  EXPECT_EQ(keyspace->put(request, &kHeader)->status, Status::invalid_argument("etcdserver: value is provided"));
  request.set_key("none");
  request.clear_value();
  EXPECT_EQ(keyspace->put(request, &kHeader)->status, Status::invalid_argument("etcdserver: key not found"));
  request = {};
  request.set_key("a");
  request.set_lease(6);
  EXPECT_EQ(keyspace->put(request, &kHeader)->status, Status::not_found("etcdserver: requested lease not found"));
  EXPECT_EQ(keyspace->revision(), 3);
}

TEST_F(KeyspaceTest, ATransactionIsOneRevision) {
  put("a", "1");
  TxnRequest request;
  *request.add_compare() = value_is("a", "1");
  *request.add_success() = put_op("a", "2");
  *request.add_success() = get_op("a");
  *request.add_success() = put_op("b", "3");
  *request.add_failure() = put_op("c", "4");
  const auto response = parsed<TxnResponse>(keyspace->txn(request, &kHeader).value());
  EXPECT_TRUE(response.succeeded());
  EXPECT_EQ(response.header().revision(), 3);
  ASSERT_EQ(response.responses_size(), 3);
  EXPECT_EQ(response.responses(1).response_range().kvs(0).value(), "2") << "a range sees what the transaction wrote before";
  EXPECT_EQ(response.responses(1).response_range().header().revision(), 3);
  const auto events = keyspace->take_events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].revision, (Revision{3, 0}));
  EXPECT_EQ(events[2].revision, (Revision{3, 1}));
  EXPECT_TRUE(events[2].is_create);
}

TEST_F(KeyspaceTest, NestedComparesSeeTheStateBefore) {
  put("a", "1");
  TxnRequest request;
  *request.add_success() = put_op("a", "2");
  TxnRequest* nested = request.add_success()->mutable_request_txn();
  *nested->add_compare() = value_is("a", "1");
  *nested->add_success() = put_op("b", "yes");
  *nested->add_failure() = put_op("b", "no");
  ASSERT_TRUE(keyspace->txn(request, &kHeader)->status.is_ok());
  EXPECT_EQ(text(get(range_of("b"))), "b=yes");
}

TEST_F(KeyspaceTest, AMissingKeyComparesAsZerosAndNeverByValue) {
  const auto holds = [&](Compare compare) {
    TxnRequest request;
    *request.add_compare() = compare;
    return parsed<TxnResponse>(keyspace->txn(request, &kHeader).value()).succeeded();
  };
  EXPECT_FALSE(holds(value_is("none", "")));
  EXPECT_FALSE(holds(value_is("none", "x", Compare::NOT_EQUAL)));
  Compare version;
  version.set_key("none");
  version.set_target(Compare::VERSION);
  EXPECT_TRUE(holds(version));
  version.set_result(Compare::LESS);
  version.set_version(1);
  EXPECT_TRUE(holds(version));
}

TEST_F(KeyspaceTest, ATransactionThatCanNotBeExecutedWritesNothing) {
  put("a", "1");
  for (const RequestOp& bad : {put_op("x", "1", 99), get_op("a", 77), RequestOp(), put_op("", "v")}) {
    TxnRequest request;
    *request.add_success() = put_op("b", "2");
    *request.add_success() = delete_op("a");
    *request.add_success()->mutable_request_txn()->add_success() = bad;
    EXPECT_FALSE(keyspace->txn(request, &kHeader)->status.is_ok());
    EXPECT_EQ(keyspace->revision(), 2);
    EXPECT_EQ(text(get(range_of("a", "z"))), "a=1");
  }
}

TEST_F(KeyspaceTest, CompactionRefusesWhatIsBeforeIt) {
  put("a", "1");
  put("a", "2");
  put("a", "3");
  EXPECT_TRUE(compact(3).is_ok());
  EXPECT_EQ(compact(3), Status(Code::kOutOfRange, "etcdserver: mvcc: required revision has been compacted"));
  EXPECT_EQ(compact(5), Status(Code::kOutOfRange, "etcdserver: mvcc: required revision is a future revision"));
  EXPECT_EQ(ask(range_of("a", "", 2)).status, Status(Code::kOutOfRange, "etcdserver: mvcc: required revision has been compacted"));
  EXPECT_EQ(text(get(range_of("a", "", 3))), "a=2") << "the compacted revision itself stays readable";
}

TEST_F(KeyspaceTest, CompactionKeepsTheTombstoneOfItsOwnRevision) {
  put("a", "1");
  erase("a");  // revision 3
  put("b", "1");
  write();
  ASSERT_TRUE(compact(3).is_ok());
  compact_all();
  std::vector<Event> events;
  ASSERT_TRUE(keyspace->history(3, 4, 1 << 20, [&](Event&& event) { events.push_back(std::move(event)); }).is_ok());
  ASSERT_EQ(events.size(), 2u) << "etcd#18089";
  EXPECT_TRUE(events[0].is_delete);
  ASSERT_TRUE(compact(4).is_ok());
  compact_all();
  EXPECT_EQ(keyspace->keys(), 1u);
}

TEST_F(KeyspaceTest, LiveBytesGoBackToWhatIsThere) {
  put("a", std::string(1000, 'x'));
  const int64_t one = keyspace->live_bytes();
  for (int i = 0; i < 20; ++i) put("a", std::string(1000, 'x'));
  write();
  EXPECT_GT(keyspace->live_bytes(), 20 * one);
  ASSERT_TRUE(compact(keyspace->revision()).is_ok());
  compact_all();
  EXPECT_LE(keyspace->live_bytes(), one + 4);
  reopen();
  EXPECT_LE(keyspace->live_bytes(), one + 4);
}

TEST_F(KeyspaceTest, TheRevisionNeverGoesDownBehindACompaction) {
  put("a", "1");
  erase("a");
  write();
  ASSERT_TRUE(compact(3).is_ok());
  write();
  put("b", "1");
  erase("b");
  write();
  ASSERT_TRUE(compact(5).is_ok());
  compact_all();
  write();
  reopen();
  EXPECT_EQ(keyspace->revision(), 5) << "etcd#17780";
  EXPECT_EQ(keyspace->compacted(), 5);
}

TEST_F(KeyspaceTest, ALongRangeComesInPiecesOfOneRevision) {
  for (int i = 0; i < 50; ++i) put("k" + std::to_string(100 + i), std::string(100, 'v'));
  write();
  auto cursor = keyspace->open_cursor(range_of("k", "l"));
  ASSERT_TRUE(cursor.is_ok());
  EXPECT_EQ((*cursor)->count(), 50);
  std::vector<Bytes> pairs;
  ASSERT_TRUE((*cursor)->next(500, pairs).value());
  for (int i = 0; i < 50; i += 2) erase("k" + std::to_string(100 + i));
  put("k1499", "new");
  write();
  ASSERT_TRUE(compact(keyspace->revision()).is_ok());
  compact_all();  // the cursor's revision is pinned
  while ((*cursor)->next(500, pairs).value()) {
  }
  EXPECT_EQ(pairs.size(), 50u);
  cursor->reset();
  compact_all();
  EXPECT_EQ(keyspace->keys(), 26u);
}

TEST_F(KeyspaceTest, ACursorMayOutliveItsKeyspace) {
  put("a", "1");
  auto cursor = keyspace->open_cursor(range_of("a"));
  keyspace.reset();
  cursor->reset();
}

}  // namespace
}  // namespace rallypoint::mvcc
