#include "storage/snapshot/snapshot_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "raft/base/random.h"
#include "storage/engine/memory_engine.h"
#include "storage/fs/memory_file_system.h"
#include "storage/snapshot/snapshot_transfer.h"
#include "storage/snapshot/state_directory.h"
#include "storage/wal/wal.h"
#include "tests/storage/wal_support.h"

namespace rallypoint::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Rows = MemoryEngine::Rows;

const SnapshotPoint kPoint{Term(2), Index(9), "who decides"};

void fill(Engine& engine, int rows, uint64_t seed = 1) {
  Random random(seed);
  WriteBatch batch;
  for (int i = 0; i < rows; ++i) {
    batch.put("key" + std::to_string(random.below(1'000'000)),
              std::string(random.below(300), static_cast<char>(i)));
  }
  batch.put("large", std::string(200'000, 'L'));
  RALLY_CHECK(engine.write(batch).is_ok());
}

std::string read_all(SnapshotReader& reader, size_t piece_bytes) {
  std::string whole;
  for (bool last = false; !last;) {
    auto piece = reader.read(whole.size(), piece_bytes);
    RALLY_CHECK(piece.is_ok(), "status", piece.status());
    whole += piece->data.view();
    last = piece->last;
  }
  return whole;
}

TEST(SnapshotFile, WorkedExampleHasTheDocumentedSizes) {
  MemoryFileSystem files;
  MemoryEngine engine;
  WriteBatch batch;
  batch.put("k", "v1");
  ASSERT_TRUE(engine.write(batch).is_ok());
  const auto info = write_snapshot(files, "s", {Term(2), Index(9), ""}, engine);
  ASSERT_TRUE(info.is_ok()) << info.status();
  EXPECT_EQ(info->bytes, 36u + 12 + 11 + 36);
  EXPECT_EQ(info->path, "s/0000000000000009-0000000000000002.snap");
}

TEST(SnapshotFile, GivesBackAllRowsAndThePoint) {
  MemoryFileSystem files;
  MemoryEngine engine;
  fill(engine, 3000);
  const auto view = engine.snapshot();
  const Rows rows = engine.rows();
  fill(engine, 10, 2);  // not in the view
  const auto info = write_snapshot(files, "s", kPoint, *view);
  ASSERT_TRUE(info.is_ok()) << info.status();
  EXPECT_EQ(info->rows, rows.size());
  MemoryEngine other;
  const auto loaded = load_snapshot(files, info->path, other, 10'000);
  ASSERT_TRUE(loaded.is_ok()) << loaded.status();
  EXPECT_EQ(loaded->point, kPoint);
  EXPECT_EQ(other.persisted(), rows);
}

TEST(SnapshotFile, EmptyStateIsASnapshotToo) {
  MemoryFileSystem files;
  const auto info = write_snapshot(files, "s", kPoint, MemoryEngine());
  ASSERT_TRUE(info.is_ok()) << info.status();
  EXPECT_EQ(info->rows, 0u);
}

TEST(SnapshotFile, EveryFlippedBitAndEveryCutIsDetected) {
  MemoryFileSystem files;
  MemoryEngine engine;
  WriteBatch batch;
  for (int i = 0; i < 12; ++i) batch.put("key" + std::to_string(i), std::string(20, 'v'));
  ASSERT_TRUE(engine.write(batch).is_ok());
  const std::string path = write_snapshot(files, "s", kPoint, engine)->path;
  const std::string whole = files.contents(path);
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    files.set_contents(path, damaged);
    ASSERT_FALSE(verify_snapshot(files, path).is_ok()) << "bit " << bit;
  }
  for (size_t size = 0; size < whole.size(); ++size) {
    files.set_contents(path, whole.substr(0, size));
    ASSERT_EQ(verify_snapshot(files, path).status().code(), Code::kDataLoss) << "cut at " << size;
  }
  files.set_contents(path, whole + "x");
  EXPECT_EQ(verify_snapshot(files, path).status().code(), Code::kDataLoss);
}

TEST(SnapshotFile, UnknownVersionIsRefusedByName) {
  MemoryFileSystem files;
  const std::string path = write_snapshot(files, "s", kPoint, MemoryEngine())->path;
  std::string data = files.contents(path);
  data[8] = 9;
  files.set_contents(path, data);
  EXPECT_EQ(verify_snapshot(files, path).status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(verify_snapshot(files, path).status().message(), HasSubstr("version 9"));
}

TEST(SnapshotFile, FullDiskIsAStatusAndLeavesNoFinishedFile) {
  MemoryFileSystem files;
  MemoryEngine engine;
  fill(engine, 100);
  files.set_capacity(10'000);
  EXPECT_EQ(write_snapshot(files, "s", kPoint, engine).status().code(), Code::kResourceExhausted);
  EXPECT_TRUE(list_snapshots(files, "s")->empty());
  ASSERT_TRUE(remove_unfinished_snapshots(files, "s").is_ok());
  EXPECT_EQ(files.used_bytes(), 0u);
}

TEST(SnapshotFile, PowerCutAtAnyStepLeavesAWholeFileOrNone) {
  MemoryEngine engine;
  fill(engine, 300);
  bool finished = false;
  for (uint64_t step = 1; !finished; ++step) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      MemoryFileSystem files;
      files.halt_at(step);
      finished = write_snapshot(files, "s", kPoint, engine).is_ok();
      files.crash(seed);
      const auto paths = list_snapshots(files, "s");
      ASSERT_TRUE(paths.is_ok());
      if (finished) {
        ASSERT_EQ(paths->size(), 1u);
      }
      for (const auto& path : *paths)
        ASSERT_TRUE(verify_snapshot(files, path).is_ok()) << step << '/' << seed;
    }
  }
}

TEST(SnapshotFile, OldOnesAreRemovedNewestStay) {
  MemoryFileSystem files;
  for (uint64_t index : {5, 300, 40}) {
    ASSERT_TRUE(write_snapshot(files, "s", {Term(1), Index(index), ""}, MemoryEngine()).is_ok());
  }
  ASSERT_TRUE(remove_old_snapshots(files, "s", 2).is_ok());
  EXPECT_THAT(*list_snapshots(files, "s"),
              ElementsAre(snapshot_path("s", Index(300), Term(1)), snapshot_path("s", Index(40), Term(1))));
}

// ---- transfer ---------------------------------------------------------------------------------------------

class SnapshotTransfer : public ::testing::Test {
 protected:
  SnapshotTransfer() {
    fill(engine_, 500);
    path_ = write_snapshot(files_, "s", kPoint, engine_)->path;
    reader_ = std::move(SnapshotReader::open(files_, path_)).value();
  }
  MemoryFileSystem files_;
  MemoryEngine engine_;
  std::string path_;
  std::unique_ptr<SnapshotReader> reader_;
};

TEST_F(SnapshotTransfer, PiecesMakeTheWholeAndRetriesChangeNothing) {
  EXPECT_EQ(reader_->point(), kPoint);
  auto receiver = std::move(SnapshotReceiver::begin(files_, "r", kPoint)).value();
  while (receiver->received() < reader_->bytes()) {
    const auto piece = reader_->read(receiver->received(), 10'007);
    ASSERT_TRUE(piece.is_ok());
    const uint64_t offset = receiver->received();
    ASSERT_TRUE(receiver->append(offset, piece->data.view()).is_ok());
    ASSERT_TRUE(receiver->append(offset, piece->data.view()).is_ok()) << "sent again";
    EXPECT_EQ(piece->last, receiver->received() == reader_->bytes());
  }
  EXPECT_EQ(reader_->read(reader_->bytes(), 1).status().code(), Code::kOutOfRange);
  const auto info = receiver->finish();
  ASSERT_TRUE(info.is_ok()) << info.status();
  EXPECT_EQ(files_.contents(info->path), files_.contents(path_));
  EXPECT_EQ(info->path, snapshot_path("r", Index(9), Term(2)));
}

TEST_F(SnapshotTransfer, AGapIsRefusedAndTellsWhereToGoOn) {
  auto receiver = std::move(SnapshotReceiver::begin(files_, "r", kPoint)).value();
  ASSERT_TRUE(receiver->append(0, "abc").is_ok());
  EXPECT_EQ(receiver->append(5, "x").code(), Code::kOutOfRange);
  ASSERT_TRUE(receiver->append(1, "bcdef").is_ok()) << "an overlap adds what is new";
  EXPECT_EQ(receiver->received(), 6u);
}

TEST_F(SnapshotTransfer, DamagedOrForeignContentIsNeverInstalled) {
  const std::string whole = read_all(*reader_, 1 << 20);
  std::string damaged = whole;
  damaged[damaged.size() / 2] ^= 4;
  auto receiver = std::move(SnapshotReceiver::begin(files_, "r", kPoint)).value();
  ASSERT_TRUE(receiver->append(0, damaged).is_ok());
  EXPECT_EQ(receiver->finish().status().code(), Code::kDataLoss);
  EXPECT_EQ(receiver->received(), 0u) << "must start anew";
  ASSERT_TRUE(receiver->append(0, whole).is_ok());
  EXPECT_TRUE(receiver->finish().is_ok());

  receiver = std::move(SnapshotReceiver::begin(files_, "other", {Term(2), Index(10), ""})).value();
  ASSERT_TRUE(receiver->append(0, whole).is_ok());
  EXPECT_EQ(receiver->finish().status().code(), Code::kDataLoss);
  EXPECT_TRUE(list_snapshots(files_, "other")->empty());
}

TEST_F(SnapshotTransfer, PowerCutAtAnyStepLeavesAWholeReceivedFileOrNone) {
  const std::string whole = files_.contents(path_);
  const auto receive = [&](MemoryFileSystem& files) {
    auto receiver = SnapshotReceiver::begin(files, "r", kPoint);
    if (!receiver.is_ok()) return false;
    for (size_t at = 0; at < whole.size(); at += 20'000) {
      if (!(*receiver)->append(at, std::string_view(whole).substr(at, 20'000)).is_ok()) return false;
    }
    return (*receiver)->finish().is_ok();
  };
  bool finished = false;
  for (uint64_t step = 1; !finished; ++step) {
    for (uint64_t seed = 0; seed < 12; ++seed) {
      MemoryFileSystem files;
      files.halt_at(step);
      finished = receive(files);
      files.crash(step * 100 + seed);
      const auto paths = list_snapshots(files, "r");
      ASSERT_TRUE(paths.is_ok());
      if (finished) {
        ASSERT_EQ(paths->size(), 1u) << "what finish() reported stays";
      }
      for (const auto& path : *paths) ASSERT_TRUE(verify_snapshot(files, path).is_ok()) << step << '/' << seed;
    }
  }
}

// ---- installing -------------------------------------------------------------------------------------------

TEST(StateDirectory, BeginsEmptyAndIsFoundAgain) {
  MemoryFileSystem files;
  auto state = StateDirectory::open(files, "data");
  ASSERT_TRUE(state.is_ok()) << state.status();
  EXPECT_EQ(state->current().path, "data/state-0-0");
  EXPECT_EQ(state->current().point, SnapshotPoint());
  const auto path = state->prepare(kPoint);
  ASSERT_TRUE(path.is_ok());
  EXPECT_EQ(*path, "data/state-9-2");
  ASSERT_TRUE(state->switch_to(kPoint).is_ok());
  ASSERT_TRUE(*files.exists("data/state-0-0"));
  state = StateDirectory::open(files, "data");
  ASSERT_TRUE(state.is_ok()) << state.status();
  EXPECT_EQ(state->current().path, "data/state-9-2");
  EXPECT_EQ(state->current().point, kPoint);
  EXPECT_FALSE(*files.exists("data/state-0-0")) << "left-overs go";
  EXPECT_EQ(state->prepare(kPoint).status().code(), Code::kAlreadyExists);
}

TEST(StateDirectory, DamagedPointerAndMissingStateAreDataLoss) {
  MemoryFileSystem files;
  ASSERT_TRUE(StateDirectory::open(files, "data").is_ok());
  const std::string pointer = files.contents("data/CURRENT_STATE");
  for (size_t bit = 0; bit < pointer.size() * 8; ++bit) {
    std::string damaged = pointer;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    files.set_contents("data/CURRENT_STATE", damaged);
    ASSERT_FALSE(StateDirectory::open(files, "data").is_ok()) << bit;
  }
  files.set_contents("data/CURRENT_STATE", pointer);
  ASSERT_TRUE(files.remove_all("data/state-0-0").is_ok());
  const auto state = StateDirectory::open(files, "data");
  EXPECT_EQ(state.status().code(), Code::kDataLoss);
  EXPECT_THAT(state.status().message(), HasSubstr("state-0-0"));
}

/// A node's disk, with its engine's rows in one file: what a real engine's directory is, as far as a crash
/// can see.
class Node {
 public:
  explicit Node(MemoryFileSystem& files) : files_(files) {}

  /// The start of a node, as its shell does it. False = the power went.
  bool start() {
    auto state = StateDirectory::open(files_, "data");
    if (!state.is_ok()) return lost(state.status());
    state_ = std::move(state).value();
    auto log = *Wal::exists(files_, "data/wal")
                   ? Wal::open(files_, "data/wal", kTestDirectory, small_segments())
                   : Wal::create(files_, "data/wal", kTestDirectory, small_segments());
    if (!log.is_ok()) return lost(log.status());
    log_ = std::move(log).value();
    return follow();
  }

  bool install(const std::string& snapshot) {
    auto receiver = SnapshotReceiver::begin(files_, state_->snapshots(), point());
    if (!receiver.is_ok()) return false;
    const size_t half = snapshot.size() / 2;
    if (!(*receiver)->append(0, snapshot.substr(0, half)).is_ok()) return false;
    if (!(*receiver)->append(half, snapshot.substr(half)).is_ok()) return false;
    const auto info = (*receiver)->finish();
    if (!info.is_ok()) return false;
    const auto path = state_->prepare(point());
    if (!path.is_ok() || !write_engine(*path, info->path)) return false;
    if (!state_->switch_to(point()).is_ok()) return false;
    return follow() && state_->remove_others().is_ok();
  }

  static SnapshotPoint point() { return {Term(3), Index(50), "who decides"}; }
  std::string engine_rows() {
    const std::string path = state_->current().path + "/rows";
    return *files_.exists(path) ? files_.contents(path) : "";
  }
  [[nodiscard]] const Wal::Recovered& log() const { return log_; }
  [[nodiscard]] const SnapshotPoint& installed() const { return state_->current().point; }

 private:
  bool lost(const Status& status) {
    EXPECT_EQ(status.code(), Code::kUnavailable) << status;
    return false;
  }
  bool follow() {
    const SnapshotPoint& point = state_->current().point;
    if (point.index <= log_.wal->start().index) return true;
    return log_.wal->restart_at(start_meta(point.term.value(), point.index.value())).is_ok();
  }
  bool write_engine(const std::string& directory, const std::string& snapshot) {
    std::string rows;
    const auto read = read_snapshot(files_, snapshot, [&](std::string_view key, std::string_view value) {
      rows += std::string(key) + "=" + std::string(value) + ";";
      return Status::ok();
    });
    if (!read.is_ok()) return false;
    auto file = files_.open(directory + "/rows", FileSystem::Mode::kCreateOrOpen);
    return file.is_ok() && (*file)->write_at(0, rows).is_ok() && (*file)->sync().is_ok() &&
           files_.sync_directory(directory).is_ok();
  }

  MemoryFileSystem& files_;
  std::optional<StateDirectory> state_;
  Wal::Recovered log_;
};

TEST(StateDirectory, PowerCutAtAnyStepOfAnInstallLeavesTheOldOrTheNewStateWithALogThatFits) {
  MemoryFileSystem source;
  MemoryEngine engine;
  WriteBatch batch;
  for (int i = 0; i < 20; ++i) batch.put("k" + std::to_string(i), std::string(100, 'v'));
  ASSERT_TRUE(engine.write(batch).is_ok());
  const std::string path = write_snapshot(source, "s", Node::point(), engine)->path;
  const std::string snapshot = source.contents(path);

  uint64_t old_states = 0;
  uint64_t new_states = 0;
  bool finished = false;
  for (uint64_t step = 1; !finished; ++step) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      MemoryFileSystem files;
      {
        Node node(files);
        ASSERT_TRUE(node.start());
        ASSERT_TRUE(node.log().wal->append(std::vector<raft::Write>{entries_write(1, 1, 4)}).is_ok());
        ASSERT_TRUE(node.log().wal->sync().is_ok());
        files.halt_at(step);
        finished = node.install(snapshot);
      }
      files.crash(step * 100 + seed);
      Node node(files);
      if (!finished) {  // and once more while it starts
        files.halt_at(1 + seed % 5);
        node.start();
        files.crash(step + seed);
      }
      ASSERT_TRUE(node.start()) << step << '/' << seed;
      if (node.installed() == Node::point()) {
        ++new_states;
        EXPECT_EQ(node.log().wal->start().index, Index(50));
        EXPECT_EQ(node.log().wal->last_index(), Index(50));
        EXPECT_THAT(node.engine_rows(), HasSubstr("k7=vvv"));
      } else {
        ++old_states;
        ASSERT_FALSE(finished);
        EXPECT_EQ(node.installed(), SnapshotPoint());
        EXPECT_EQ(node.log().wal->last_index(), Index(4)) << "the log of the old state is untouched";
        ASSERT_TRUE(node.install(snapshot)) << "and the install can be done again";
        EXPECT_EQ(node.installed(), Node::point());
      }
    }
  }
  EXPECT_GT(old_states, 10u);
  EXPECT_GT(new_states, 10u);
}

}  // namespace
}  // namespace rallypoint::storage
