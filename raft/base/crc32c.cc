#include "raft/base/crc32c.h"

#include <array>
#include <cstring>

namespace rallypoint {
namespace {

constexpr uint32_t kPolynomialReflected = 0x82F63B78;

// tables[k][b]: what byte b contributes when k more bytes follow it in the same 8-byte step (slicing by eight).
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
__attribute__((target("sse4.2"))) uint32_t crc32c_hardware(uint32_t before, std::string_view data) {
  uint64_t crc = ~before;
  const char* at = data.data();
  size_t left = data.size();
  for (; left >= 8; at += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    crc = __builtin_ia32_crc32di(crc, word);
  }
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
          kTables[4][crc >> 24] ^ kTables[3][at[4]] ^ kTables[2][at[5]] ^ kTables[1][at[6]] ^ kTables[0][at[7]];
  }
  for (; left > 0; ++at, --left) crc = (crc >> 8) ^ kTables[0][(crc ^ *at) & 0xFF];
  return ~crc;
}

uint32_t crc32c(uint32_t before, std::string_view data) {
  static const Function function = choose();
  return function(before, data);
}

}  // namespace rallypoint
