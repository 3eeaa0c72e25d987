#include "storage/engine/memory_engine.h"

namespace rallypoint::storage {
namespace {

using Rows = MemoryEngine::Rows;

std::optional<std::string> find(const Rows& rows, std::string_view key) {
  const auto found = rows.find(key);
  if (found == rows.end()) return std::nullopt;
  return found->second;
}

Status scan_rows(const Rows& rows, std::string_view from, std::string_view to,
                 const EngineView::Visitor& visit) {
  for (auto at = rows.lower_bound(from); at != rows.end() && (to.empty() || at->first < to); ++at) {
    if (!visit(at->first, at->second)) break;
  }
  return Status::ok();
}

class MemoryView final : public EngineView {
 public:
  explicit MemoryView(std::shared_ptr<const Rows> rows) : rows_(std::move(rows)) {}
  Result<std::optional<std::string>> get(std::string_view key) const override { return find(*rows_, key); }
  Status scan(std::string_view from, std::string_view to, const Visitor& visit) const override {
    return scan_rows(*rows_, from, to, visit);
  }

 private:
  std::shared_ptr<const Rows> rows_;
};

}  // namespace

MemoryEngine::MemoryEngine(uint64_t seed, Rows persisted)
    : rows_(std::make_shared<Rows>(std::move(persisted))),
      persisted_(rows_),
      random_(seed),
      random_flushes_(seed != 0) {}

Result<std::optional<std::string>> MemoryEngine::get(std::string_view key) const {
  return find(*rows_, key);
}

Status MemoryEngine::scan(std::string_view from, std::string_view to, const Visitor& visit) const {
  return scan_rows(*rows_, from, to, visit);
}

Status MemoryEngine::write(const WriteBatch& batch) {
  RALLY_RETURN_IF_ERROR(write_failure_);
  maybe_flush();  // before the copy below, so that a state nobody kept is not copied
  if (rows_.use_count() > 1) rows_ = std::make_shared<Rows>(*rows_);
  for (const auto& operation : batch.operations()) {
    switch (operation.kind) {
      case WriteBatch::Operation::Kind::kPut:
        (*rows_)[operation.key] = operation.value;
        break;
      case WriteBatch::Operation::Kind::kErase:
        rows_->erase(operation.key);
        break;
      case WriteBatch::Operation::Kind::kEraseRange:
        if (operation.key < operation.value) {
          rows_->erase(rows_->lower_bound(operation.key), rows_->lower_bound(operation.value));
        }
        break;
    }
  }
  return Status::ok();
}

void MemoryEngine::maybe_flush() {
  if (!random_flushes_) return;
  if (flushing_ && random_.chance(1, 4)) {
    persisted_ = std::move(flushing_);
    flushing_.reset();
  }
  if (!flushing_ && random_.chance(1, 64)) persisted_ = rows_;
}

std::unique_ptr<EngineView> MemoryEngine::snapshot() const {
  return std::make_unique<MemoryView>(rows_);
}

Status MemoryEngine::start_flush() {
  RALLY_RETURN_IF_ERROR(write_failure_);
  if (!random_flushes_) return flush();
  if (flushing_) persisted_ = std::move(flushing_);  // one at a time, as in RocksDB
  flushing_ = rows_;
  return Status::ok();
}

Status MemoryEngine::flush() {
  RALLY_RETURN_IF_ERROR(write_failure_);
  persisted_ = rows_;
  flushing_.reset();
  return Status::ok();
}

Result<std::optional<std::string>> MemoryEngine::get_persisted(std::string_view key) const {
  return find(*persisted_, key);
}

void MemoryEngine::crash() {
  flushing_.reset();
  rows_ = std::make_shared<Rows>(*persisted_);
  persisted_ = rows_;
}

}  // namespace rallypoint::storage
