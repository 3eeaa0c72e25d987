// KeptAnswers: the answers to writes that carried an idempotency key, so that a client may send a write again after a lost
// connection and have it executed once. Kept for a stated window of cluster time, and so many at most; older ones go first.
// The same key with another request is refused. Part of the replicated state, pure; owned by the state machine.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "raft/base/status.h"
#include "raft/base/units.h"
#include "storage/engine/engine.h"
#include "storage/mvcc/keyspace.h"

namespace rallypoint::server {

class KeptAnswers {
 public:
  static constexpr Duration kWindow = Duration::seconds(600);
  static constexpr size_t kAnswersMax = 100'000;
  static constexpr size_t kBytesMax = 64 << 20;  ///< of keys and answers in memory

  /// The kept answer for this key, InvalidArgument if it belongs to another request, or null.
  [[nodiscard]] const mvcc::Outcome* find(std::string_view key, uint64_t request_hash) const;
  void keep(std::string_view key, uint64_t request_hash, const mvcc::Outcome& outcome, Instant now);
  /// Forgets what is older than the window.
  void expire(Instant now);

  void collect_changes(storage::WriteBatch& batch);
  Status load(const storage::EngineView& view);
  [[nodiscard]] size_t size() const { return by_key_.size(); }
  [[nodiscard]] uint64_t digest() const { return digest_; }

  static uint64_t hash_of(std::string_view request);

 private:
  struct Kept {
    uint64_t serial = 0;
    uint64_t request_hash = 0;
    mvcc::Outcome outcome;
    Instant at;
  };
  void drop_oldest();

  std::unordered_map<std::string, Kept> by_key_;
  std::deque<std::string> order_;  ///< keys by serial, oldest first
  uint64_t next_serial_ = 1;
  size_t bytes_ = 0;
  uint64_t digest_ = 0;
  storage::WriteBatch changes_;
  std::vector<std::string> unwritten_;  ///< kept since the last collect
  mvcc::Outcome other_request_{Status::invalid_argument("rallypoint: this idempotency key belongs to another request; use a new key for each write"), {}};
};

}  // namespace rallypoint::server
