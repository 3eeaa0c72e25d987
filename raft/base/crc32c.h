// CRC32C (Castagnoli), the checksum of everything that Rallypoint writes to a disk or sends to a peer. In
// hardware where the processor has SSE4.2 (asked once, at run time), else from tables; both give the same
// numbers.
//
// A checksum is carried on by handing in the one before, so that
//   crc32c(crc32c(0, a), b) == crc32c(0, a followed by b)
// which is also how a log chains its records: each is summed on top of its predecessor.
//
// Worked example: crc32c(0, "123456789") == 0xE3069283.
#pragma once

#include <cstdint>
#include <string_view>

namespace rallypoint {

/// The checksum of whatever gave `before` (0 = nothing) followed by `data`.
uint32_t crc32c(uint32_t before, std::string_view data);

/// The table form, for tests to compare with and for processors without the instruction.
uint32_t crc32c_portable(uint32_t before, std::string_view data);

}  // namespace rallypoint
