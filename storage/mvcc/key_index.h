// KeyIndex: every key that has a readable version, with what its newest version is and which older ones there are; in memory,
// as in etcd: a tree for ranges, a hash table for single keys. And what compaction may delete, in the order in which it became superseded, so that a slice of it costs
// what it deletes and not a walk over all keys.
//
// Pure; owned by the keyspace.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/mvcc/event.h"
#include "storage/mvcc/name_table.h"

namespace rallypoint::mvcc {

/// One version of a key.
struct Version {
  int64_t main = 0;
  uint32_t sub = 0;
  uint32_t row_bytes = 0;   ///< of its row, for the count of live bytes
  uint32_t row_crc = 0;     ///< CRC32C of its row, for hash_kv
  bool is_tombstone = false;
  [[nodiscard]] Revision revision() const { return {main, sub}; }
};

struct KeyEntry {
  Version newest;
  int64_t create_revision = 0;  ///< of the newest version; 0 in a tombstone, like the two below
  int64_t version = 0;
  int64_t lease = 0;
  std::unique_ptr<std::vector<Version>> older;  ///< oldest first; null = none

  [[nodiscard]] bool exists() const { return !newest.is_tombstone; }
  /// The version readable at a revision; null = none, or a tombstone.
  [[nodiscard]] const Version* at(int64_t revision) const;
  /// The version before the one at `revision`, whatever it is; null = none known.
  [[nodiscard]] const Version* before(const Revision& revision) const;
};

class KeyIndex {
 public:
  using Map = std::map<std::string, KeyEntry, std::less<>>;

  [[nodiscard]] const KeyEntry* find(std::string_view key) const;
  /// The keys of [key, range_end) in order, by etcd's rules (empty end = one key, "\0" = to the end):
  /// visit(const std::string&, const KeyEntry&) -> bool, false = enough.
  template <class Visit>
  void visit(std::string_view key, std::string_view range_end, Visit&& visit) const {
    if (range_end.empty()) {
      if (auto it = by_name_.find(key)) visit((*it)->first, (*it)->second);
      return;
    }
    const bool is_open = range_end == std::string_view("\0", 1);
    for (auto it = map_.lower_bound(key); it != map_.end() && (is_open || it->first < range_end); ++it)
      if (!visit(it->first, it->second)) return;
  }
  [[nodiscard]] const Map& map() const { return map_; }
  [[nodiscard]] size_t live() const { return live_; }

  /// A new version of the key; the former newest one becomes an older one. Returns the entry.
  KeyEntry& put(std::string_view key, const Version& version, int64_t create_revision, int64_t number, int64_t lease);
  void remove(std::string_view key, const Version& tombstone);

  /// One version that no read at `compacted` or later can see, taken out of the index; nullopt = there is none.
  struct Dead {
    Revision revision;
    bool is_tombstone = false;
    uint32_t row_bytes = 0;
  };
  std::optional<Dead> take_dead(int64_t compacted);

 private:
  struct Superseded {
    int64_t at = 0;  ///< dead once this revision is compacted
    Version version;
    Map::iterator entry;
  };
  Map::iterator find_or_add(std::string_view key, bool& is_new);
  void supersede(Map::iterator it, int64_t at);
  static void drop_older(KeyEntry& entry, const Revision& revision);

  Map map_;
  NameTable<Map::iterator> by_name_;  ///< all of map_
  size_t live_ = 0;
  std::deque<Superseded> superseded_;  ///< versions replaced or deleted, by `at`
  std::deque<Superseded> tombstones_;  ///< a tombstone stays readable at its own revision (etcd#18089), so `at` = main + 1
};

}  // namespace rallypoint::mvcc
