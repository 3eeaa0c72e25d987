// Leadership transfer (thesis 3.10): stop taking proposals, bring the target up to date, tell it to campaign
// at once. If it has not taken over within an election time-out the leader goes on.
#pragma once

#include "raft/core_state.h"

namespace rallypoint::raft::transfer {

void start(CoreState& state, NodeId to);
/// `follower` acked more: perhaps the target has everything now.
void on_acked(CoreState& state, NodeId follower);
void on_tick(CoreState& state);
/// The voter that is the furthest ahead, among those heard lately; 0 if there is none.
[[nodiscard]] NodeId best_successor(const CoreState& state);

}  // namespace rallypoint::raft::transfer
