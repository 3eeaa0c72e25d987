// What the log's tests share: building writes, and a model of what a log must say after them.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "raft/base/random.h"
#include "raft/types.h"
#include "storage/wal/wal.h"

namespace rallypoint::storage {

inline constexpr DirectoryId kTestDirectory{0xABCD};

inline raft::Entry make_entry(uint64_t term, uint64_t index, std::string payload = "") {
  return {Term(term), Index(index), raft::EntryKind::kCommand, Bytes(std::move(payload))};
}

inline raft::Write entries_write(uint64_t term, uint64_t first, uint64_t count,
                                 const std::string& payload = "p") {
  raft::Write write;
  for (uint64_t i = 0; i < count; ++i) {
    write.entries.push_back(make_entry(term, first + i, payload + std::to_string(first + i)));
  }
  return write;
}

inline raft::HardState hard_state(uint64_t term, uint64_t vote, uint64_t commit) {
  return {Term(term), NodeId(vote), Index(commit)};
}

inline raft::Write hard_state_write(uint64_t term, uint64_t vote, uint64_t commit) {
  raft::Write write;
  write.hard_state = hard_state(term, vote, commit);
  return write;
}

inline raft::SnapshotMeta start_meta(uint64_t term, uint64_t index, const std::string& context = "members") {
  raft::SnapshotMeta meta{Term(term), Index(index), {}};
  meta.membership.voters = {{NodeId(1), DirectoryId(11)}, {NodeId(2), DirectoryId(22)}};
  meta.membership.context = Bytes::copy_of(context);
  return meta;
}

/// Small segments, so that a short test crosses many borders.
inline WalOptions small_segments() {
  WalOptions options;
  options.segment_bytes = 4 << 10;
  options.hasty_segment_bytes = 1 << 10;
  options.prepare_step_bytes = 1 << 10;
  options.gather_payload_bytes = 256;
  return options;
}

/// The obvious log: everything that a Wal must say, as plain values.
struct LogModel {
  raft::HardState hard_state;
  raft::SnapshotMeta start;
  std::vector<raft::Entry> entries;
  friend bool operator==(const LogModel&, const LogModel&) = default;

  [[nodiscard]] Index last() const { return entries.empty() ? start.index : entries.back().index; }

  void put(const raft::Entry& entry) {
    while (!entries.empty() && entries.back().index >= entry.index) entries.pop_back();
    entries.push_back(entry);
  }
  void start_at(const raft::SnapshotMeta& meta) {
    const bool held = std::any_of(entries.begin(), entries.end(), [&](const raft::Entry& entry) {
      return entry.index == meta.index && entry.term == meta.term;
    });
    if (!held) entries.clear();
    std::erase_if(entries, [&](const raft::Entry& entry) { return entry.index <= meta.index; });
    start = meta;
  }

  /// The model after each part of the write, in order: what a torn write may have left.
  [[nodiscard]] std::vector<LogModel> states_after(const std::vector<raft::Write>& writes) const {
    std::vector<LogModel> states;
    LogModel model = *this;
    const auto note = [&] { states.push_back(model); };
    for (const raft::Write& write : writes) {
      if (write.hard_state) model.hard_state = *write.hard_state, note();
      for (const raft::Entry& entry : write.entries) model.put(entry), note();
      if (write.compact_to && write.compact_to->index > model.start.index)
        model.start_at(*write.compact_to), note();
    }
    if (states.empty()) note();
    return states;
  }
  void take(const std::vector<raft::Write>& writes) { *this = states_after(writes).back(); }
};

inline LogModel model_of(const Wal::Recovered& recovered) {
  return {recovered.hard_state, recovered.start, recovered.entries};
}

}  // namespace rallypoint::storage
