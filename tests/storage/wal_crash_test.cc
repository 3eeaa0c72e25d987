// The log under power cuts at every single step, under every flipped bit, and on failing disks. The promise
// each time: what was acknowledged is there, what was not is there or not but never changed, and nothing is
// invented.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "storage/fs/memory_file_system.h"
#include "storage/wal/wal.h"
#include "tests/storage/wal_support.h"

namespace rallypoint::storage {
namespace {

/// Follows a log through its life and knows which states a crash may leave.
struct Witness {
  LogModel acknowledged;           ///< durable for sure
  std::vector<LogModel> possible;  ///< what may have become durable since

  void begin(const std::vector<raft::Write>& writes) {
    const LogModel& from = possible.empty() ? acknowledged : possible.back();
    for (LogModel& state : from.states_after(writes)) possible.push_back(std::move(state));
  }
  void begin_restart(const raft::SnapshotMeta& meta) {
    LogModel after = possible.empty() ? acknowledged : possible.back();
    after.start_at(meta);
    possible.push_back(std::move(after));
  }
  void acknowledge() {
    if (!possible.empty()) acknowledged = possible.back();
    possible.clear();
  }
  [[nodiscard]] bool allows(const LogModel& found) const {
    if (found == acknowledged) return true;
    return std::find(possible.begin(), possible.end(), found) != possible.end();
  }
};

/// A life with everything in it: batches, cuts, hard states, segment changes, compaction, release, restart.
/// Stops at the first error. True = it came to the end.
bool live(MemoryFileSystem& files, Witness& witness, bool fresh) {
  auto started = fresh ? Wal::create(files, "wal", kTestDirectory, small_segments())
                       : Wal::open(files, "wal", kTestDirectory, small_segments());
  if (!started.is_ok()) return false;
  Wal& wal = *started->wal;
  const auto write = [&](const std::vector<raft::Write>& writes) {
    witness.begin(writes);
    return wal.append(writes).is_ok();
  };
  const auto sync = [&] {
    if (!wal.sync().is_ok()) return false;
    witness.acknowledge();
    return true;
  };
  const auto put = [&](const std::vector<raft::Write>& writes) { return write(writes) && sync(); };
  const uint64_t base = started->wal->last_index().value();
  const uint64_t term = started->hard_state.term.value() + 1;
  if (!put({hard_state_write(term, 1, base)})) return false;
  for (uint64_t i = 1; i <= 24; i += 4) {
    if (!put({entries_write(term, base + i, 4, std::string(90, 'e'))})) return false;
  }
  if (!wal.mark().is_ok()) return false;
  if (!write({entries_write(term, base + 25, 2, std::string(600, 'u'))}))
    return false;  // two writes, one sync
  if (!write({hard_state_write(term, 1, base + 20), entries_write(term, base + 27, 3)})) return false;
  if (!sync()) return false;
  for (int i = 0; i < 3; ++i) {
    if (!wal.prepare_next().is_ok()) return false;
  }
  if (!put({hard_state_write(term + 1, 0, base + 20), entries_write(term + 1, base + 23, 5)})) return false;
  if (!put({raft::Write{.compact_to = start_meta(term, base + 18)}})) return false;
  if (!wal.release(Index(base + 18)).is_ok()) return false;
  for (uint64_t i = 28; i <= 60; i += 8) {
    if (!put({entries_write(term + 1, base + i, 8, std::string(120, 'z'))})) return false;
    if (!wal.prepare_next().is_ok()) return false;
  }
  const auto installed = start_meta(term + 2, base + 100, "installed");
  witness.begin_restart(installed);
  if (!wal.restart_at(installed).is_ok()) return false;
  witness.acknowledge();
  if (!wal.release(Index(base + 100)).is_ok()) return false;
  return put({hard_state_write(term + 2, 3, base + 100), entries_write(term + 2, base + 101, 3)});
}

class WalCrash : public ::testing::TestWithParam<size_t /*sector bytes*/> {};

TEST_P(WalCrash, PowerCutAtAnyStepLosesNothingAcknowledgedAndInventsNothing) {
  uint64_t repaired = 0;
  uint64_t step = 1;
  for (bool finished = false; !finished; ++step) {
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      MemoryFileSystem files(GetParam());
      Witness witness;
      files.halt_at(step);
      finished = live(files, witness, /*fresh=*/true);
      if (finished) break;
      files.crash(seed * 1000 + step);
      auto opened = Wal::open(files, "wal", kTestDirectory, small_segments());
      if (!opened.is_ok() && witness.acknowledged == LogModel() && witness.possible.empty()) {
        // create() did not come to its end; it must succeed when it is tried again.
        ASSERT_FALSE(*Wal::exists(files, "wal")) << opened.status();
        opened = Wal::create(files, "wal", kTestDirectory, small_segments());
      }
      ASSERT_TRUE(opened.is_ok()) << "step " << step << " seed " << seed << ": " << opened.status();
      ASSERT_TRUE(witness.allows(model_of(*opened))) << "step " << step << " seed " << seed;
      repaired += opened->torn_tail_repaired;

      // What recovery reported is a promise as well: it survives a cut right after, and the log can go on.
      witness.acknowledged = model_of(*opened);
      witness.possible.clear();
      files.crash(seed);
      ASSERT_TRUE(live(files, witness, /*fresh=*/false)) << "step " << step << " seed " << seed;
      files.crash(seed + 1);
      auto again = Wal::open(files, "wal", kTestDirectory, small_segments());
      ASSERT_TRUE(again.is_ok()) << again.status();
      ASSERT_EQ(model_of(*again), witness.acknowledged);
    }
  }
  EXPECT_GT(step, 60u);
  EXPECT_GT(repaired, 20u) << "the test must have met torn tails";
}

TEST_P(WalCrash, PowerCutDuringRecoveryIsNoWorse) {
  for (uint64_t first = 3; first < 60; first += 2) {
    bool finished = false;
    for (uint64_t second = 1; !finished; ++second) {
      MemoryFileSystem files(GetParam());
      Witness witness;
      files.halt_at(first);
      ASSERT_FALSE(live(files, witness, /*fresh=*/true));
      files.crash(first * 31 + second);
      if (!*Wal::exists(files, "wal")) break;
      files.halt_at(second);
      auto opened = Wal::open(files, "wal", kTestDirectory, small_segments());
      finished = opened.is_ok();
      files.crash(second * 17 + first);
      opened = Wal::open(files, "wal", kTestDirectory, small_segments());
      ASSERT_TRUE(opened.is_ok()) << first << '/' << second << ": " << opened.status();
      ASSERT_TRUE(witness.allows(model_of(*opened))) << first << '/' << second;
    }
  }
}

TEST_P(WalCrash, KilledProcessKeepsWhatItWroteAndRecoveryMakesItDurable) {
  for (uint64_t step = 1; step < 60; ++step) {
    MemoryFileSystem files(GetParam());
    Witness witness;
    files.fail_operation(step, Status::internal("killed here"));
    ASSERT_FALSE(live(files, witness, /*fresh=*/true));
    files.kill_process();
    if (!*Wal::exists(files, "wal")) continue;  // within create()
    auto opened = Wal::open(files, "wal", kTestDirectory, small_segments());
    ASSERT_TRUE(opened.is_ok()) << step << ": " << opened.status();
    const LogModel reported = model_of(*opened);
    ASSERT_TRUE(witness.allows(reported)) << step;
    files.crash(step);
    opened = Wal::open(files, "wal", kTestDirectory, small_segments());
    ASSERT_TRUE(opened.is_ok()) << step << ": " << opened.status();
    ASSERT_EQ(model_of(*opened), reported) << step;
  }
}

TEST_P(WalCrash, AnyFailedOperationStopsTheLogOrIsHarmless) {
  bool finished = false;
  for (uint64_t step = 1; !finished; ++step) {
    MemoryFileSystem files(GetParam());
    Witness witness;
    files.fail_operation(step, Status::data_loss("the disk fails"));
    finished = live(files, witness, /*fresh=*/true);
    files.crash(step);
    auto opened = Wal::open(files, "wal", kTestDirectory, small_segments());
    if (!opened.is_ok() && witness.acknowledged == LogModel() && witness.possible.empty()) continue;
    ASSERT_TRUE(opened.is_ok()) << step << ": " << opened.status();
    ASSERT_TRUE(witness.allows(model_of(*opened))) << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Sectors, WalCrash, ::testing::Values(512, 4096));

// ---- damage -----------------------------------------------------------------------------------------------

/// A log over three segments; the states after each append are what a cut tail may leave.
struct DamagedLog {
  MemoryFileSystem files;
  std::vector<LogModel> prefixes;
  std::vector<std::string> paths;

  DamagedLog() {
    auto log = std::move(Wal::create(files, "wal", kTestDirectory, small_segments())).value();
    LogModel model;
    prefixes.push_back(model);
    const auto put = [&](const std::vector<raft::Write>& writes) {
      RALLY_CHECK(log.wal->append(writes).is_ok() && log.wal->sync().is_ok());
      for (LogModel& state : model.states_after(writes)) prefixes.push_back(std::move(state));
      model = prefixes.back();
    };
    put({hard_state_write(1, 2, 0), entries_write(1, 1, 3)});
    put({entries_write(1, 4, 4, std::string(200, 'a'))});
    put({raft::Write{.compact_to = start_meta(1, 2)}});
    put({hard_state_write(2, 1, 4), entries_write(2, 6, 3, std::string(150, 'b'))});
    put({entries_write(2, 9, 2, "short")});
    put({hard_state_write(2, 1, 9)});
    const std::vector<std::string> names = *files.list("wal");
    for (const auto& name : names) paths.push_back("wal/" + name);
    RALLY_CHECK(paths.size() == 2, "segments", paths.size());
  }
};

TEST(WalDamage, EveryFlippedBitIsDetectedOrCutAsATornTail) {
  DamagedLog log;
  uint64_t detected = 0;
  uint64_t cut = 0;
  for (const std::string& path : log.paths) {
    const std::string whole = log.files.contents(path);
    const bool last = path == log.paths.back();
    for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
      std::string damaged = whole;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      log.files.set_contents(path, damaged);
      {
        auto opened = Wal::open(log.files, "wal", kTestDirectory, small_segments());
        if (!opened.is_ok()) {
          ++detected;
        } else {
          ASSERT_TRUE(last) << "bit " << bit << " of " << path << " went unnoticed";
          ASSERT_TRUE(opened->torn_tail_repaired) << "bit " << bit;
          const LogModel found = model_of(*opened);
          ASSERT_NE(std::find(log.prefixes.begin(), log.prefixes.end(), found), log.prefixes.end())
              << "bit " << bit;
          ++cut;
        }
      }
      log.files.set_contents(path, whole);
    }
  }
  EXPECT_GT(detected, 1000u);
  EXPECT_GT(cut, 1000u);
}

TEST(WalDamage, EveryBlankedSectorIsDetectedOrCutAsATornTail) {
  DamagedLog log;
  for (const std::string& path : log.paths) {
    const std::string whole = log.files.contents(path);
    for (size_t sector = 0; sector < whole.size(); sector += 128) {
      std::string damaged = whole;
      damaged.replace(sector, 128, 128, '\0');
      if (damaged == whole) continue;
      log.files.set_contents(path, damaged);
      auto opened = Wal::open(log.files, "wal", kTestDirectory, small_segments());
      if (opened.is_ok()) {
        const LogModel found = model_of(*opened);
        ASSERT_NE(std::find(log.prefixes.begin(), log.prefixes.end(), found), log.prefixes.end()) << sector;
        ASSERT_EQ(path, log.paths.back()) << sector;
      }
      opened = Status::internal("closed");
      log.files.set_contents(path, whole);
    }
  }
}

TEST(WalDamage, FramesOfAnotherPlaceOrLogAreNotTaken) {
  // The last frame once more, right behind itself: valid bytes, but not of that offset.
  MemoryFileSystem files;
  auto log = std::move(Wal::create(files, "wal", kTestDirectory, WalOptions())).value();
  ASSERT_TRUE(log.wal->append(std::vector<raft::Write>{entries_write(1, 1, 2)}).is_ok());
  ASSERT_TRUE(log.wal->sync().is_ok());
  const std::string path = "wal/" + segment_name(1);
  std::string data = files.contents(path);
  const size_t frame = data.rfind("RWF1");
  size_t end = data.size();
  while (data[end - 1] == 0) --end;
  end = padded(end);
  data.replace(end, end - frame, data.substr(frame, end - frame));
  files.set_contents(path, data);
  auto opened = Wal::open(files, "wal", kTestDirectory, WalOptions());
  ASSERT_TRUE(opened.is_ok()) << opened.status();
  EXPECT_TRUE(opened->torn_tail_repaired);
  EXPECT_EQ(opened->entries.size(), 2u);
}

}  // namespace
}  // namespace rallypoint::storage
