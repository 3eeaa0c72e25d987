// The tree's rows in the engine: how many there are, what survives, and what is refused.
#include <gtest/gtest.h>

#include "storage/v2/v2_codec.h"
#include "storage/v2/v2_tree.h"
#include "tests/v2/support.h"

namespace rallypoint::v2 {
namespace {

using namespace testing;

class V2Rows : public ::testing::Test {
 protected:
  Event run(const WriteRequest& request) { return ok(tree.apply(request, at(1))); }
  /// The rows whose key begins so.
  size_t count(std::string_view prefix) const {
    size_t n = 0;
    for (const auto& [key, row] : store.rows) n += key.starts_with(prefix);
    return n;
  }
  Code load_code() {
    Tree fresh;
    return fresh.load(store).code();
  }

  Tree tree;
  RowStore store;
};

TEST_F(V2Rows, AnEmptyEngineIsAFreshTree) {
  run(put("/a", "1"));
  ASSERT_EQ(tree.load(store), Status::ok());
  EXPECT_EQ(tree.digest(), Tree().digest());
  EXPECT_EQ(tree.index(), Tree::kFirstIndex);
}

TEST_F(V2Rows, AFreshTreeIsSavedToo) {
  save(tree, store);
  EXPECT_EQ(count("2n"), 3u);
  EXPECT_EQ(count("2m"), 1u);
  Tree loaded;
  ASSERT_EQ(loaded.load(store), Status::ok());
  EXPECT_EQ(loaded.digest(), tree.digest());
}

TEST_F(V2Rows, ADeletedStoreDirectoryStaysDeleted) {
  run(erase("/torch", false, true));
  save(tree, store);
  Tree loaded;
  ASSERT_EQ(loaded.load(store), Status::ok());
  EXPECT_EQ(show(loaded.read({"/torch", false, false}, at(1))), "100 /torch @4");
}

TEST_F(V2Rows, APutOfAnExistingKeyIsThreeRows) {
  run(put("/d/a", "1"));
  save(tree, store);
  run(put("/d/a", "2"));
  EXPECT_EQ(save(tree, store), 3u) << "node, history, meta";
  EXPECT_EQ(save(tree, store), 0u);
}

TEST_F(V2Rows, ABatchWritesOneHistoryRowAndEachNodeOnce) {
  save(tree, store);
  for (int i = 0; i < 100; ++i) run(put("/d/a", std::to_string(i)));
  run(put("/d/b", "1"));
  EXPECT_EQ(save(tree, store), 5u) << "/d, /d/a, /d/b, history, meta";
}

TEST_F(V2Rows, APathThatIsDeletedAndMadeAgainInOneBatchStays) {
  run(put("/a", "1"));
  save(tree, store);
  run(erase("/a"));
  run(put("/a", "2"));
  run(put("/b", "1"));
  run(erase("/b"));
  save(tree, store);
  Tree loaded;
  ASSERT_EQ(loaded.load(store), Status::ok());
  EXPECT_EQ(show(loaded.read({"/a", false, false}, at(1))), "get /a=2 6,6");
  EXPECT_EQ(show(loaded.read({"/b", false, false}, at(1))), "100 /b @8");
}

TEST_F(V2Rows, HistoryRowsGoWhenAllTheirEventsAreOutOfTheWindow) {
  for (int batch = 0; batch < 30; ++batch) {
    for (int i = 0; i < 100; ++i) run(put("/a", "x"));
    save(tree, store);
  }
  EXPECT_EQ(count("2h"), 10u);
  run(put("/a", "x"));
  save(tree, store);
  EXPECT_EQ(count("2h"), 11u);
  Tree loaded;
  ASSERT_EQ(loaded.load(store), Status::ok());
  EXPECT_EQ(loaded.digest(), tree.digest());
  EXPECT_EQ(loaded.history().events().size(), 1000u);
}

TEST_F(V2Rows, ABatchLargerThanTheWindowSavesTheWindow) {
  for (int i = 0; i < 2500; ++i) run(put("/a", "x"));
  save(tree, store);
  Tree loaded;
  ASSERT_EQ(loaded.load(store), Status::ok());
  EXPECT_EQ(loaded.digest(), tree.digest());
}

TEST_F(V2Rows, TtlsAndEventsSurviveWithAllTheyShow) {
  run(put("/d/a", "1", 50));
  run(put("/d/a", std::string("\0\xff\n", 3), 60));
  run(as_refresh(put("/d/a", "", 70)));
  run(with_prev_exist(make_dir("/d", 10), true));
  save(tree, store);
  Tree loaded;
  ASSERT_EQ(loaded.load(store), Status::ok());
  EXPECT_EQ(loaded.next_deadline(), Instant{11'000'000});
  EXPECT_EQ(show(loaded.read({"/", true, false}, at(2))), show(tree.read({"/", true, false}, at(2))));
  ASSERT_EQ(loaded.history().events().size(), tree.history().events().size());
  for (size_t i = 0; i < tree.history().events().size(); ++i) {
    EXPECT_EQ(show(*loaded.history().events()[i]), show(*tree.history().events()[i]));
    EXPECT_EQ(loaded.history().events()[i]->etcd_index, tree.history().events()[i]->etcd_index);
  }
}

TEST_F(V2Rows, TheFormatOfAFileIsWhatTheHeaderSays) {
  run(put("/a", "x"));
  save(tree, store);
  EXPECT_EQ(store.rows["2n/a"], std::string("\x01\x00\x04\x04x", 5));
  EXPECT_EQ(store.rows["2m"], std::string("\x01\x04\x00", 3));
  EXPECT_TRUE(store.rows.contains(std::string("2h\0\0\0\0\0\0\0\x04", 10)));
}

TEST_F(V2Rows, DamageIsFoundAndNeverCrashes) {
  run(put("/d/a", "1", 50));
  run(put("/d/a", "2", 60));
  save(tree, store);
  const auto good = store.rows;
  for (const auto& [key, row] : good) {
    for (size_t size = 0; size < row.size(); ++size) {
      store.rows = good;
      store.rows[key].resize(size);
      Tree loaded;
      const Status status = loaded.load(store);
      if (status.is_ok()) {
        // A value that is cut looks like a shorter value: such damage is for the engine's checksums to find.
        EXPECT_TRUE(key.starts_with("2n")) << key << " cut to " << size;
      }
    }
    store.rows = good;
    store.rows[key][0] = 9;
    EXPECT_EQ(load_code(), Code::kDataLoss) << "unknown version in " << key;
  }
  store.rows = good;
  store.rows.erase("2m");
  EXPECT_EQ(load_code(), Code::kDataLoss);
  store.rows = good;
  store.rows.erase("2n/d");
  EXPECT_EQ(load_code(), Code::kDataLoss) << "a child without its directory";
}

TEST_F(V2Rows, TheDigestSeesEveryPartOfTheState) {
  const uint64_t fresh = tree.digest();
  run(put("/a", "1"));
  const uint64_t one = tree.digest();
  EXPECT_NE(one, fresh);
  // Same nodes, but another past.
  Tree other;
  ok(other.apply(put("/a", "2"), at(1)));
  ok(other.apply(erase("/a"), at(1)));
  run(erase("/a"));
  EXPECT_EQ(tree.index(), other.index());
  EXPECT_NE(tree.digest(), other.digest());
  // A refresh is no event, but moves a deadline.
  run(put("/a", "1", 5));
  const uint64_t before = tree.digest();
  run(with_prev_exist(as_refresh(put("/a", "", 9)), true));
  EXPECT_NE(tree.digest(), before);
}

}  // namespace
}  // namespace rallypoint::v2
