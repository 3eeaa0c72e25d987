#include "raft/read_index.h"

#include "raft/planted_bug.h"

namespace rallypoint::raft {

void ReadIndexQueue::add(NodeId from, uint64_t id, Index commit) {
  const uint64_t first_round = RALLY_PLANTED_BUG(kReadWithStaleRound) ? round_ : round_ + 1;
  waiting_.push_back({from, id, commit, first_round});
}

void ReadIndexQueue::admit_early(Index commit) {
  for (const LeaderRead& read : early_) add(read.from, read.id, commit);
  early_.clear();
}

std::vector<LeaderRead> ReadIndexQueue::take_confirmed(uint64_t confirmed) {
  std::vector<LeaderRead> reads;
  while (!waiting_.empty() && waiting_.front().round <= confirmed) {
    reads.push_back(waiting_.front());
    waiting_.pop_front();
  }
  return reads;
}

std::vector<LeaderRead> ReadIndexQueue::take_all() {
  std::vector<LeaderRead> reads = std::move(early_);
  reads.insert(reads.end(), waiting_.begin(), waiting_.end());
  early_.clear();
  waiting_.clear();
  return reads;
}

uint64_t ForwardedReads::add(uint64_t id) {
  const uint64_t wire_id = next_wire_id_++;
  waiting_[wire_id] = {id, 0};
  return wire_id;
}

std::optional<uint64_t> ForwardedReads::take(uint64_t wire_id) {
  auto it = waiting_.find(wire_id);
  if (it == waiting_.end()) return std::nullopt;
  const uint64_t id = it->second.id;
  waiting_.erase(it);
  return id;
}

std::vector<uint64_t> ForwardedReads::take_all() {
  std::vector<uint64_t> ids;
  for (const auto& [wire_id, waiting] : waiting_) ids.push_back(waiting.id);
  waiting_.clear();
  return ids;
}

std::vector<uint64_t> ForwardedReads::tick(Ticks ticks_max) {
  std::vector<uint64_t> ids;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (++it->second.age < ticks_max) {
      ++it;
      continue;
    }
    ids.push_back(it->second.id);
    it = waiting_.erase(it);
  }
  return ids;
}

}  // namespace rallypoint::raft
