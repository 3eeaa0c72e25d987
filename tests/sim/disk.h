// Disk: one data directory - log, staged snapshot, flushed engine - with group commit, and with what a crash
// does to it: writes that no sync covered survive as a prefix of their parts. Outlives the processes that use
// it; a wiped one is kept aside, frozen, so that the oracle can still ask what it vouched for.
//
// With a real log (profile.real_log) every write also goes to a storage::Wal on a lossy file system, and
// recovery takes what Wal::open finds, once it has been compared with the model.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "raft/base/random.h"
#include "raft/core.h"
#include "tests/sim/coverage.h"
#include "tests/sim/engine.h"
#include "tests/sim/log_model.h"
#include "tests/sim/real_log.h"

namespace rallypoint::sim {

class Disk {
 public:
  Disk(DirectoryId id, NodeId owner, raft::Membership bootstrap, bool real_log, Random& random,
       Coverage& coverage);

  [[nodiscard]] DirectoryId id() const { return id_; }
  [[nodiscard]] NodeId owner() const { return owner_; }
  [[nodiscard]] const LogModel& issued() const { return issued_; }
  [[nodiscard]] const LogModel& durable() const { return durable_; }
  /// The engine's state as a crash would leave it.
  [[nodiscard]] const EngineState& flushed() const { return flushed_; }
  [[nodiscard]] bool dead() const { return dead_; }
  /// How many bytes of that snapshot were durable at most, ever.
  [[nodiscard]] uint64_t staged_of(raft::EntryId snapshot) const {
    const auto it = staged_most_.find(snapshot);
    return it == staged_most_.end() ? 0 : it->second;
  }

  /// Hands a write over. True if the disk was idle: the caller starts a sync.
  bool submit(raft::Write write);
  /// Everything waiting goes into the sync that begins now.
  void begin_sync();
  /// The sync is over: what it covered is durable. Gives the number of its last write; `installed` is set if
  /// a snapshot took the engine's place.
  raft::WriteNumber finish_sync(std::optional<EngineState>& installed);
  [[nodiscard]] bool has_waiting() const { return !pending_.empty(); }

  void flush(const EngineState& state);
  /// Lets a real log give its old segments back.
  void release(Index index);

  /// The process or the machine dies: of the pending writes a prefix of their parts stays.
  void crash();
  /// What a new process finds.
  [[nodiscard]] raft::RestoredState recover();
  /// The directory was deleted; nobody opens it again.
  void bury() { dead_ = true; }

 private:
  void take(LogModel& log, const raft::Write& write) const;
  /// Takes up to `parts` parts of `write` into the durable state; gives how many there were.
  size_t make_durable(const raft::Write& write, size_t parts, std::optional<EngineState>& installed);
  void finish_install();
  /// `found` by the real log after a crash must be the durable state and a prefix of what was being synced.
  void accept_recovered(LogModel found);

  DirectoryId id_;
  NodeId owner_;
  Random& random_;
  Coverage& coverage_;
  LogModel issued_;
  LogModel durable_;
  EngineState flushed_;
  raft::SnapshotMeta
      staged_meta_;  ///< of the snapshot being received; its bytes are durable as far as they go
  std::string staged_;
  std::map<raft::EntryId, uint64_t> staged_most_;
  std::deque<raft::Write> pending_;
  size_t syncing_ = 0;
  std::unique_ptr<RealLog> real_;
  std::deque<raft::Write> torn_;  ///< with a real log, after a crash: the writes that were being synced
  bool dead_ = false;
};

}  // namespace rallypoint::sim
