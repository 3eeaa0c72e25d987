// What both file systems must do alike, then what only the lying one does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "storage/fs/memory_file_system.h"
#include "storage/fs/posix_file_system.h"

namespace rallypoint::storage {
namespace {

using Mode = FileSystem::Mode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Place {
  std::unique_ptr<FileSystem> files;
  std::string root;
};

Place make_place(const std::string& kind) {
  if (kind == "memory") {
    Place place{std::make_unique<MemoryFileSystem>(), "root"};
    RALLY_CHECK(place.files->create_directories("root").is_ok());
    return place;
  }
  std::string name = (std::filesystem::temp_directory_path() / "rallypoint-fs-XXXXXX").string();
  RALLY_CHECK(mkdtemp(name.data()) != nullptr);
  return {std::make_unique<PosixFileSystem>(), name};
}

class AnyFileSystem : public ::testing::TestWithParam<std::string> {
 protected:
  AnyFileSystem() : place_(make_place(GetParam())), files_(*place_.files), root_(place_.root) {}
  ~AnyFileSystem() override { EXPECT_TRUE(files_.remove_all(root_).is_ok()); }
  std::unique_ptr<File> open(const std::string& name, Mode mode) {
    auto file = files_.open(root_ + "/" + name, mode);
    RALLY_CHECK(file.is_ok(), "status", file.status());
    return std::move(file).value();
  }

  Place place_;
  FileSystem& files_;
  std::string root_;
};

TEST_P(AnyFileSystem, ReadsWhatWasWritten) {
  const auto file = open("a", Mode::kCreate);
  ASSERT_TRUE(file->write_at(0, std::string_view("hello world")).is_ok());
  ASSERT_TRUE(
      file->write_at(6, {std::string_view("wo"), std::string_view(), std::string_view("men")}).is_ok());
  ASSERT_TRUE(file->sync().is_ok());
  EXPECT_EQ(*file->read_at(0, 100), "hello women");
  EXPECT_EQ(*file->read_at(9, 2), "en");
  EXPECT_EQ(*file->read_at(50, 2), "");
  EXPECT_EQ(*file->size(), 11u);
}

TEST_P(AnyFileSystem, WritesManyPiecesInOrder) {
  const auto file = open("many", Mode::kCreate);
  std::vector<std::string> parts;
  for (int i = 0; i < 5000; ++i) parts.push_back(std::to_string(i) + ",");
  std::string whole;
  for (const auto& part : parts) whole += part;
  ASSERT_TRUE(file->write_at(3, {parts.begin(), parts.end()}).is_ok());
  EXPECT_EQ(*file->read_at(3, whole.size() + 1), whole);
}

TEST_P(AnyFileSystem, WritingBehindTheEndLeavesZerosBetween) {
  const auto file = open("gap", Mode::kCreate);
  ASSERT_TRUE(file->write_at(4, std::string_view("x")).is_ok());
  EXPECT_EQ(*file->read_at(0, 10), std::string("\0\0\0\0x", 5));
  ASSERT_TRUE(file->truncate(2).is_ok());
  EXPECT_EQ(*file->size(), 2u);
}

TEST_P(AnyFileSystem, OpenModesMeanWhatTheySay) {
  EXPECT_EQ(files_.open(root_ + "/no", Mode::kRead).status().code(), Code::kNotFound);
  EXPECT_EQ(files_.open(root_ + "/no", Mode::kReadWrite).status().code(), Code::kNotFound);
  EXPECT_THAT(files_.open(root_ + "/no", Mode::kRead).status().message(), HasSubstr(root_ + "/no"));
  open("yes", Mode::kCreateOrOpen);
  open("yes", Mode::kCreateOrOpen);
  EXPECT_EQ(files_.open(root_ + "/yes", Mode::kCreate).status().code(), Code::kAlreadyExists);
  EXPECT_EQ(files_.open(root_ + "/nowhere/file", Mode::kCreate).status().code(), Code::kNotFound);
}

TEST_P(AnyFileSystem, ListsRenamesAndRemoves) {
  ASSERT_TRUE(files_.create_directories(root_ + "/d/e").is_ok());
  ASSERT_TRUE(files_.create_directories(root_ + "/d/e").is_ok());
  open("d/2", Mode::kCreate);
  ASSERT_TRUE(open("d/1", Mode::kCreate)->write_at(0, std::string_view("one")).is_ok());
  EXPECT_THAT(*files_.list(root_ + "/d"), ElementsAre("1", "2", "e"));
  ASSERT_TRUE(files_.rename(root_ + "/d/1", root_ + "/d/2").is_ok());
  ASSERT_TRUE(files_.sync_directory(root_ + "/d").is_ok());
  EXPECT_THAT(*files_.list(root_ + "/d"), ElementsAre("2", "e"));
  EXPECT_EQ(*open("d/2", Mode::kRead)->read_at(0, 9), "one");
  ASSERT_TRUE(files_.remove(root_ + "/d/2").is_ok());
  EXPECT_EQ(files_.remove(root_ + "/d/2").code(), Code::kNotFound);
  open("d/e/deep", Mode::kCreate);
  ASSERT_TRUE(files_.remove_all(root_ + "/d").is_ok());
  ASSERT_TRUE(files_.remove_all(root_ + "/d").is_ok());
  EXPECT_FALSE(*files_.exists(root_ + "/d"));
  EXPECT_EQ(files_.list(root_ + "/d").status().code(), Code::kNotFound);
}

TEST_P(AnyFileSystem, AnOpenFileOutlivesItsName) {
  const auto file = open("gone", Mode::kCreate);
  ASSERT_TRUE(file->write_at(0, std::string_view("still")).is_ok());
  ASSERT_TRUE(files_.remove(root_ + "/gone").is_ok());
  EXPECT_EQ(*file->read_at(0, 9), "still");
}

INSTANTIATE_TEST_SUITE_P(Both, AnyFileSystem, ::testing::Values("posix", "memory"));

TEST(PosixFileSystem, FullDiskIsResourceExhaustedWithThePath) {
  PosixFileSystem files;
  auto file = files.open("/dev/full", Mode::kReadWrite);
  if (!file.is_ok()) GTEST_SKIP() << "no /dev/full here";
  const Status status = (*file)->write_at(0, std::string_view("x"));
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("/dev/full"));
  EXPECT_THAT(status.message(), HasSubstr("free space"));
}

// ---- the liar ---------------------------------------------------------------------------------------------

class Liar : public ::testing::Test {
 protected:
  Liar() { RALLY_CHECK(files_.create_directories("d").is_ok()); }
  std::unique_ptr<File> durable_file(const std::string& content) {
    auto file = std::move(files_.open("d/f", Mode::kCreate)).value();
    RALLY_CHECK(file->write_at(0, std::string_view(content)).is_ok() && file->sync().is_ok());
    RALLY_CHECK(files_.sync_directory("d").is_ok());
    return file;
  }
  MemoryFileSystem files_;
};

TEST_F(Liar, CrashKeepsAllThatWasSynced) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    files_ = MemoryFileSystem();
    ASSERT_TRUE(files_.create_directories("d").is_ok());
    const std::string content(3000, 's');
    durable_file(content);
    files_.crash(seed);
    EXPECT_EQ(files_.contents("d/f"), content);
  }
}

