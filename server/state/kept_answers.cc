#include "server/state/kept_answers.h"

#include "raft/base/crc32c.h"
#include "server/state/command.pb.h"
#include "server/state/rows.h"

namespace rallypoint::server {
namespace {
size_t bytes_of(std::string_view key, const mvcc::Outcome& outcome) {
  return 2 * key.size() + outcome.response.size() + outcome.status.message().size() + 160;
}
}  // namespace

uint64_t KeptAnswers::hash_of(std::string_view request) {
  return uint64_t{crc32c(0, request)} << 32 | crc32c(0x9e3779b9, request);
}

const mvcc::Outcome* KeptAnswers::find(std::string_view key, uint64_t request_hash) const {
  auto it = by_key_.find(std::string(key));
  if (it == by_key_.end()) return nullptr;
  return it->second.request_hash == request_hash ? &it->second.outcome : &other_request_;
}

void KeptAnswers::keep(std::string_view key, uint64_t request_hash, const mvcc::Outcome& outcome, Instant now) {
  std::string owned(key);
  RALLY_CHECK(!by_key_.contains(owned));
  bytes_ += bytes_of(key, outcome);
  digest_ += request_hash * 31 + crc32c(0, outcome.response);
  by_key_.emplace(owned, Kept{next_serial_++, request_hash, outcome, now});
  order_.push_back(owned);
  unwritten_.push_back(std::move(owned));
  while (by_key_.size() > kAnswersMax || bytes_ > kBytesMax) drop_oldest();
}

void KeptAnswers::expire(Instant now) {
  while (!order_.empty() && by_key_.at(order_.front()).at + kWindow < now) drop_oldest();
}

void KeptAnswers::drop_oldest() {
  auto it = by_key_.find(order_.front());
  bytes_ -= bytes_of(it->first, it->second.outcome);
  digest_ -= it->second.request_hash * 31 + crc32c(0, it->second.outcome.response);
  changes_.erase(rows::numbered(rows::kKeptAnswer, it->second.serial));
  by_key_.erase(it);
  order_.pop_front();
}

void KeptAnswers::collect_changes(storage::WriteBatch& batch) {
  for (const std::string& key : unwritten_) {
    auto it = by_key_.find(key);
    if (it == by_key_.end()) continue;  // dropped again since
    const Kept& kept = it->second;
    pb::KeptAnswer row;
    row.set_key(key);
    row.set_request_hash(kept.request_hash);
    row.set_code(static_cast<uint32_t>(kept.outcome.status.code()));
    row.set_text(kept.outcome.status.message());
    row.set_response(kept.outcome.response);
    row.set_cluster_time_us(kept.at.us);
    batch.put(rows::numbered(rows::kKeptAnswer, kept.serial), row.SerializeAsString());
  }
  unwritten_.clear();
  for (const auto& operation : changes_.operations()) batch.erase(operation.key);
  changes_.clear();
}

Status KeptAnswers::load(const storage::EngineView& view) {
  Status damage;
  RALLY_RETURN_IF_ERROR(view.scan(rows::kKeptAnswer, rows::end_of(rows::kKeptAnswer), [&](auto key, auto value) {
    pb::KeptAnswer row;
    if (key.size() != rows::kKeptAnswer.size() + 8 || !row.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
      damage = Status::data_loss("a kept answer in the state is malformed");
      return false;
    }
    Kept kept{rows::number_of(key), row.request_hash(), {Status(static_cast<Code>(row.code()), row.text()), row.response()}, {row.cluster_time_us()}};
    next_serial_ = kept.serial + 1;
    bytes_ += bytes_of(row.key(), kept.outcome);
    digest_ += kept.request_hash * 31 + crc32c(0, kept.outcome.response);
    order_.push_back(row.key());
    by_key_.emplace(row.key(), std::move(kept));
    return true;
  }));
  return damage;
}

}  // namespace rallypoint::server
