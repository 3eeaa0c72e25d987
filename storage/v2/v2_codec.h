// The rows in which the v2 tree lies in the engine. Internal to storage/v2. Pure; decoders take any bytes.
//
//   "2m"               -> version, index, dropped_through                         the store's index, history's start
//   "2n" path          -> version, flags, created, modified, [deadline, expiration], value (the rest)
//   "2h" first (8, BE) -> version, count, then for each event: length, event      the events of one apply batch
//   event              =  action, flags, node, [prev node without key]
//   node               =  flags, [length, key], ttl, expiration, modified, created, [length, value]
//
// Numbers are LEB128 varints, signed ones zigzag. Example: file "/a" = "x", created and modified at 4, no TTL:
// key 32 6e 2f 61, value 01 00 04 04 78.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "raft/base/status.h"
#include "storage/v2/v2_node.h"
#include "storage/v2/v2_types.h"

namespace rallypoint::v2 {

inline constexpr char kRowVersion = 1;
inline constexpr std::string_view kMetaRow = "2m";
inline constexpr std::string_view kNodeRows = "2n";
inline constexpr std::string_view kHistoryRows = "2h";

struct MetaRow {
  uint64_t index = 0;
  uint64_t dropped_through = 0;
};

std::string encode_meta(const MetaRow& meta);
Result<MetaRow> decode_meta(std::string_view row);

std::string node_row_key(std::string_view path);
std::string encode_node(const Node& node);
/// Fills everything but path, parent and children. False = damaged.
bool decode_node(std::string_view row, Node& node);

std::string history_row_key(uint64_t first_index);
/// What stands before the events of a row.
std::string begin_history_row(uint64_t count);
/// Takes it from the front of `row`: the count of events; nullopt = damaged.
std::optional<uint64_t> open_history_row(std::string_view& row);
void append_event(std::string& out, const Event& event);
/// Takes one event from the front of `row`; nullptr = damaged.
EventPtr take_event(std::string_view& row);

/// A 64-bit hash of a sequence of fields; the same on every machine. Finds differences, resists no adversary.
class Digest {
 public:
  void add(uint64_t number);
  void add(std::string_view field);
  [[nodiscard]] uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0x9e3779b97f4a7c15;
};

}  // namespace rallypoint::v2
