// server/log_loop.h: many writes become one sync, in order; after an error nothing is told durable.
#include "server/log_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "storage/fs/memory_file_system.h"
#include "tests/storage/wal_support.h"

namespace rallypoint::server {
namespace {

using storage::entries_write;
using storage::hard_state_write;
using storage::MemoryFileSystem;
using testing::HasSubstr;

constexpr auto kPatience = std::chrono::seconds(30);

/// A file system that can be held at the sync of records that were appended (and not at those of the loop's
/// house-keeping, which come when they like). The log loop's thread works on it alone otherwise.
class GatedFileSystem final : public storage::FileSystem {
 public:
  class Gated final : public storage::File {
   public:
    Gated(std::unique_ptr<storage::File> file, GatedFileSystem& owner) : file_(std::move(file)), owner_(owner) {}
    Status write_at(uint64_t offset, std::string_view data) override { return file_->write_at(offset, data); }
    Status write_at(uint64_t offset, const std::vector<std::string_view>& pieces) override {
      appended_ = true;
      return file_->write_at(offset, pieces);
    }
    Result<std::string> read_at(uint64_t offset, size_t count) const override { return file_->read_at(offset, count); }
    Status sync() override {
      if (std::exchange(appended_, false)) owner_.pass();
      return file_->sync();
    }
    Status truncate(uint64_t size) override { return file_->truncate(size); }
    Result<uint64_t> size() const override { return file_->size(); }

   private:
    std::unique_ptr<storage::File> file_;
    GatedFileSystem& owner_;
    bool appended_ = false;
  };

  Result<std::unique_ptr<storage::File>> open(const std::string& path, Mode mode) override {
    auto file = memory.open(path, mode);
    if (!file.is_ok()) return file.status();
    return std::unique_ptr<storage::File>(std::make_unique<Gated>(std::move(*file), *this));
  }
  Status create_directories(const std::string& path) override { return memory.create_directories(path); }
  Result<std::vector<std::string>> list(const std::string& directory) override { return memory.list(directory); }
  Result<bool> exists(const std::string& path) override { return memory.exists(path); }
  Status rename(const std::string& from, const std::string& to) override { return memory.rename(from, to); }
  Status remove(const std::string& path) override { return memory.remove(path); }
  Status remove_all(const std::string& path) override { return memory.remove_all(path); }
  Status sync_directory(const std::string& path) override { return memory.sync_directory(path); }

  void hold() {
    std::lock_guard lock(mutex_);
    held_ = true;
  }
  void release() {
    std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  /// False if nobody came to the gate.
  bool wait_until_held() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return waiting_; });
  }

  MemoryFileSystem memory;

 private:
  void pass() {
    std::unique_lock lock(mutex_);
    waiting_ = held_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !held_; });
    waiting_ = false;
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  bool waiting_ = false;
};

class LogLoopTest : public testing::Test {
 protected:
  LogLoopTest() {
    EXPECT_TRUE(file_system.create_directories("/wal").is_ok());
    EXPECT_TRUE(file_system.create_directories("/state").is_ok());
    auto created = storage::Wal::create(file_system, "/wal", storage::kTestDirectory, {}, {});
    EXPECT_TRUE(created.is_ok()) << created.status();
    auto state = storage::StateDirectory::open(file_system, "/state");
    EXPECT_TRUE(state.is_ok()) << state.status();
    loop = std::make_unique<LogLoop>(file_system, std::move(created->wal), std::move(*state),
                                     LogLoop::Callbacks{[this](raft::WriteNumber number) {
                                                          tell([&] { persisted.push_back(number.value()); });
                                                        },
                                                        [](std::shared_ptr<storage::Engine>, raft::SnapshotMeta) {},
                                                        [this](const Status& status) { tell([&] { fatal = status; }); }});
    loop->start();
  }
  ~LogLoopTest() override { file_system.release(); }

