#include "tests/sim/real_log.h"

#include <span>
#include <utility>

#include "tests/sim/violation.h"

namespace rallypoint::sim {
namespace {
constexpr const char* kDirectory = "node/wal";
}

RealLog::RealLog(DirectoryId id, uint64_t seed) : id_(id), random_(seed) {
  options_.segment_bytes = 4096 << random_.below(4);
  options_.hasty_segment_bytes = 4096;
  options_.prepare_step_bytes = 1024;
  options_.gather_payload_bytes = random_.chance(1, 2) ? 16 : 4096;
  auto created = storage::Wal::create(files_, kDirectory, id_, options_);
  SIM_REQUIRE(created.is_ok(), property::kRecovery, "create", created.status());
  wal_ = std::move(created->wal);
}

void RealLog::append(const raft::Write& write) {
  const Status status = wal_->append(std::span(&write, 1));
  SIM_REQUIRE(status.is_ok(), property::kRecovery, "append", status, "write", write.number);
}

void RealLog::sync() {
  Status status = wal_->sync();
  SIM_REQUIRE(status.is_ok(), property::kRecovery, "sync", status);
  if (random_.chance(1, 4)) status = wal_->mark();
  SIM_REQUIRE(status.is_ok(), property::kRecovery, "mark", status);
  for (uint64_t steps = random_.below(4); steps > 0; --steps) {
    const auto more = wal_->prepare_next();
    SIM_REQUIRE(more.is_ok(), property::kRecovery, "prepare", more.status());
  }
}

void RealLog::restart_at(const raft::SnapshotMeta& meta) {
  const Status status = wal_->restart_at(meta);
  SIM_REQUIRE(status.is_ok(), property::kRecovery, "restart", status, "at", meta.index);
}

void RealLog::release(Index index) {
  const Status status = wal_->release(index);
  SIM_REQUIRE(status.is_ok(), property::kRecovery, "release", status);
}

void RealLog::crash() {
  wal_.reset();
  if (random_.chance(3, 4))
    files_.crash(random_.next());
  else
    files_.kill_process();
}

LogModel RealLog::recover() {
  if (wal_) crash();
  auto opened = storage::Wal::open(files_, kDirectory, id_, options_);
  SIM_REQUIRE(opened.is_ok(), property::kRecovery, "open", opened.status());
  wal_ = std::move(opened->wal);
  return {opened->hard_state, std::move(opened->start), opened->entries};
}

}  // namespace rallypoint::sim
