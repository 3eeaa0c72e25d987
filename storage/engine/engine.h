// Engine: the ordered key-value store under the state machine. Two forms: RocksEngine (RocksDB, its own WAL off:
// the Raft log is the WAL) and MemoryEngine (behaves the same for tests and simulation: a crash falls back to the
// last flush). All of one apply batch goes in with one write(), applied index included, so that state and index can
// never part.
//
// Single writer (the apply loop); snapshots may be read from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "raft/base/status.h"

namespace rallypoint::storage {

/// Changes that take effect together, in order.
class WriteBatch {
 public:
  struct Operation {
    enum class Kind : uint8_t { kPut, kErase, kEraseRange } kind;
    std::string key;    ///< kEraseRange: first key
    std::string value;  ///< kEraseRange: end, exclusive
  };
  void put(std::string key, std::string value) {
    operations_.push_back({Operation::Kind::kPut, std::move(key), std::move(value)});
  }
  void erase(std::string key) { operations_.push_back({Operation::Kind::kErase, std::move(key), {}}); }
  void erase_range(std::string from, std::string to) {
    operations_.push_back({Operation::Kind::kEraseRange, std::move(from), std::move(to)});
  }
  [[nodiscard]] const std::vector<Operation>& operations() const { return operations_; }
  [[nodiscard]] bool empty() const { return operations_.empty(); }
  void clear() { operations_.clear(); }
  /// All of `other`, behind what is here.
  void append(WriteBatch&& other) {
    if (operations_.empty()) operations_ = std::move(other.operations_);
    else std::move(other.operations_.begin(), other.operations_.end(), std::back_inserter(operations_));
    other.operations_.clear();
  }

 private:
  std::vector<Operation> operations_;
};

/// A consistent, read-only view. Lives no longer than its engine.
class EngineView {
 public:
  virtual ~EngineView() = default;
  /// nullopt value = no such key; DataLoss = a checksum failed.
  virtual Result<std::optional<std::string>> get(std::string_view key) const = 0;
  /// Visits keys in [from, to) in order until the visitor returns false. Empty `to` = to the end.
  using Visitor = std::function<bool(std::string_view key, std::string_view value)>;
  virtual Status scan(std::string_view from, std::string_view to, const Visitor& visit) const = 0;
};

class Engine : public EngineView {
 public:
  /// Applies the batch atomically. Visible at once; durable after the flush that covers it.
  virtual Status write(const WriteBatch& batch) = 0;
  /// A view of the state as of now, unaffected by later writes.
  virtual std::unique_ptr<EngineView> snapshot() const = 0;
  /// Starts making everything written so far durable; does not wait.
  virtual Status start_flush() = 0;
  /// Starts giving the space of deleted and replaced rows back; does not wait, and nobody waits for it.
  virtual Status start_compaction() = 0;
  /// Makes everything written so far durable; waits.
  virtual Status flush() = 0;
  /// Reads what a crash right now would leave: only flushed data counts.
  virtual Result<std::optional<std::string>> get_persisted(std::string_view key) const = 0;
  /// Space that it takes, for display: files, and what waits in memory to become files.
  [[nodiscard]] virtual uint64_t bytes_used() const { return 0; }
};

}  // namespace rallypoint::storage
