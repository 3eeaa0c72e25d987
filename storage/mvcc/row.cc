#include "storage/mvcc/row.h"

namespace rallypoint::mvcc {
namespace {

bool take_varint(std::string_view& bytes, uint64_t& number) {
  number = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (bytes.empty()) return false;
    const auto byte = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    number |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

}  // namespace

std::optional<Pair> parse_pair(std::string_view row) {
  Pair pair;
  while (!row.empty()) {
    uint64_t tag = 0;
    uint64_t number = 0;
    if (!take_varint(row, tag) || !take_varint(row, number)) return std::nullopt;
    if ((tag & 7) == 2) {
      if (number > row.size()) return std::nullopt;
      const std::string_view bytes = row.substr(0, number);
      row.remove_prefix(number);
      if (tag >> 3 == 1) pair.key = bytes;
      else if (tag >> 3 == 5) pair.value = bytes;
      else return std::nullopt;
      continue;
    }
    if ((tag & 7) != 0) return std::nullopt;
    const auto value = static_cast<int64_t>(number);
    switch (tag >> 3) {
      case 2: pair.create_revision = value; break;
      case 3: pair.mod_revision = value; break;
      case 4: pair.version = value; break;
      case 6: pair.lease = value; break;
      default: return std::nullopt;
    }
  }
  return pair;
}

}  // namespace rallypoint::mvcc
