#include "raft/base/crc32c.h"

#include <array>
#include <cstring>

namespace rallypoint {
namespace {

constexpr uint32_t kPolynomialReflected = 0x82F63B78;

// tables[k][b]: what byte b contributes when k more bytes follow it in the same 8-byte step (slicing by
// eight).
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomialReflected : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t shorter = tables[k - 1][byte];
      tables[k][byte] = (shorter >> 8) ^ tables[0][shorter & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

#if defined(__x86_64__)
// The instruction takes 8 bytes each 3 cycles when each waits for the one before, but each cycle when three
// independent sums run beside each other. So a long input goes in blocks of three lanes, whose sums are put
// together by "what the first would be after as many zero bytes more", a linear map of 32 bits.
constexpr size_t kLaneBytes = 1024;

class SkipLane {
 public:
  SkipLane() {
    uint32_t of_bit[32];
    for (int bit = 0; bit < 32; ++bit) {
      uint32_t crc = uint32_t{1} << bit;
      for (size_t i = 0; i < kLaneBytes; ++i) crc = (crc >> 8) ^ kTables[0][crc & 0xFF];
      of_bit[bit] = crc;
    }
    for (int position = 0; position < 4; ++position) {
      for (uint32_t byte = 0; byte < 256; ++byte) {
        uint32_t crc = 0;
        for (int bit = 0; bit < 8; ++bit) crc ^= (byte >> bit & 1) != 0 ? of_bit[8 * position + bit] : 0;
        tables_[position][byte] = crc;
      }
    }
  }
  uint32_t operator()(uint32_t crc) const {
    return tables_[0][crc & 0xFF] ^ tables_[1][crc >> 8 & 0xFF] ^ tables_[2][crc >> 16 & 0xFF] ^
           tables_[3][crc >> 24];
  }

 private:
  uint32_t tables_[4][256];
};

uint64_t word_at(const char* at) {
  uint64_t word;
  std::memcpy(&word, at, 8);
  return word;
}

__attribute__((target("sse4.2"))) uint32_t crc32c_hardware(uint32_t before, std::string_view data) {
  static const SkipLane skip_lane;
  uint64_t crc = static_cast<uint32_t>(~before);
  const char* at = data.data();
  size_t left = data.size();
  for (; left >= 3 * kLaneBytes; at += 3 * kLaneBytes, left -= 3 * kLaneBytes) {
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t i = 0; i < kLaneBytes; i += 8) {
      crc = __builtin_ia32_crc32di(crc, word_at(at + i));
      second = __builtin_ia32_crc32di(second, word_at(at + kLaneBytes + i));
      third = __builtin_ia32_crc32di(third, word_at(at + 2 * kLaneBytes + i));
    }
    crc = skip_lane(static_cast<uint32_t>(crc)) ^ static_cast<uint32_t>(second);
    crc = skip_lane(static_cast<uint32_t>(crc)) ^ static_cast<uint32_t>(third);
  }
  for (; left >= 8; at += 8, left -= 8) crc = __builtin_ia32_crc32di(crc, word_at(at));
  auto crc32 = static_cast<uint32_t>(crc);
  for (; left > 0; ++at, --left) crc32 = __builtin_ia32_crc32qi(crc32, static_cast<unsigned char>(*at));
  return ~crc32;
}
#endif

using Function = uint32_t (*)(uint32_t, std::string_view);

Function choose() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("sse4.2")) return crc32c_hardware;
#endif
  return crc32c_portable;
}

}  // namespace

uint32_t crc32c_portable(uint32_t before, std::string_view data) {
  uint32_t crc = ~before;
  const auto* at = reinterpret_cast<const unsigned char*>(data.data());
  size_t left = data.size();
  for (; left >= 8; at += 8, left -= 8) {
    crc ^= uint32_t{at[0]} | uint32_t{at[1]} << 8 | uint32_t{at[2]} << 16 | uint32_t{at[3]} << 24;
    crc = kTables[7][crc & 0xFF] ^ kTables[6][(crc >> 8) & 0xFF] ^ kTables[5][(crc >> 16) & 0xFF] ^
          kTables[4][crc >> 24] ^ kTables[3][at[4]] ^ kTables[2][at[5]] ^ kTables[1][at[6]] ^
          kTables[0][at[7]];
  }
  for (; left > 0; ++at, --left) crc = (crc >> 8) ^ kTables[0][(crc ^ *at) & 0xFF];
  return ~crc;
}

uint32_t crc32c(uint32_t before, std::string_view data) {
  static const Function function = choose();
  return function(before, data);
}

}  // namespace rallypoint
