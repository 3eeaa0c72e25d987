#include "storage/wal/wal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/fs/memory_file_system.h"
#include "tests/storage/wal_support.h"

namespace rallypoint::storage {
namespace {

using ::testing::HasSubstr;

class WalTest : public ::testing::Test {
 protected:
  Wal::Recovered create(WalOptions options = small_segments()) {
    auto created = Wal::create(files_, "wal", kTestDirectory, options);
    RALLY_CHECK(created.is_ok(), "status", created.status());
    return std::move(created).value();
  }
  Result<Wal::Recovered> open(DirectoryId id = kTestDirectory) {
    return Wal::open(files_, "wal", id, small_segments());
  }
  Wal::Recovered reopen() {
    auto opened = open();
    RALLY_CHECK(opened.is_ok(), "status", opened.status());
    return std::move(opened).value();
  }
  static Status append(Wal& wal, const std::vector<raft::Write>& writes) { return wal.append(writes); }
  /// Appends and syncs, here and in the model.
  void put(Wal& wal, const std::vector<raft::Write>& writes) {
    const Status appended = wal.append(writes);
    ASSERT_TRUE(appended.is_ok()) << appended;
    ASSERT_TRUE(wal.sync().is_ok());
    model_.take(writes);
  }
  std::vector<std::string> segments() { return *files_.list("wal"); }

