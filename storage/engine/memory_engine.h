// MemoryEngine: a std::map that keeps RocksEngine's promises and no more: what was not flushed is gone after
// crash(). Flushes that were only started, and flushes that RocksDB would begin by itself, happen at moments
// drawn from the seed; always of everything written up to some write, never of half a batch. For tests and
// the simulator; pure.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "raft/base/random.h"
#include "storage/engine/engine.h"

namespace rallypoint::storage {

class MemoryEngine final : public Engine {
 public:
  using Rows = std::map<std::string, std::string, std::less<>>;

  /// `persisted`: what a run before left, see persisted(). Seed 0: flushes happen only when asked for, and at
  /// once.
  explicit MemoryEngine(uint64_t seed = 0, Rows persisted = {});

  Result<std::optional<std::string>> get(std::string_view key) const override;
  Status scan(std::string_view from, std::string_view to, const Visitor& visit) const override;
  Status write(const WriteBatch& batch) override;
  std::unique_ptr<EngineView> snapshot() const override;
  Status start_flush() override;
  Status start_compaction() override { return Status::ok(); }
  Status flush() override;
  Result<std::optional<std::string>> get_persisted(std::string_view key) const override;

  /// Falls back to the last flush, as a killed process does.
  void crash();
  /// What crash() would leave; hand it to the next life's engine.
  [[nodiscard]] const Rows& persisted() const { return *persisted_; }
  [[nodiscard]] const Rows& rows() const { return *rows_; }
  /// Every later write returns `status` (a full disk, a damaged table); OK = no longer.
  void fail_writes(Status status) { write_failure_ = std::move(status); }

 private:
  using Shared = std::shared_ptr<const Rows>;
  void maybe_flush();

  std::shared_ptr<Rows> rows_;  // copied before a write if anybody else looks at it
  Shared persisted_;
  Shared flushing_;  // started, not done; null = none
  Random random_;
  bool random_flushes_;
  Status write_failure_;
};

}  // namespace rallypoint::storage