  void submit(raft::Write write) {
    write.number = raft::WriteNumber(++last);
    std::vector<raft::Write> writes;
    writes.push_back(std::move(write));
    loop->submit(std::move(writes));
  }
  bool wait(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, kPatience, condition);
  }
  bool wait_persisted(uint64_t number) {
    return wait([&] { return !persisted.empty() && persisted.back() >= number; });
  }
  std::vector<uint64_t> told() {
    std::lock_guard lock(mutex);
    return persisted;
  }
  template <class Function>
  void tell(Function function) {
    std::lock_guard lock(mutex);
    function();
    changed.notify_all();
  }
  /// What the disk holds after the process has ended.
  size_t entries_on_disk() {
    loop->stop();
    loop.reset();
    file_system.memory.crash(1);
    auto opened = storage::Wal::open(file_system, "/wal", storage::kTestDirectory);
    EXPECT_TRUE(opened.is_ok()) << opened.status();
    return opened.is_ok() ? opened->entries.size() : 0;
  }

  GatedFileSystem file_system;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<uint64_t> persisted;
  std::optional<Status> fatal;
  uint64_t last = 0;
  std::unique_ptr<LogLoop> loop;
};

TEST_F(LogLoopTest, AWriteIsToldOnceItIsDurable) {
  file_system.hold();
  submit(entries_write(1, 1, 3));
  ASSERT_TRUE(file_system.wait_until_held());
  EXPECT_TRUE(told().empty()) << "its sync is under way";
  file_system.release();
  ASSERT_TRUE(wait_persisted(1));
  EXPECT_EQ(entries_on_disk(), 3u);
}

TEST_F(LogLoopTest, WhatComesDuringASyncSharesTheNextOne) {
  file_system.hold();
  submit(entries_write(1, 1, 1));
  ASSERT_TRUE(file_system.wait_until_held());
  const uint64_t before = loop->stats().syncs;
  for (uint64_t i = 2; i <= 100; ++i) submit(entries_write(1, i, 1));
  file_system.release();
  ASSERT_TRUE(wait_persisted(100));
  EXPECT_THAT(told(), testing::ElementsAre(1, 100)) << "the second word covers all the others";
  EXPECT_EQ(loop->stats().syncs, before + 2);
  EXPECT_EQ(entries_on_disk(), 100u);
}

TEST_F(LogLoopTest, StoppingFinishesWhatIsQueued) {
  for (uint64_t i = 1; i <= 50; ++i) submit(entries_write(1, i, 1));
  loop->stop();
  EXPECT_EQ(told().back(), 50u);
  EXPECT_EQ(entries_on_disk(), 50u);
}

TEST_F(LogLoopTest, AFailedSyncStopsTheNodeAndIsNotTriedAgain) {
  submit(entries_write(1, 1, 1));
  ASSERT_TRUE(wait_persisted(1));
  file_system.hold();
  submit(entries_write(1, 2, 1));
  ASSERT_TRUE(file_system.wait_until_held());
  submit(entries_write(1, 3, 1));  // waits behind the sync that will fail
  file_system.memory.fail_syncs(Status::unavailable("the disk gave up"));
  file_system.release();
  ASSERT_TRUE(wait([&] { return fatal.has_value(); }));
  EXPECT_THAT(fatal->message(), HasSubstr("the disk gave up"));
  loop->stop();
  file_system.memory.fail_syncs(Status::ok());
  EXPECT_THAT(told(), testing::ElementsAre(1)) << "nothing behind the failure is vouched for, whatever a later sync would say";
}

TEST_F(LogLoopTest, AFullDiskStopsTheNode) {
  file_system.hold();
  submit(entries_write(1, 1, 1));
  ASSERT_TRUE(file_system.wait_until_held());
  file_system.memory.set_capacity(file_system.memory.used_bytes());
  submit(entries_write(1, 2, 64, std::string(64 << 10, 'x')));
  file_system.release();
  ASSERT_TRUE(wait([&] { return fatal.has_value(); }));
  EXPECT_EQ(fatal->code(), Code::kResourceExhausted);
  EXPECT_THAT(told(), testing::ElementsAre(1));
}

TEST_F(LogLoopTest, BytesAndSyncsAreCounted) {
  submit(hard_state_write(1, 2, 0));
  submit(entries_write(1, 1, 2, "12345678"));  // the index is added to each payload
  ASSERT_TRUE(wait_persisted(2));
  EXPECT_EQ(loop->stats().bytes, 18u);
  EXPECT_GE(loop->stats().syncs, 1u);
}

}  // namespace
}  // namespace rallypoint::server
