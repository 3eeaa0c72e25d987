#include "storage/mvcc/key_index.h"

#include <algorithm>

#include "raft/base/check.h"

namespace rallypoint::mvcc {

const Version* KeyEntry::at(int64_t revision) const {
  const Version* found = nullptr;
  if (newest.main <= revision) {
    found = &newest;
  } else if (older) {
    auto it = std::upper_bound(older->begin(), older->end(), revision, [](int64_t r, const Version& v) { return r < v.main; });
    if (it != older->begin()) found = &*std::prev(it);
  }
  return found != nullptr && !found->is_tombstone ? found : nullptr;
}

const Version* KeyEntry::before(const Revision& revision) const {
  if (newest.revision() < revision) return &newest;
  if (!older) return nullptr;
  auto it = std::lower_bound(older->begin(), older->end(), revision, [](const Version& v, const Revision& r) { return v.revision() < r; });
  return it == older->begin() ? nullptr : &*std::prev(it);
}

const KeyEntry* KeyIndex::find(std::string_view key) const {
  const auto it = by_name_.find(key);
  return it ? &(*it)->second : nullptr;
}

KeyIndex::Map::iterator KeyIndex::find_or_add(std::string_view key, bool& is_new) {
  const auto known = by_name_.find(key);
  is_new = !known;
  if (known) return *known;
  const auto it = map_.emplace(key, KeyEntry{}).first;
  by_name_.add(it);
  return it;
}

void KeyIndex::supersede(Map::iterator it, int64_t at) {
  KeyEntry& entry = it->second;
  if (!entry.older) entry.older = std::make_unique<std::vector<Version>>();
  entry.older->push_back(entry.newest);
  if (!entry.newest.is_tombstone) superseded_.push_back({at, entry.newest, it});
}

KeyEntry& KeyIndex::put(std::string_view key, const Version& version, int64_t create_revision, int64_t number, int64_t lease) {
  bool is_new = false;
  const auto it = find_or_add(key, is_new);
  if (!is_new) supersede(it, version.main);
  KeyEntry& entry = it->second;
  if (entry.newest.main == 0 || entry.newest.is_tombstone) ++live_;
  entry.newest = version;
  entry.create_revision = create_revision;
  entry.version = number;
  entry.lease = lease;
  return entry;
}

void KeyIndex::remove(std::string_view key, const Version& tombstone) {
  bool is_new = false;  // a tombstone whose put has been compacted away already is loaded at a restart
  const auto it = find_or_add(key, is_new);
  if (!is_new) supersede(it, tombstone.main);
  KeyEntry& entry = it->second;
  if (entry.newest.main != 0 && !entry.newest.is_tombstone) --live_;
  entry.newest = tombstone;
  entry.create_revision = entry.version = entry.lease = 0;
  tombstones_.push_back({tombstone.main + 1, tombstone, it});
}

void KeyIndex::drop_older(KeyEntry& entry, const Revision& revision) {
  RALLY_CHECK(entry.older != nullptr, "revision", revision.main);
  auto it = std::lower_bound(entry.older->begin(), entry.older->end(), revision, [](const Version& v, const Revision& r) { return v.revision() < r; });
  RALLY_CHECK(it != entry.older->end() && it->revision() == revision, "revision", revision.main);
  entry.older->erase(it);
  if (entry.older->empty()) entry.older.reset();
}

std::optional<KeyIndex::Dead> KeyIndex::take_dead(int64_t compacted) {
  // Puts first: a key's entry goes with its last version, which is a tombstone, and nothing may point at it then.
  if (!superseded_.empty() && superseded_.front().at <= compacted) {
    const Superseded dead = superseded_.front();
    superseded_.pop_front();
    drop_older(dead.entry->second, dead.version.revision());
    return Dead{dead.version.revision(), false, dead.version.row_bytes};
  }
  if (!tombstones_.empty() && tombstones_.front().at <= compacted) {
    const Superseded dead = tombstones_.front();
    tombstones_.pop_front();
    KeyEntry& entry = dead.entry->second;
    if (entry.newest.revision() == dead.version.revision()) {
      RALLY_CHECK(entry.older == nullptr, "key", dead.entry->first);
      by_name_.erase(dead.entry);
      map_.erase(dead.entry);
    } else {
      drop_older(entry, dead.version.revision());
    }
    return Dead{dead.version.revision(), true, dead.version.row_bytes};
  }
  return std::nullopt;
}

}  // namespace rallypoint::mvcc
