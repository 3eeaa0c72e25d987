// The keyspace's rows in the engine.
//
//   'k' main:be64 sub:be32 kind:'p'|'d' -> encoded mvccpb.KeyValue (of a delete: key and mod_revision only)
//   "Kmeta"                             -> revision:be64 compacted:be64 digest:be64
//
// Rows lie in order of revision, so history is one scan. Worked example: the second change of revision 7, a put, lies at
// 6b 0000000000000007 00000001 70.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "storage/mvcc/event.h"
#include "storage/mvcc/wire.h"

namespace rallypoint::mvcc {

inline constexpr char kRowPrefix = 'k';
inline constexpr std::string_view kMetaRow = "Kmeta";
inline constexpr size_t kRowKeyBytes = 1 + 8 + 4 + 1;

template <class T>
void append_big_endian(std::string& out, T number) {
  for (int shift = static_cast<int>(sizeof(T)) * 8 - 8; shift >= 0; shift -= 8) out.push_back(static_cast<char>(static_cast<uint64_t>(number) >> shift));
}
inline uint64_t big_endian_at(std::string_view bytes, size_t offset, size_t count) {
  uint64_t number = 0;
  for (size_t i = 0; i < count; ++i) number = number << 8 | static_cast<uint8_t>(bytes[offset + i]);
  return number;
}

inline std::string row_key(const Revision& revision, bool is_delete) {
  std::string key;
  key.reserve(kRowKeyBytes);
  key.push_back(kRowPrefix);
  append_big_endian(key, static_cast<uint64_t>(revision.main));
  append_big_endian(key, static_cast<uint32_t>(revision.sub));
  key.push_back(is_delete ? 'd' : 'p');
  return key;
}
/// The first row of a revision, for scans.
inline std::string rows_from(int64_t main) {
  std::string key(1, kRowPrefix);
  append_big_endian(key, static_cast<uint64_t>(main));
  return key;
}

struct RowName {
  Revision revision;
  bool is_delete = false;
};
/// nullopt = malformed.
inline std::optional<RowName> parse_row_key(std::string_view key) {
  if (key.size() != kRowKeyBytes || key[0] != kRowPrefix || (key.back() != 'p' && key.back() != 'd')) return std::nullopt;
  return RowName{{static_cast<int64_t>(big_endian_at(key, 1, 8)), static_cast<int64_t>(big_endian_at(key, 9, 4))}, key.back() == 'd'};
}

/// The fields of a row, as views into it.
struct Pair {
  std::string_view key;
  int64_t create_revision = 0;
  int64_t mod_revision = 0;
  int64_t version = 0;
  std::string_view value;
  int64_t lease = 0;
};

inline std::string encode_pair(const Pair& pair) {
  std::string out;
  out.reserve(pair.key.size() + pair.value.size() + 48);
  wire::append_bytes(out, 1, pair.key);
  wire::append_number(out, 2, pair.create_revision);
  wire::append_number(out, 3, pair.mod_revision);
  wire::append_number(out, 4, pair.version);
  wire::append_bytes(out, 5, pair.value);
  wire::append_number(out, 6, pair.lease);
  return out;
}
/// nullopt = malformed.
std::optional<Pair> parse_pair(std::string_view row);

}  // namespace rallypoint::mvcc
