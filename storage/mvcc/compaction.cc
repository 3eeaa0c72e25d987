// Compaction: marking a revision, at once and the same everywhere; and the deleting of rows, in slices, at each node's own
// pace, which no answer depends on.
#include "storage/mvcc/keyspace_state.h"

namespace rallypoint::mvcc {
namespace {
uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  return x;
}
}  // namespace

Result<Outcome> Keyspace::compact(const etcdserverpb::CompactionRequest& request, const HeaderInfo* header) {
  State& state = *state_;
  // A new store has compacted nothing; 0 and then 1 are both new marks, as in etcd, which starts at -1.
  if (request.revision() < state.compacted || (request.revision() == state.compacted && state.compacted > 0)) return Outcome{compacted_error(), {}};
  if (request.revision() > state.revision) return Outcome{future_error(), {}};
  state.compacted = request.revision();
  state.meta_changed = true;
  if (header == nullptr) return Outcome{};
  Outcome outcome;
  wire::append_message(outcome.response, 1, encode_header(*header, state.revision));
  return outcome;
}

Result<bool> Keyspace::compact_slice(size_t rows_max) {
  State& state = *state_;
  const int64_t limit = state.pins->empty() ? state.compacted : std::min(state.compacted, *state.pins->begin());
  for (size_t i = 0; i < rows_max; ++i) {
    const auto dead = state.index.take_dead(limit);
    if (!dead) return i > 0;
    state.rows.erase(row_key(dead->revision, dead->is_tombstone));
    state.cache.erase(dead->revision);
    state.live_bytes -= dead->row_bytes;
  }
  return true;
}

Status Keyspace::check_hash_revision(int64_t revision) const {
  if (revision > state_->revision) return future_error();
  if (revision > 0 && revision < state_->compacted) return compacted_error();
  return Status::ok();
}

/// Over what is readable at the compacted revision and everything after it, so that it does not matter how far the
/// deleting has come. A sum over versions: their order in the index is the same everywhere, but nothing depends on it.
Result<Keyspace::Hash> Keyspace::hash_kv(int64_t revision) const {
  const State& state = *state_;
  const int64_t upto = revision <= 0 ? state.revision : revision;
  uint64_t sum = mix(static_cast<uint64_t>(upto));
  for (const auto& [key, entry] : state.index.map()) {
    // Newest first, until the version that the compaction keeps.
    const auto add = [&](const Version& version) {
      if (version.main > upto) return true;
      if (version.main < state.compacted && version.is_tombstone) return false;
      sum += mix(mix(static_cast<uint64_t>(version.main) << 20 ^ version.sub) ^ version.row_crc ^ (version.is_tombstone ? 1u << 31 : 0));
      return version.main > state.compacted;
    };
    if (!add(entry.newest) || !entry.older) continue;
    for (auto it = entry.older->rbegin(); it != entry.older->rend(); ++it)
      if (!add(*it)) break;
  }
  return Hash{static_cast<uint32_t>(sum ^ sum >> 32), upto, state.compacted};
}

}  // namespace rallypoint::mvcc
