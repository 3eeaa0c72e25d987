#include "tests/sim/disk.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tests/sim/violation.h"

namespace rallypoint::sim {

Disk::Disk(DirectoryId id, NodeId owner, raft::Membership bootstrap, bool real_log, Random& random,
           Coverage& coverage)
    : id_(id), owner_(owner), random_(random), coverage_(coverage) {
  raft::SnapshotMeta start;
  start.membership = std::move(bootstrap);
  durable_ = LogModel({}, start, {});
  issued_ = durable_;
  flushed_.at = start;
  if (real_log) real_ = std::make_unique<RealLog>(id, random.next());
}

bool Disk::submit(raft::Write write) {
  SIM_REQUIRE(pending_.empty() || write.number > pending_.back().number, property::kDiskContract, "write",
              write.number, "after", pending_.back().number);
  take(issued_, write);
  pending_.push_back(std::move(write));
  return syncing_ == 0;
}

void Disk::begin_sync() {
  // A snapshot's last piece ends the batch: it must be installed before anything after it is written.
  for (syncing_ = 0; syncing_ < pending_.size();) {
    const raft::Write& write = pending_[syncing_++];
    if (real_) real_->append(write);
    if (write.chunk && write.chunk->last) break;
  }
}

/// The log after `write`, as the core sees it once it handed it over. A snapshot takes the log's place later,
/// when it is installed.
void Disk::take(LogModel& log, const raft::Write& write) const {
  if (write.hard_state) {
    SIM_REQUIRE(write.hard_state->term >= log.hard_state.term, property::kDiskContract, "term falls to",
                write.hard_state->term, "from", log.hard_state.term);
    SIM_REQUIRE(write.hard_state->term > log.hard_state.term || log.hard_state.vote.is_zero() ||
                    write.hard_state->vote == log.hard_state.vote,
                property::kVotes, "node", owner_, "term", write.hard_state->term, "votes for",
                write.hard_state->vote, "after", log.hard_state.vote);
    log.hard_state = *write.hard_state;
  }
  for (const raft::Entry& entry : write.entries) log.append(entry);
  if (write.compact_to) log.compact(*write.compact_to);
}

size_t Disk::make_durable(const raft::Write& write, size_t parts, std::optional<EngineState>& installed) {
  size_t done = 0;
  const auto next_part = [&] { return done < parts ? (++done, true) : false; };
  if (write.hard_state && next_part()) durable_.hard_state = *write.hard_state;
  for (const raft::Entry& entry : write.entries) {
    if (!next_part()) return done;
    durable_.append(entry);
  }
  if (write.compact_to && next_part()) durable_.compact(*write.compact_to);
  if (!write.chunk || !next_part()) return done;

  const raft::SnapshotChunk& chunk = *write.chunk;
  if (chunk.offset == 0) {
    staged_meta_ = chunk.meta;
    staged_.clear();
  }
  SIM_REQUIRE(chunk.meta == staged_meta_ && chunk.offset == staged_.size(), property::kSnapshot, "piece at",
              chunk.offset, "staged", staged_.size(), "of snapshot", chunk.meta.index);
  staged_.append(chunk.data.view());
  uint64_t& most = staged_most_[{chunk.meta.term, chunk.meta.index}];
  most = std::max<uint64_t>(most, staged_.size());
  coverage_.add(Counter::kSnapshotPieces);
  if (!chunk.last || !next_part()) return done;
  EngineState state = EngineState::parse(chunk.meta, staged_);
  SIM_REQUIRE(state.at.index >= flushed_.at.index, property::kSnapshot, "installs", state.at.index, "over",
              flushed_.at.index);
  flushed_ = state;
  staged_.clear();
  if (!next_part()) return done;
  durable_.restart_at(chunk.meta);
  issued_.restart_at(chunk.meta);
  if (real_) real_->restart_at(chunk.meta);
  installed = std::move(state);
  coverage_.add(Counter::kSnapshotsInstalled);
  return done;
}

raft::WriteNumber Disk::finish_sync(std::optional<EngineState>& installed) {
  SIM_REQUIRE(syncing_ > 0 && syncing_ <= pending_.size(), property::kDiskContract, "syncing", syncing_);
  if (real_) real_->sync();
  raft::WriteNumber number;
  for (; syncing_ > 0; --syncing_) {
    number = pending_.front().number;
    make_durable(pending_.front(), std::numeric_limits<size_t>::max(), installed);
    pending_.pop_front();
  }
  return number;
}

void Disk::flush(const EngineState& state) {
  if (state.at.index > flushed_.at.index) flushed_ = state;
}

void Disk::release(Index index) {
  if (real_) real_->release(index);
}

void Disk::crash() {
  std::optional<EngineState> ignored;
  if (real_) {
    // What stays is for the real log to show.
    torn_.assign(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(syncing_));
    real_->crash();
  } else if (!pending_.empty()) {
    size_t parts = 0;
    for (const raft::Write& write : pending_) {
      parts += write.entries.size() + (write.hard_state ? 1 : 0) + (write.compact_to ? 1 : 0);
      if (write.chunk) parts += write.chunk->last ? 3 : 1;
    }
    size_t stay = random_.chance(1, 3) ? 0 : random_.between(0, parts);
    if (stay > 0 && stay < parts) coverage_.add(Counter::kTornWrites);
    for (const raft::Write& write : pending_) {
      if (stay == 0) break;
      stay -= make_durable(write, stay, ignored);
    }
  }
  pending_.clear();
  syncing_ = 0;
}

void Disk::finish_install() {
  if (durable_.start().index >= flushed_.at.index) return;
  const auto term = durable_.term_at(flushed_.at.index);
  if (term == flushed_.at.term) return;
  coverage_.add(Counter::kTornInstalls);
  durable_.restart_at(flushed_.at);
  if (real_) real_->restart_at(flushed_.at);
}

void Disk::accept_recovered(LogModel found) {
  LogModel model = durable_;
  bool same = found.says_the_same_as(model);
  const auto next = [&](const auto& take_part) {
    if (same) return;
    take_part();
    same = found.says_the_same_as(model);
    if (same) coverage_.add(Counter::kTornWrites);
  };
  for (const raft::Write& write : torn_) {
    if (write.hard_state) next([&] { model.hard_state = *write.hard_state; });
    for (const raft::Entry& entry : write.entries) next([&] { model.append(entry); });
    if (write.compact_to) next([&] { model.compact(*write.compact_to); });
  }
  SIM_REQUIRE(same, property::kRecovery, "node", owner_, "writes under way", torn_.size(), "found start",
              found.start().index, "last", found.last_index(), "term", found.hard_state.term, "synced last",
              durable_.last_index(), "synced term", durable_.hard_state.term);
  torn_.clear();
  durable_ = std::move(model);
}

raft::RestoredState Disk::recover() {
  if (real_) {
    accept_recovered(real_->recover());
    coverage_.add(Counter::kRealLogRecoveries);
  }
  finish_install();
  issued_ = durable_;
  raft::RestoredState restored;
  restored.hard_state = durable_.hard_state;
  restored.snapshot = durable_.start();
  restored.entries.assign(durable_.entries().begin(), durable_.entries().end());
  restored.applied = flushed_.at.index;
  SIM_REQUIRE(restored.applied >= restored.snapshot.index, property::kRecovery, "applied", restored.applied,
              "start", restored.snapshot.index);
  return restored;
}

}  // namespace rallypoint::sim
