// The stories in tests/raft/testdata: each file is a scenario with the full trace of what the nodes did. A
// change of behaviour shows as a diff of a story. To take the new traces over: RALLY_REWRITE=1
// build/.../raft_test
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/raft/support/scenario.h"

namespace rallypoint::raft {
namespace {

std::vector<std::string> stories() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator("tests/raft/testdata", ignored))
    if (file.path().extension() == ".txt") names.push_back(file.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, StoryGoesAsWritten) {
  const std::string path = "tests/raft/testdata/" + GetParam() + ".txt";
  std::ifstream in(path);
  const std::string written{std::istreambuf_iterator<char>(in), {}};
  ASSERT_FALSE(written.empty()) << path;
  const std::string played = test::run_scenario(written);
  if (std::getenv("RALLY_REWRITE") != nullptr) {
    std::ofstream(path) << played;
    return;
  }
  EXPECT_EQ(played, written);
}

INSTANTIATE_TEST_SUITE_P(Raft, Golden, testing::ValuesIn(stories()), [](const auto& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

TEST(GoldenFolder, HasStories) {
  EXPECT_GE(stories().size(), 9u) << "run from the repository's root";
}

}  // namespace
}  // namespace rallypoint::raft
