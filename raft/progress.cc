#include "raft/progress.h"

#include <algorithm>

namespace rallypoint::raft {

void Progress::clear_under_way() {
  inflight_.clear();
  inflight_bytes_ = 0;
  probe_sent = false;
  waited = 0;
}

void Progress::become_probe() {
  clear_under_way();
  transfer.reset();
  mode = Mode::kProbe;
  next = match + 1;
}

void Progress::become_replicate() {
  clear_under_way();
  transfer.reset();
  mode = Mode::kReplicate;
  next = match + 1;
}

void Progress::become_snapshot() {
  clear_under_way();
  mode = Mode::kSnapshot;
}

void Progress::sent(Index last, size_t bytes) {
  if (mode == Mode::kProbe) {
    probe_sent = true;
    waited = 0;
    return;
  }
  if (inflight_.empty()) waited = 0;
  inflight_.push_back({last, bytes});
  inflight_bytes_ += bytes;
  next = last + 1;
}

bool Progress::acked(Index acked_match) {
  while (!inflight_.empty() && inflight_.front().last <= acked_match) {
    inflight_bytes_ -= inflight_.front().bytes;
    inflight_.pop_front();
  }
  if (acked_match <= match) return false;
  match = acked_match;
  next = std::max(next, match + 1);
  waited = 0;
  return true;
}

bool Progress::refused(Index request_previous, Index meet) {
  if (mode == Mode::kSnapshot || request_previous <= match) return false;
  if (mode == Mode::kReplicate) {
    // Something before it got lost. What is acked stays acked.
    become_probe();
    return true;
  }
  if (request_previous != next - 1) return false;
  next = std::max(match, std::min(meet, request_previous - 1)) + 1;
  probe_sent = false;
  return true;
}

const char* mode_name(Progress::Mode mode) {
  switch (mode) {
    case Progress::Mode::kProbe:
      return "probe";
    case Progress::Mode::kReplicate:
      return "replicate";
    case Progress::Mode::kSnapshot:
      return "snapshot";
  }
  return "?";
}

}  // namespace rallypoint::raft
