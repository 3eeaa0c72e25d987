// One specification for both engines; then what only one of them can show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "raft/base/random.h"
#include "storage/engine/memory_engine.h"
#include "storage/engine/rocks_engine.h"

namespace rallypoint::storage {
namespace {

using Rows = std::map<std::string, std::string>;

std::string make_directory() {
  std::string name = (std::filesystem::temp_directory_path() / "rallypoint-engine-XXXXXX").string();
  RALLY_CHECK(mkdtemp(name.data()) != nullptr);
  return name;
}

/// An engine that can be thrown away as by kill -9 and opened again.
class Bench {
 public:
  explicit Bench(bool rocks) : rocks_(rocks), directory_(rocks ? make_directory() : "") { reopen(); }
  ~Bench() {
    engine_.reset();
    if (rocks_) std::filesystem::remove_all(directory_);
  }
  Engine& operator*() { return *engine_; }
  Engine* operator->() { return engine_.get(); }
  void crash() {
    if (rocks_) {
      reopen();
    } else {
      static_cast<MemoryEngine&>(*engine_).crash();
    }
  }

 private:
  void reopen() {
    if (!rocks_) {
      engine_ = std::make_unique<MemoryEngine>();
      return;
    }
    engine_.reset();
    auto opened = RocksEngine::open(directory_);
    RALLY_CHECK(opened.is_ok(), "status", opened.status());
    engine_ = std::move(opened).value();
  }
  bool rocks_;
  std::string directory_;
  std::unique_ptr<Engine> engine_;
};

Rows rows_of(const EngineView& view, std::string_view from = "", std::string_view to = "") {
  Rows rows;
  std::string before;
  const Status status = view.scan(from, to, [&](std::string_view key, std::string_view value) {
    EXPECT_TRUE(rows.empty() || before < key) << "in order";
    before = key;
    rows.emplace(key, value);
    return true;
  });
  EXPECT_TRUE(status.is_ok()) << status;
  return rows;
}

class AnyEngine : public ::testing::TestWithParam<std::string> {
 protected:
  AnyEngine() : engine_(GetParam() == "rocks") {}
  void put(const Rows& rows) {
    WriteBatch batch;
    for (const auto& [key, value] : rows) batch.put(key, value);
    ASSERT_TRUE(engine_->write(batch).is_ok());
  }
  Bench engine_;
};

TEST_P(AnyEngine, GetsAndScansWhatWasWritten) {
  put({{"a", "1"}, {"b", ""}, {std::string("b\0x", 3), "3"}, {"c", "4"}});
  EXPECT_EQ(*engine_->get("a"), "1");
  EXPECT_EQ(*engine_->get("b"), "");
  EXPECT_EQ(*engine_->get("nope"), std::nullopt);
  EXPECT_EQ(rows_of(*engine_, "b", "c"), (Rows{{"b", ""}, {std::string("b\0x", 3), "3"}}));
  EXPECT_EQ(rows_of(*engine_, "c"), (Rows{{"c", "4"}}));
  EXPECT_EQ(rows_of(*engine_, "c", "b"), Rows());
  int seen = 0;
  ASSERT_TRUE(engine_->scan("", "", [&](auto, auto) { return ++seen < 2; }).is_ok());
  EXPECT_EQ(seen, 2);
}

TEST_P(AnyEngine, OperationsOfABatchTakeEffectInOrder) {
  put({{"a", "1"}, {"b", "2"}, {"c", "3"}});
  WriteBatch batch;
  batch.erase("a");
  batch.put("a", "again");
  batch.erase_range("b", "c");
  batch.put("bb", "after the range");
  batch.put("c", "x");
  batch.erase("c");
  batch.erase_range("z", "a");  // nothing
  ASSERT_TRUE(engine_->write(batch).is_ok());
  EXPECT_EQ(rows_of(*engine_), (Rows{{"a", "again"}, {"bb", "after the range"}}));
}

TEST_P(AnyEngine, SnapshotIsUnaffectedByLaterWrites) {
  put({{"a", "1"}, {"b", "2"}});
  const auto view = engine_->snapshot();
  put({{"a", "changed"}, {"c", "new"}});
  EXPECT_EQ(rows_of(*view), (Rows{{"a", "1"}, {"b", "2"}}));
  EXPECT_EQ(*view->get("a"), "1");
  EXPECT_EQ(*view->get("c"), std::nullopt);
  EXPECT_EQ(*engine_->get("c"), "new");
}

TEST_P(AnyEngine, OnlyFlushedDataIsPersistedAndSurvivesACrash) {
  put({{"a", "1"}, {"applied", "7"}});
  EXPECT_EQ(*engine_->get_persisted("applied"), std::nullopt);
  ASSERT_TRUE(engine_->flush().is_ok());
  EXPECT_EQ(*engine_->get_persisted("applied"), "7");
  put({{"a", "2"}, {"applied", "8"}});
  EXPECT_EQ(*engine_->get("applied"), "8");
  EXPECT_EQ(*engine_->get_persisted("applied"), "7");
  engine_.crash();
  EXPECT_EQ(rows_of(*engine_), (Rows{{"a", "1"}, {"applied", "7"}}));
}

TEST_P(AnyEngine, AStartedFlushIsFollowedByOneThatWaits) {
  put({{"a", "1"}});
  ASSERT_TRUE(engine_->start_flush().is_ok());
  ASSERT_TRUE(engine_->flush().is_ok());
  EXPECT_EQ(*engine_->get_persisted("a"), "1");
}

TEST_P(AnyEngine, RandomBatchesMatchAMap) {
  Random random(11);
  Rows model;
  Rows flushed;
  const auto key = [&] { return "k" + std::to_string(random.below(60)); };
  for (int step = 0; step < 400; ++step) {
    WriteBatch batch;
    for (uint64_t i = random.between(1, 5); i > 0; --i) {
      if (random.chance(2, 3)) {
        const std::string at = key();
        const std::string value = std::to_string(random.next());
        batch.put(at, value);
        model[at] = value;
      } else if (random.chance(4, 5)) {
        const std::string at = key();
        batch.erase(at);
        model.erase(at);
      } else {
        const std::string from = key();
        const std::string to = key();
        batch.erase_range(from, to);
        if (from < to) model.erase(model.lower_bound(from), model.lower_bound(to));
      }
    }
    ASSERT_TRUE(engine_->write(batch).is_ok());
    if (random.chance(1, 40)) {
      ASSERT_TRUE(engine_->flush().is_ok());
      flushed = model;
    }
    if (random.chance(1, 100)) {
      engine_.crash();
      model = flushed;
    }
    if (step % 20 == 0) {
      ASSERT_EQ(rows_of(*engine_), model) << step;
    }
  }
  EXPECT_EQ(rows_of(*engine_), model);
}

INSTANTIATE_TEST_SUITE_P(Both, AnyEngine, ::testing::Values("rocks", "memory"));

TEST(MemoryEngine, FlushesHappenAtSeededMomentsAndNeverSplitABatch) {
  bool by_itself = false;
  bool not_at_once = false;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    MemoryEngine engine(seed);
    for (int i = 1; i <= 200; ++i) {
      WriteBatch batch;
      batch.put("x", std::to_string(i));
      batch.put("y", std::to_string(i));
      ASSERT_TRUE(engine.write(batch).is_ok());
      ASSERT_EQ(*engine.get_persisted("x"), *engine.get_persisted("y"));
      if (i < 100 && engine.get_persisted("x").value()) by_itself = true;
      if (i == 100) {
        ASSERT_TRUE(engine.start_flush().is_ok());
        not_at_once |= *engine.get_persisted("x") != "100";
      }
    }
    EXPECT_GE(std::stoi(engine.get_persisted("x").value().value()), 100)
        << "a started flush comes to its end";
    MemoryEngine next_life(seed, engine.persisted());
    engine.crash();
    EXPECT_EQ(engine.rows(), next_life.rows());
  }
  EXPECT_TRUE(by_itself);
  EXPECT_TRUE(not_at_once);
}

TEST(RocksEngine, DamagedTableIsDataLossAndNotWrongData) {
  const std::string directory = make_directory();
  {
    auto engine = std::move(RocksEngine::open(directory)).value();
    WriteBatch batch;
    for (int i = 0; i < 2000; ++i) batch.put("key" + std::to_string(i), std::string(100, 'v'));
    ASSERT_TRUE(engine->write(batch).is_ok());
    ASSERT_TRUE(engine->flush().is_ok());
  }
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() != ".sst") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(20'000);
    file.write("damage", 6);
  }
  auto engine = RocksEngine::open(directory);
  if (engine.is_ok()) {
    int rows = 0;
    const Status status = (*engine)->scan("", "", [&](auto, std::string_view value) {
      EXPECT_EQ(value, std::string(100, 'v'));
      return ++rows > 0;
    });
    EXPECT_EQ(status.code(), Code::kDataLoss) << status;
    EXPECT_LT(rows, 2000);
  } else {
    EXPECT_EQ(engine.status().code(), Code::kDataLoss) << engine.status();
  }
  std::filesystem::remove_all(directory);
}

TEST(RocksEngine, ASecondOwnerIsRefused) {
  const std::string directory = make_directory();
  {
    auto first = RocksEngine::open(directory);
    ASSERT_TRUE(first.is_ok());
    EXPECT_FALSE(RocksEngine::open(directory).is_ok());
  }
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace rallypoint::storage
