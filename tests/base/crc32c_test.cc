#include "raft/base/crc32c.h"

#include <gtest/gtest.h>

#include "raft/base/random.h"

namespace rallypoint {
namespace {

// Vectors from RFC 3720, appendix B.4.
TEST(Crc32c, GivesThePublishedValues) {
  EXPECT_EQ(crc32c(0, "123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(0, std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(0, std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(crc32c_portable(0, "123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c_portable(0, std::string(32, '\0')), 0x8A9136AAu);
}

TEST(Crc32c, OfNothingIsWhatCameBefore) {
  EXPECT_EQ(crc32c(0, ""), 0u);
  EXPECT_EQ(crc32c(0xDEADBEEF, ""), 0xDEADBEEFu);
}

TEST(Crc32c, CarriesOnAcrossAnySplitAndAgreesWithTheTables) {
  Random random(7);
  std::string data;
  for (int i = 0; i < 300; ++i) data.push_back(static_cast<char>(random.next()));
  for (size_t size = 0; size <= data.size(); size += 7) {
    const std::string_view whole(data.data(), size);
    const uint32_t expected = crc32c_portable(0, whole);
    ASSERT_EQ(crc32c(0, whole), expected) << size;
    for (size_t split = 0; split <= size; split += 5) {
      ASSERT_EQ(crc32c(crc32c(0, whole.substr(0, split)), whole.substr(split)), expected)
          << size << '/' << split;
    }
  }
}

TEST(Crc32c, LongInputsAgreeWithTheTables) {
  Random random(8);
  std::string data;
  for (int i = 0; i < 20'000; ++i) data.push_back(static_cast<char>(random.next()));
  for (size_t size = 3000; size <= data.size(); size += 97) {
    const std::string_view part(data.data() + size % 8, size - 8);
    ASSERT_EQ(crc32c(5, part), crc32c_portable(5, part)) << size;
  }
}

}  // namespace
}  // namespace rallypoint