TEST_F(Liar, CrashTearsUnsyncedWritesSectorBySector) {
  std::set<std::string> outcomes;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    files_ = MemoryFileSystem();
    ASSERT_TRUE(files_.create_directories("d").is_ok());
    const auto file = durable_file(std::string(1536, 'o'));
    ASSERT_TRUE(file->write_at(0, std::string_view(std::string(1536, 'n'))).is_ok());
    files_.crash(seed);
    const std::string& after = files_.contents("d/f");
    ASSERT_EQ(after.size(), 1536u);
    std::string sectors;
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(after.substr(i * 512, 512), std::string(512, after[i * 512]))
          << "a sector is old or new as a whole";
      sectors += after[i * 512];
    }
    outcomes.insert(sectors);
  }
  EXPECT_EQ(outcomes.size(), 8u) << "any mixture can happen";
}

TEST_F(Liar, CrashMayLeaveAnySizeOfAGrowingFile) {
  std::set<size_t> sizes;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    files_ = MemoryFileSystem();
    ASSERT_TRUE(files_.create_directories("d").is_ok());
    const auto file = durable_file("");
    for (int i = 1; i <= 3; ++i)
      ASSERT_TRUE(file->write_at((i - 1) * 10, std::string_view("0123456789")).is_ok());
    files_.crash(seed);
    sizes.insert(files_.contents("d/f").size());
  }
  EXPECT_THAT(sizes, ElementsAre(0, 10, 20, 30));
}

TEST_F(Liar, NamesAreLostUnlessTheDirectoryWasSynced) {
  std::set<std::string> outcomes;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    files_ = MemoryFileSystem();
    ASSERT_TRUE(files_.create_directories("d").is_ok());
    durable_file("old");
    auto fresh = std::move(files_.open("d/new", Mode::kCreate)).value();
    ASSERT_TRUE(fresh->write_at(0, std::string_view("new")).is_ok());
    ASSERT_TRUE(fresh->sync().is_ok());
    ASSERT_TRUE(files_.rename("d/new", "d/f").is_ok());
    files_.crash(seed);
    const std::vector<std::string> names = *files_.list("d");
    outcomes.insert(::testing::PrintToString(names) + files_.contents("d/f"));
  }
  EXPECT_EQ(outcomes.size(), 3u) << "not renamed with the new name there or not, or renamed";
}

TEST_F(Liar, AFailedSyncForgetsWhatWasWaiting) {
  const auto file = durable_file("old");
  ASSERT_TRUE(file->write_at(0, std::string_view("new")).is_ok());
  files_.fail_syncs(Status::data_loss("EIO"));
  EXPECT_EQ(file->sync().code(), Code::kDataLoss);
  files_.fail_syncs(Status::ok());
  EXPECT_TRUE(file->sync().is_ok()) << "as the kernel does";
  EXPECT_EQ(*file->read_at(0, 3), "new");
  files_.crash(5);
  EXPECT_EQ(files_.contents("d/f"), "old");
}

TEST_F(Liar, HaltStopsEverythingAtThatOperation) {
  const auto file = durable_file("0");
  files_.halt_at(2);
  ASSERT_TRUE(file->write_at(0, std::string_view("1")).is_ok());
  EXPECT_EQ(file->sync().code(), Code::kUnavailable);
  EXPECT_TRUE(files_.halted());
  EXPECT_EQ(file->read_at(0, 1).status().code(), Code::kUnavailable);
  EXPECT_EQ(files_.list("d").status().code(), Code::kUnavailable);
  files_.crash(1);
  EXPECT_EQ(file->size().status().code(), Code::kUnavailable) << "handles do not survive";
  EXPECT_TRUE(files_.list("d").is_ok());
}

TEST_F(Liar, AFullDiskTakesWhatFitsAndSaysSo) {
  const auto file = durable_file("12345");
  files_.set_capacity(8);
  EXPECT_EQ(file->write_at(5, std::string_view("6789")).code(), Code::kResourceExhausted);
  EXPECT_EQ(files_.contents("d/f"), "12345678");
  EXPECT_TRUE(file->write_at(0, std::string_view("xx")).is_ok()) << "overwriting needs no room";
}

}  // namespace
}  // namespace rallypoint::storage
