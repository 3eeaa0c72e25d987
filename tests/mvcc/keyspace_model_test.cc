// The keyspace against a slow obvious twin: every state that ever was, kept whole. Random operations, compactions in
// slices, crashes; replay one run with RALLYPOINT_SEED=n.
#include <cstdlib>

#include "raft/base/random.h"
#include "tests/mvcc/support.h"

namespace rallypoint::mvcc {
namespace {

struct Twin {
  using Pairs = std::map<std::string, mvccpb::KeyValue>;
  std::map<int64_t, Pairs> states{{1, {}}};  ///< by revision
  int64_t revision = 1;
  int64_t compacted = 0;

  [[nodiscard]] const Pairs& at(int64_t r) const { return std::prev(states.upper_bound(r))->second; }
  void put(Pairs& pairs, const std::string& key, const std::string& value, int64_t lease) const {
    auto& kv = pairs[key];
    if (kv.version() == 0) kv.set_create_revision(revision + 1);
    kv.set_key(key);
    kv.set_value(value);
    kv.set_mod_revision(revision + 1);
    kv.set_version(kv.version() + 1);
    kv.set_lease(lease);
  }
  void commit(Pairs pairs, bool changed) {
    if (changed) states[++revision] = std::move(pairs);
  }
};

class KeyspaceModel : public KeyspaceTest, public testing::WithParamInterface<uint64_t> {
 protected:
  Random random{1};
  Twin twin;

  std::string key() { return std::string(1, static_cast<char>('a' + random.below(6))) + (random.below(3) == 0 ? "x" : ""); }
  std::pair<std::string, std::string> interval() {
    switch (random.below(4)) {
      case 0: return {key(), ""};
      case 1: return {key(), std::string(1, '\0')};
      case 2: return {std::string(1, '\0'), std::string(1, '\0')};
      default: return {key(), key()};
    }
  }
  static bool inside(const std::string& k, const std::string& from, const std::string& to) {
    if (to.empty()) return k == from;
    return k >= from && (to == std::string(1, '\0') || k < to);
  }

