// server/quarantine.h, on a real directory.
#include "server/quarantine.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "storage/fs/posix_file_system.h"

namespace rallypoint::server {
namespace {

class Quarantine : public testing::Test {
 protected:
  Quarantine() {
    std::string name = (std::filesystem::temp_directory_path() / "rallypoint-quarantine-XXXXXX").string();
    RALLY_CHECK(mkdtemp(name.data()) != nullptr);
    dir_ = name;
    write("identity", "me");
    write("wal/1", "entries");
    write("state/rows", "rows");
    write("LOCK", "");
  }
  ~Quarantine() override { std::filesystem::remove_all(dir_); }
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((dir_ / name).parent_path());
    std::ofstream(dir_ / name) << text;
  }
  std::string read(const std::filesystem::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string aside() {
    auto moved = put_quarantined_aside(fs_, dir_.string());
    EXPECT_TRUE(moved.is_ok()) << moved.status();
    return moved.is_ok() && *moved ? **moved : "";
  }
  std::filesystem::path dir_;
  storage::PosixFileSystem fs_;
};

TEST_F(Quarantine, WithoutANoteNothingMoves) {
  EXPECT_EQ(aside(), "");
  EXPECT_EQ(read(dir_ / "wal/1"), "entries");
}

TEST_F(Quarantine, AllOfTheMemberIsPutAsideWithTheReason) {
  ASSERT_TRUE(leave_quarantine_note(fs_, dir_.string(), "differs at 7").is_ok());
  const std::filesystem::path moved = aside();
  EXPECT_EQ(moved, dir_ / "diverged-1");
  EXPECT_EQ(read(moved / "DIVERGED"), "differs at 7\n");
  EXPECT_EQ(read(moved / "identity"), "me");
  EXPECT_EQ(read(moved / "wal/1"), "entries");
  EXPECT_EQ(read(moved / "state/rows"), "rows");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "identity"));
  EXPECT_TRUE(std::filesystem::exists(dir_ / "LOCK")) << "held by this process";
  EXPECT_EQ(aside(), "") << "once is enough";
}

TEST_F(Quarantine, ASecondTimeKeepsTheFirst) {
  ASSERT_TRUE(leave_quarantine_note(fs_, dir_.string(), "one").is_ok());
  aside();
  write("identity", "me again");
  ASSERT_TRUE(leave_quarantine_note(fs_, dir_.string(), "two").is_ok());
  EXPECT_EQ(aside(), (dir_ / "diverged-2").string());
  EXPECT_EQ(read(dir_ / "diverged-1/identity"), "me");
}

TEST_F(Quarantine, WhatACrashLeftHalfDoneIsFinished) {
  ASSERT_TRUE(leave_quarantine_note(fs_, dir_.string(), "x").is_ok());
  std::filesystem::create_directories(dir_ / "diverged-1");
  std::filesystem::rename(dir_ / "identity", dir_ / "diverged-1/identity");
  EXPECT_EQ(aside(), (dir_ / "diverged-2").string());
  EXPECT_EQ(read(dir_ / "diverged-2/wal/1"), "entries");
}

}  // namespace
}  // namespace rallypoint::server