  MemoryFileSystem files_;
  LogModel model_;
};

TEST_F(WalTest, NewLogIsEmptyAndStaysSo) {
  auto created = create();
  EXPECT_EQ(model_of(created), LogModel());
  EXPECT_EQ(model_of(reopen()), LogModel());
}

TEST_F(WalTest, KeepsTheBootstrapMembership) {
  const auto membership = start_meta(0, 0).membership;
  auto created = Wal::create(files_, "wal", kTestDirectory, small_segments(), membership);
  ASSERT_TRUE(created.is_ok());
  EXPECT_EQ(reopen().start.membership, membership);
}

TEST_F(WalTest, GivesBackWhatWasAppended) {
  auto log = create();
  put(*log.wal, {hard_state_write(1, 2, 0), entries_write(1, 1, 3)});
  raft::Write both = entries_write(2, 4, 1, std::string(700, 'x'));
  both.hard_state = hard_state(2, 0, 3);
  both.entries[0].kind = raft::EntryKind::kMembership;
  put(*log.wal, {both});
  put(*log.wal, {raft::Write{.entries = {make_entry(2, 5, "")}}});
  auto opened = reopen();
  EXPECT_EQ(model_of(opened), model_);
  EXPECT_FALSE(opened.torn_tail_repaired);
  EXPECT_EQ(opened.wal->last_index(), Index(5));
}

TEST_F(WalTest, EntryAtOrBelowTheLastIndexCutsTheLogThere) {
  auto log = create();
  put(*log.wal, {entries_write(1, 1, 5)});
  put(*log.wal, {entries_write(2, 3, 1)});
  EXPECT_EQ(log.wal->last_index(), Index(3));
  put(*log.wal, {entries_write(3, 4, 2), entries_write(4, 5, 1)});
  const auto opened = reopen();
  EXPECT_EQ(model_of(opened), model_);
  EXPECT_EQ(opened.entries.size(), 5u);
}

TEST_F(WalTest, GoesOnAcrossSegmentsAndRestarts) {
  auto log = create();
  uint64_t next = 1;
  for (int life = 0; life < 6; ++life) {
    for (int i = 0; i < 10; ++i, next += 5) {
      put(*log.wal,
          {entries_write(life + 1, next, 5, std::string(60, 'a')), hard_state_write(life + 1, 1, next)});
    }
    if (life % 2 == 0) {
      while (*log.wal->prepare_next()) {
      }
    }
    log = reopen();
    ASSERT_EQ(model_of(log), model_);
  }
  EXPECT_GT(log.wal->segment_count(), 5u);
}

TEST_F(WalTest, TakesAnEntryLargerThanASegment) {
  auto log = create();
  put(*log.wal,
      {raft::Write{.entries = {make_entry(1, 1, std::string(20'000, 'L')), make_entry(1, 2, "after")}}});
  put(*log.wal, {entries_write(1, 3, 100)});
  EXPECT_EQ(model_of(reopen()), model_);
}

TEST_F(WalTest, OneAppendIsOneWriteAndOneSync) {
  auto log = create(WalOptions());
  const uint64_t operations = files_.operations();
  const uint64_t syncs = files_.syncs();
  put(*log.wal, {entries_write(1, 1, 100), hard_state_write(1, 1, 1), entries_write(1, 101, 100)});
  EXPECT_EQ(files_.operations() - operations, 2u);
  EXPECT_EQ(files_.syncs() - syncs, 1u);
  ASSERT_TRUE(log.wal->sync().is_ok());
  EXPECT_EQ(files_.syncs() - syncs, 1u) << "nothing waits, so there is nothing to sync";
}

TEST_F(WalTest, CompactionMovesTheStartAndReleaseDeletesWholeSegmentsBelow) {
  auto log = create();
  for (uint64_t i = 1; i <= 200; i += 10) put(*log.wal, {entries_write(1, i, 10, std::string(100, 'c'))});
  const size_t before = segments().size();
  ASSERT_GT(before, 4u);
  ASSERT_TRUE(log.wal->release(Index(150)).is_ok());
  EXPECT_EQ(segments().size(), before) << "the log does not start there yet";
  put(*log.wal, {raft::Write{.compact_to = start_meta(1, 120)}, hard_state_write(3, 2, 160)});
  ASSERT_TRUE(log.wal->release(Index(60)).is_ok());
  const size_t between = segments().size();
  EXPECT_LT(between, before);
  ASSERT_TRUE(log.wal->release(Index(1000)).is_ok());
  EXPECT_LT(segments().size(), between);
  EXPECT_EQ(model_of(reopen()), model_);
  EXPECT_EQ(reopen().start, start_meta(1, 120));
}

TEST_F(WalTest, ReleaseTrustsNoStartThatIsNotDurable) {
  auto log = create();
  for (uint64_t i = 1; i <= 100; i += 10) put(*log.wal, {entries_write(1, i, 10, std::string(100, 'c'))});
  const size_t before = segments().size();
  ASSERT_TRUE(append(*log.wal, {raft::Write{.compact_to = start_meta(1, 90)}}).is_ok());
  ASSERT_TRUE(log.wal->release(Index(90)).is_ok());
  EXPECT_EQ(segments().size(), before);
  ASSERT_TRUE(log.wal->sync().is_ok());
  ASSERT_TRUE(log.wal->release(Index(90)).is_ok());
  EXPECT_LT(segments().size(), before);
}

TEST_F(WalTest, ReleaseKeepsTheEndOfTheLogUntilTheNextSegmentHasADurableByte) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    files_ = MemoryFileSystem();
    model_ = LogModel();
    auto log = create();
    put(*log.wal, {entries_write(1, 1, 5), raft::Write{.compact_to = start_meta(1, 5)}});
    const size_t segments_before = log.wal->segment_count();
    ASSERT_TRUE(
        append(*log.wal, {raft::Write{.entries = {make_entry(1, 6, std::string(2000, 'n'))}}}).is_ok());
    ASSERT_GT(log.wal->segment_count(), segments_before);
    ASSERT_TRUE(log.wal->release(Index(5)).is_ok());
    files_.crash(seed);
    auto opened = open();
    ASSERT_TRUE(opened.is_ok()) << opened.status() << " seed " << seed;
    EXPECT_EQ(opened->start, start_meta(1, 5));
  }
}

TEST_F(WalTest, OverwrittenEntriesInReleasedSegmentsDoNotHinderRecovery) {
  auto log = create();
  for (uint64_t i = 1; i <= 60; i += 10) put(*log.wal, {entries_write(1, i, 10, std::string(100, 'a'))});
  for (uint64_t i = 31; i <= 90; i += 10) put(*log.wal, {entries_write(2, i, 10, std::string(100, 'b'))});
  put(*log.wal, {raft::Write{.compact_to = start_meta(2, 70)}});
  ASSERT_TRUE(log.wal->release(Index(70)).is_ok());
  EXPECT_EQ(model_of(reopen()), model_);
}

TEST_F(WalTest, RestartDropsEverythingUnlessTheLogHoldsThatEntry) {
  auto log = create();
  put(*log.wal, {hard_state_write(2, 1, 4), entries_write(1, 1, 5), entries_write(2, 6, 5)});
  ASSERT_TRUE(log.wal->restart_at(start_meta(2, 8)).is_ok());
  model_.start_at(start_meta(2, 8));
  EXPECT_EQ(model_.entries.size(), 2u);
  EXPECT_EQ(model_of(reopen()), model_);
  ASSERT_TRUE(log.wal->restart_at(start_meta(1, 3)).is_ok()) << "already past it";
  EXPECT_EQ(log.wal->start(), start_meta(2, 8));
  ASSERT_TRUE(log.wal->restart_at(start_meta(3, 9)).is_ok()) << "another term: not our entry";
  model_.start_at(start_meta(3, 9));
  EXPECT_TRUE(model_.entries.empty());
  EXPECT_EQ(model_of(reopen()), model_);
  ASSERT_TRUE(log.wal->restart_at(start_meta(4, 1000)).is_ok());
  put(*log.wal, {entries_write(4, 1001, 2)});
  model_.start_at(start_meta(4, 1000));
  model_.put(make_entry(4, 1001, "p1001"));
  model_.put(make_entry(4, 1002, "p1002"));
  EXPECT_EQ(model_of(reopen()), model_);
}

TEST_F(WalTest, RefusesWritesThatContradictTheLogAndWritesNothing) {
  auto log = create();
  put(*log.wal, {hard_state_write(3, 1, 0), entries_write(3, 1, 3)});
  const uint64_t operations = files_.operations();
  const auto refused = [&](const raft::Write& write) {
    return append(*log.wal, {write}).code() == Code::kInvalidArgument;
  };
  EXPECT_TRUE(refused(entries_write(3, 5, 1))) << "gap";
  EXPECT_TRUE(refused(entries_write(2, 4, 1))) << "term goes back";
  EXPECT_TRUE(refused(hard_state_write(2, 1, 0))) << "term goes back";
  EXPECT_TRUE(refused(hard_state_write(3, 2, 0))) << "second vote";
  EXPECT_TRUE(refused(raft::Write{.compact_to = start_meta(3, 9)})) << "not held";
  EXPECT_TRUE(refused(raft::Write{.compact_to = start_meta(2, 2)})) << "another entry";
  EXPECT_EQ(files_.operations(), operations);
  put(*log.wal, {entries_write(3, 4, 1)});
  EXPECT_EQ(model_of(reopen()), model_);
}

TEST_F(WalTest, RefusesAForeignDirectoryIdByName) {
  auto log = create();
  const auto opened = open(DirectoryId(77));
  EXPECT_EQ(opened.status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(opened.status().message(), HasSubstr("belongs to directory id 43981"));
}

TEST_F(WalTest, RefusesAnotherFormatVersionByName) {
  create();
  std::string data = files_.contents("wal/" + segment_name(1));
  data[3] = '7';
  files_.set_contents("wal/" + segment_name(1), data);
  const auto opened = open();
  EXPECT_EQ(opened.status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(opened.status().message(), HasSubstr("format version '7'"));
}

TEST_F(WalTest, NamesAMissingSegment) {
  auto log = create();
  for (uint64_t i = 1; i <= 100; i += 10) put(*log.wal, {entries_write(1, i, 10, std::string(100, 'm'))});
  ASSERT_TRUE(files_.remove("wal/" + segment_name(2)).is_ok());
  EXPECT_EQ(open().status().code(), Code::kDataLoss);
  EXPECT_THAT(open().status().message(), HasSubstr(segment_name(2) + " is missing"));
}

TEST_F(WalTest, NoticesThatTheFirstSegmentsAreGone) {
  auto log = create();
  for (uint64_t i = 1; i <= 100; i += 10) put(*log.wal, {entries_write(1, i, 10, std::string(100, 'm'))});
  ASSERT_TRUE(files_.remove("wal/" + segment_name(1)).is_ok());
  EXPECT_EQ(open().status().code(), Code::kDataLoss);
  EXPECT_THAT(open().status().message(), HasSubstr("older segments are missing"));
}

TEST_F(WalTest, CreateRefusesAnExistingLog) {
  create();
  EXPECT_EQ(Wal::create(files_, "wal", kTestDirectory).status().code(), Code::kAlreadyExists);
  EXPECT_TRUE(*Wal::exists(files_, "wal"));
  EXPECT_FALSE(*Wal::exists(files_, "elsewhere"));
}

TEST_F(WalTest, FailedSyncIsFinal) {
  auto log = create();
  put(*log.wal, {entries_write(1, 1, 2)});
  ASSERT_TRUE(append(*log.wal, {entries_write(1, 3, 2)}).is_ok());
  files_.fail_syncs(Status::data_loss("EIO"));
  EXPECT_EQ(log.wal->sync().code(), Code::kDataLoss);
  files_.fail_syncs(Status::ok());
  EXPECT_EQ(log.wal->sync().code(), Code::kDataLoss) << "a second try would succeed and prove nothing";
  EXPECT_EQ(append(*log.wal, {entries_write(1, 5, 1)}).code(), Code::kDataLoss);
  EXPECT_EQ(log.wal->restart_at(start_meta(1, 50)).code(), Code::kDataLoss);
  EXPECT_EQ(log.wal->release(Index(1)).code(), Code::kDataLoss);
  EXPECT_FALSE(log.wal->failure().is_ok());
  files_.crash(1);
  EXPECT_EQ(model_of(reopen()), model_) << "what was acknowledged before is there";
}

TEST_F(WalTest, FullDiskIsFinalAndLosesNothingAcknowledged) {
  auto log = create();
  files_.set_capacity(6000);
  Status status;
  for (uint64_t i = 1; status.is_ok() && i < 1000; ++i) {
    const std::vector<raft::Write> writes{entries_write(1, i, 1, std::string(100, 'f'))};
    status = log.wal->append(writes);
    if (status.is_ok()) status = log.wal->sync();
    if (status.is_ok()) model_.take(writes);
  }
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_EQ(log.wal->sync().code(), Code::kResourceExhausted);
  EXPECT_GT(model_.entries.size(), 10u);
  files_.crash(3);
  files_.set_capacity(std::nullopt);
  log = reopen();
  ASSERT_GE(log.entries.size(), model_.entries.size());
  log.entries.resize(model_.entries.size());
  EXPECT_EQ(model_of(log), model_);
}

TEST_F(WalTest, NoRoomForTheNextSegmentIsNoReasonToStop) {
  auto log = create();
  files_.set_capacity(files_.used_bytes());
  EXPECT_EQ(log.wal->prepare_next().status().code(), Code::kResourceExhausted);
  put(*log.wal, {entries_write(1, 1, 2)});
  files_.set_capacity(std::nullopt);
  while (*log.wal->prepare_next()) {
  }
  EXPECT_TRUE(files_.exists("wal/" + segment_name(2)).value());
}

TEST_F(WalTest, MarkIsWrittenOnceAndTellsLaterDamageFromATornTail) {
  auto log = create();
  put(*log.wal, {entries_write(1, 1, 3)});
  const std::string path = "wal/" + segment_name(1);
  const std::string unmarked = files_.contents(path);
  ASSERT_TRUE(log.wal->mark().is_ok());
  const std::string marked = files_.contents(path);
  EXPECT_NE(marked, unmarked);
  ASSERT_TRUE(log.wal->mark().is_ok());
  EXPECT_EQ(log.wal->unsynced_bytes(), 0u) << "a mark is not worth a sync";
  EXPECT_EQ(files_.contents(path), marked);

  const size_t in_last_entry = unmarked.find("p3");
  ASSERT_NE(in_last_entry, std::string::npos);
  std::string damaged = unmarked;
  damaged[in_last_entry] ^= 1;
  files_.set_contents(path, damaged);
  auto opened = open();
  ASSERT_TRUE(opened.is_ok()) << "nothing says that this was ever durable";
  EXPECT_TRUE(opened->torn_tail_repaired);
  EXPECT_FALSE(reopen().torn_tail_repaired) << "nothing of the torn tail is left behind the end";

  damaged = marked;
  damaged[in_last_entry] ^= 1;
  files_.set_contents(path, damaged);
  EXPECT_EQ(open().status().code(), Code::kDataLoss);
  EXPECT_THAT(open().status().message(), HasSubstr(path + " is damaged at offset"));
  EXPECT_THAT(open().status().message(), HasSubstr("move the data directory away"));
}

TEST_F(WalTest, RandomHistoriesMatchTheModel) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    MemoryFileSystem files;
    Random random(seed);
    LogModel model;
    auto log = std::move(Wal::create(files, "wal", kTestDirectory, small_segments())).value();
    uint64_t term = 1;
    for (int step = 0; step < 150; ++step) {
      std::vector<raft::Write> writes(random.between(1, 3));
      LogModel ahead = model;
      for (raft::Write& write : writes) {
        if (random.chance(1, 3)) {
          if (random.chance(1, 4)) ++term;
          const bool same = ahead.hard_state.term == Term(term);
          write.hard_state = hard_state(term, same ? ahead.hard_state.vote.value() : random.below(3), step);
        }
        if (random.chance(3, 4)) {
          uint64_t first = ahead.last().value() + 1;
          if (random.chance(1, 10) && first > ahead.start.index.value() + 2) {
            first = random.between(ahead.start.index.value() + 1, first - 1);
            ++term;
          }
          write.entries =
              entries_write(term, first, random.between(1, 4), std::string(random.below(400), 'r')).entries;
        }
        ahead.take({raft::Write{.hard_state = write.hard_state, .entries = write.entries}});
        if (random.chance(1, 12) && !ahead.entries.empty()) {
          const auto& cut = ahead.entries[random.below(ahead.entries.size())];
          write.compact_to = start_meta(cut.term.value(), cut.index.value(), std::to_string(step));
          ahead.start_at(*write.compact_to);
        }
      }
      const Status appended = log.wal->append(writes);
      ASSERT_TRUE(appended.is_ok()) << appended << " seed " << seed;
      ASSERT_TRUE(log.wal->sync().is_ok());
      model = ahead;
      if (random.chance(1, 40)) {
        const auto meta = start_meta(term, model.last().value() + random.between(1, 5));
        ASSERT_TRUE(log.wal->restart_at(meta).is_ok());
        model.start_at(meta);
      }
      if (random.chance(1, 6)) {
        ASSERT_TRUE(log.wal->release(Index(random.below(500))).is_ok());
      }
      if (random.chance(1, 4)) {
        ASSERT_TRUE(log.wal->mark().is_ok());
      }
      if (random.chance(1, 3)) {
        ASSERT_TRUE(log.wal->prepare_next().is_ok());
      }
      if (random.chance(1, 10)) {
        if (random.chance(1, 2)) {
          files.crash(random.next());
        } else {
          files.kill_process();
        }
        auto opened = Wal::open(files, "wal", kTestDirectory, small_segments());
        ASSERT_TRUE(opened.is_ok()) << opened.status() << " seed " << seed << " step " << step;
        log = std::move(opened).value();
        ASSERT_EQ(model_of(log), model) << "seed " << seed << " step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace rallypoint::storage