  void random_put() {
    const std::string k = key(), value = std::to_string(random.below(5));
    const int64_t lease = random.below(4) == 0 ? 1 + static_cast<int64_t>(random.below(2)) : 0;
    put(k, value, lease);
    auto pairs = twin.at(twin.revision);
    twin.put(pairs, k, value, lease);
    twin.commit(std::move(pairs), true);
  }
  void random_delete() {
    const auto [from, to] = interval();
    const int64_t deleted = erase(from, to).deleted();
    auto pairs = twin.at(twin.revision);
    const auto gone = std::erase_if(pairs, [&](const auto& pair) { return inside(pair.first, from, to); });
    EXPECT_EQ(deleted, static_cast<int64_t>(gone));
    twin.commit(std::move(pairs), gone > 0);
  }
  /// Compares, then puts and deletes of distinct keys, at two levels.
  void random_txn() {
    TxnRequest request;
    std::set<std::string> used;
    const Twin::Pairs before = twin.at(twin.revision);
    Twin::Pairs pairs = before;
    bool changed = false;
    const auto fill = [&](auto& self, TxnRequest& txn, bool taken, int depth) -> void {
      bool holds = true;
      for (size_t i = random.below(3); i > 0; --i) {
        Compare* compare = txn.add_compare();
        compare->set_key(key());
        compare->set_target(Compare::MOD);
        compare->set_result(static_cast<Compare::CompareResult>(random.below(4)));
        compare->set_mod_revision(static_cast<int64_t>(random.below(static_cast<size_t>(twin.revision) + 1)));
        const auto it = before.find(compare->key());
        const int64_t mod = it == before.end() ? 0 : it->second.mod_revision();
        const int64_t wanted = compare->mod_revision();
        holds &= compare->result() == Compare::EQUAL ? mod == wanted : compare->result() == Compare::NOT_EQUAL ? mod != wanted
                 : compare->result() == Compare::GREATER ? mod > wanted : mod < wanted;
      }
      for (const bool branch : {true, false}) {
        for (size_t i = random.below(3); i > 0; --i) {
          RequestOp* operation = branch ? txn.add_success() : txn.add_failure();
          const bool runs = taken && branch == holds;
          const std::string k = key();
          if (depth < 2 && random.below(4) == 0) {
            self(self, *operation->mutable_request_txn(), runs, depth + 1);
          } else if (!used.insert(k).second || random.below(3) == 0) {
            operation->mutable_request_range()->set_key(k);
          } else if (random.below(2) == 0) {
            operation->mutable_request_put()->set_key(k);
            operation->mutable_request_put()->set_value("t");
            if (runs) twin.put(pairs, k, "t", 0), changed = true;
          } else {
            operation->mutable_request_delete_range()->set_key(k);
            if (runs) changed |= pairs.erase(k) > 0;
          }
        }
      }
    };
    fill(fill, request, true, 0);
    const auto response = parsed<TxnResponse>(keyspace->txn(request, &kHeader).value());
    twin.commit(std::move(pairs), changed);
    EXPECT_EQ(response.header().revision(), twin.revision);
  }
  void random_compact() {
    const int64_t revision = static_cast<int64_t>(random.below(static_cast<size_t>(twin.revision) + 2));
    const bool good = revision <= twin.revision && (revision > twin.compacted || twin.compacted == 0);
    EXPECT_EQ(compact(revision).is_ok(), good) << revision;
    if (good) twin.compacted = revision;
  }
  void check_range() {
    const auto [from, to] = interval();
    const int64_t lowest = std::max<int64_t>(1, twin.compacted);
    const int64_t revision = random.below(2) == 0 ? 0 : lowest + static_cast<int64_t>(random.below(static_cast<size_t>(twin.revision - lowest) + 1));
    RangeRequest request = range_of(from, to, revision);
    std::vector<mvccpb::KeyValue> wanted;
    for (const auto& [k, kv] : twin.at(revision == 0 ? twin.revision : revision))
      if (inside(k, from, to)) wanted.push_back(kv);
    const int64_t count = static_cast<int64_t>(wanted.size());
    if (random.below(3) == 0) {
      request.set_min_mod_revision(static_cast<int64_t>(random.below(static_cast<size_t>(twin.revision) + 1)));
      std::erase_if(wanted, [&](const auto& kv) { return request.min_mod_revision() != 0 && kv.mod_revision() < request.min_mod_revision(); });
    }
    if (random.below(3) == 0) {
      request.set_sort_target(RangeRequest::VERSION);
      request.set_sort_order(RangeRequest::DESCEND);
      std::stable_sort(wanted.begin(), wanted.end(), [](const auto& a, const auto& b) { return a.version() > b.version(); });
    }
    const auto limit = static_cast<int64_t>(random.below(4));
    request.set_limit(limit);
    const bool more = limit > 0 && static_cast<int64_t>(wanted.size()) > limit;
    if (more) wanted.resize(static_cast<size_t>(limit));
    const RangeResponse response = get(request);
    EXPECT_EQ(response.count(), count);
    EXPECT_EQ(response.more(), more);
    ASSERT_EQ(response.kvs_size(), static_cast<int>(wanted.size()));
    for (int i = 0; i < response.kvs_size(); ++i) EXPECT_EQ(response.kvs(i).SerializeAsString(), wanted[static_cast<size_t>(i)].SerializeAsString());
  }
  /// History from the compaction on, replayed, gives every state again.
  void check_history() {
    write();
    const int64_t from = std::max<int64_t>(2, twin.compacted);
    if (from > twin.revision) return;
    Twin::Pairs pairs = twin.at(from - 1);
    int64_t current = from;
    int64_t next = from;
    const auto visit = [&](Event&& event) {
      if (event.revision.main != current) {
        EXPECT_EQ(pairs.size(), twin.at(current).size());
        current = event.revision.main;
      }
      mvccpb::KeyValue kv;
      ASSERT_TRUE(kv.ParseFromArray(event.kv.data(), static_cast<int>(event.kv.size())));
      EXPECT_EQ(kv.key(), event.key.view());
      EXPECT_EQ(event.is_create, !event.is_delete && !pairs.contains(kv.key()));
      if (event.previous.main > twin.compacted) {
        ASSERT_TRUE(pairs.contains(kv.key()));
        EXPECT_EQ(event.previous.main, pairs[kv.key()].mod_revision());
      }
      if (event.is_delete) EXPECT_EQ(pairs.erase(kv.key()), 1u);
      else pairs[kv.key()] = kv;
    };
    while (next <= twin.revision) {
      const int64_t stopped = keyspace->history(next, twin.revision, random.below(200), visit).value();
      ASSERT_GT(stopped, next);
      next = stopped;
    }
    ASSERT_EQ(pairs.size(), twin.at(twin.revision).size());
    for (const auto& [k, kv] : twin.at(twin.revision)) EXPECT_EQ(pairs[k].SerializeAsString(), kv.SerializeAsString());
  }
  void check_leases() {
    for (const int64_t lease : {1, 2}) {
      std::set<std::string> keys;
      for (const auto& [k, kv] : twin.at(twin.revision))
        if (kv.lease() == lease) keys.insert(k);
      EXPECT_EQ(book.leases[lease], keys);
    }
  }
};

TEST_P(KeyspaceModel, DoesWhatItsTwinDoes) {
  const char* asked = std::getenv("RALLYPOINT_SEED");
  const uint64_t seed = asked != nullptr ? std::strtoull(asked, nullptr, 10) : GetParam();
  SCOPED_TRACE("replay: RALLYPOINT_SEED=" + std::to_string(seed));
  random = Random(seed);
  settings.cache_bytes_max = random.below(2) == 0 ? 0 : 4096;
  book.leases[1], book.leases[2];
  reopen();
  for (int step = 0; step < 400 && !HasFailure(); ++step) {
    switch (random.below(12)) {
      case 0: case 1: case 2: random_put(); break;
      case 3: random_delete(); break;
      case 4: case 5: random_txn(); break;
      case 6: random_compact(); break;
      case 7: {
        write();
        ASSERT_TRUE(keyspace->compact_slice(1 + random.below(5)).is_ok());
        write();
        break;
      }
      case 8: check_history(); break;
      case 9: {
        // A restart, in the middle of a compaction's deleting perhaps: hash and digest depend on neither.
        write();
        const auto hash = keyspace->hash_kv(0).value();
        const uint64_t digest = keyspace->digest();
        reopen();
        EXPECT_EQ(keyspace->hash_kv(0).value().hash, hash.hash);
        EXPECT_EQ(keyspace->digest(), digest);
        check_leases();
        break;
      }
      default: check_range(); break;
    }
    EXPECT_EQ(keyspace->revision(), twin.revision);
    EXPECT_EQ(keyspace->keys(), twin.at(twin.revision).size());
  }
  compact_all();
  check_history();
  check_leases();
}

INSTANTIATE_TEST_SUITE_P(Seeds, KeyspaceModel, testing::Range<uint64_t>(1, 61));

}  // namespace
}  // namespace rallypoint::mvcc
