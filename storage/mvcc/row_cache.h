// RowCache: the rows written or read last, so that a hot key's range never touches the engine; and all rows that the
// engine does not hold yet. First in, first out, with a second chance for what was read since. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>

#include "raft/base/bytes.h"
#include "storage/mvcc/event.h"

namespace rallypoint::mvcc {

class RowCache {
 public:
  explicit RowCache(size_t bytes_max) : bytes_max_(bytes_max) {}

  void add(const Revision& revision, const Bytes& row) {
    auto [it, is_new] = rows_.try_emplace(revision, Entry{row, false});
    if (!is_new) return;
    order_.push_back(revision);
    bytes_ += row.size() + kOverhead;
    shrink();
  }
  /// Null: not here.
  [[nodiscard]] const Bytes* find(const Revision& revision) {
    auto it = rows_.find(revision);
    if (it == rows_.end()) return nullptr;
    it->second.used = true;
    return &it->second.row;
  }
  void erase(const Revision& revision) {
    auto it = rows_.find(revision);
    if (it == rows_.end()) return;
    bytes_ -= it->second.row.size() + kOverhead;
    rows_.erase(it);  // its place in the order is skipped when it comes up
  }
  /// Rows up to this main revision are in the engine and may be forgotten here.
  void written(int64_t main) {
    written_ = main;
    shrink();
  }

 private:
  static constexpr size_t kOverhead = 120;
  struct Entry {
    Bytes row;
    bool used = false;
  };
  struct Hash {
    size_t operator()(const Revision& revision) const { return static_cast<size_t>(revision.main) * 31 + static_cast<size_t>(revision.sub); }
  };
  void shrink() {
    size_t chances = order_.size();
    while (bytes_ > bytes_max_ && !order_.empty() && order_.front().main <= written_) {
      const Revision oldest = order_.front();
      order_.pop_front();
      auto it = rows_.find(oldest);
      if (it == rows_.end()) continue;
      if (it->second.used && chances > 0) {
        --chances;
        it->second.used = false;
        order_.push_back(oldest);
        // Behind rows that are not written it would keep them from being looked at; they are few and soon written.
        continue;
      }
      bytes_ -= it->second.row.size() + kOverhead;
      rows_.erase(it);
    }
  }

  size_t bytes_max_;
  size_t bytes_ = 0;
  int64_t written_ = INT64_MAX;
  std::unordered_map<Revision, Entry, Hash> rows_;
  std::deque<Revision> order_;
};

}  // namespace rallypoint::mvcc
