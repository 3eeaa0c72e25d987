// ReadRounds: reads that wait for a read index. One round is under way at a time and what comes meanwhile shares the next
// (thesis 6.4), so that the cost of a round is shared by more reads the more of them there are. Members far apart answer
// late; then a new round starts every few milliseconds all the same. A round has an id that never repeats in a process;
// one whose answer is lost is asked for again under a new id, so that an old confirmation can never serve a younger read
// (etcd#20418).
//
// Owned by the node loop, single-threaded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "raft/base/units.h"

namespace rallypoint::server {

template <class Reading>  // has `Instant deadline`
class ReadRounds {
 public:
  void add(Reading reading) {
    earliest_ = std::min(earliest_, reading.deadline);
    new_.push_back(std::move(reading));
  }

  /// A read index must be asked for: everything new waits for it under this id; 0 = nothing new, or not yet.
  uint64_t take(Instant now) {
    if (new_.empty()) return 0;
    const auto is_under_way = [&](const auto& round) { return !round.second.confirmed && now < round.second.asked + kPatience; };
    if (std::any_of(rounds_.begin(), rounds_.end(), is_under_way)) return 0;
    const uint64_t id = next_++;
    rounds_.emplace(id, Round{std::exchange(new_, {}), now, {}, false});
    return id;
  }
  void confirmed(uint64_t id, Index index) {
    if (auto it = rounds_.find(id); it != rounds_.end()) it->second.index = index, it->second.confirmed = true;
  }
  void failed(uint64_t id) {
    auto it = rounds_.find(id);
    if (it == rounds_.end()) return;
    std::move(it->second.readings.begin(), it->second.readings.end(), std::back_inserter(new_));
    rounds_.erase(it);
  }
  /// The readings whose index has been applied.
  std::vector<Reading> take_ready(Index applied) {
    std::vector<Reading> ready;
    for (auto it = rounds_.begin(); it != rounds_.end();) {
      if (!it->second.confirmed || applied < it->second.index) {
        ++it;
        continue;
      }
      if (ready.empty()) ready = std::move(it->second.readings);
      else std::move(it->second.readings.begin(), it->second.readings.end(), std::back_inserter(ready));
      it = rounds_.erase(it);
    }
    return ready;
  }
  /// Asks again for what was not confirmed within `retry_after`.
  void retry(Instant now, Duration retry_after) {
    std::vector<uint64_t> lost;
    for (const auto& [id, round] : rounds_)
      if (!round.confirmed && round.asked + retry_after < now) lost.push_back(id);
    for (uint64_t id : lost) failed(id);
  }
  /// Takes out what is too old; cheap when nothing is.
  std::vector<Reading> take_expired(Instant now) {
    std::vector<Reading> old;
    if (now < earliest_) return old;
    earliest_ = kNever;
    const auto sort_out = [&](std::vector<Reading>& readings) {
      std::erase_if(readings, [&](Reading& reading) {
        if (now < reading.deadline) return earliest_ = std::min(earliest_, reading.deadline), false;
        old.push_back(std::move(reading));
        return true;
      });
    };
    for (auto& [id, round] : rounds_) sort_out(round.readings);
    sort_out(new_);
    return old;
  }
  /// Everything that waits is visited, e.g. to drop a caller's.
  template <class Predicate>
  void erase_if(Predicate predicate) {
    for (auto& [id, round] : rounds_) std::erase_if(round.readings, predicate);
    std::erase_if(new_, predicate);
  }

 private:
  struct Round {
    std::vector<Reading> readings;
    Instant asked;
    Index index;
    bool confirmed = false;
  };
  static constexpr Duration kPatience = Duration::millis(5);
  static constexpr Instant kNever{std::numeric_limits<int64_t>::max()};
  Instant earliest_ = kNever;  ///< no reading's deadline is before it
  std::vector<Reading> new_;
  std::map<uint64_t, Round> rounds_;
  uint64_t next_ = 1;
};

}  // namespace rallypoint::server
