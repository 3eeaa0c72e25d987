#include "server/auto_compactor.h"

#include <algorithm>

namespace rallypoint::server {
namespace {
/// etcd looks every five minutes; a look is cheap, and less history is less memory.
constexpr Duration kLookAtRevisions = Duration::seconds(10);
constexpr Duration kBetweenCompactionsMax = Duration::seconds(3600);
/// Samples of the time that is kept: what is kept is this exact.
constexpr int64_t kSamples = 10;
}  // namespace

std::optional<int64_t> AutoCompactor::tick(Instant now, int64_t revision, int64_t compacted, bool leads) {
  if (settings_.mode == AutoCompaction::Mode::kOff || now < next_) return std::nullopt;
  next_ = now + (settings_.mode == AutoCompaction::Mode::kRevisions ? kLookAtRevisions : Duration::micros(settings_.time.us / kSamples));
  const std::optional<int64_t> to = wanted(now, revision);
  if (!to || *to <= compacted || !leads) return std::nullopt;
  compacted_at_ = now;
  return to;
}

std::optional<int64_t> AutoCompactor::wanted(Instant now, int64_t revision) {
  if (settings_.mode == AutoCompaction::Mode::kRevisions) return revision - settings_.revisions;
  samples_.push_back({now, revision});
  // Of the samples that are old enough only the newest is of use.
  while (samples_.size() > 1 && samples_[1].at + settings_.time <= now) samples_.pop_front();
  if (now < samples_.front().at + settings_.time) return std::nullopt;
  if (compacted_at_.us != 0 && now < compacted_at_ + std::min(settings_.time, kBetweenCompactionsMax)) return std::nullopt;
  return samples_.front().revision;
}

}  // namespace rallypoint::server
