#include "raft/transfer.h"

namespace rallypoint::raft::transfer {
namespace {
void answer(CoreState& state, Status status) {
  state.output.transfer_results.push_back({std::move(status)});
}
}  // namespace

NodeId best_successor(const CoreState& state) {
  const Progress* best = nullptr;
  for (const Progress& follower : state.leading->followers) {
    const Member* voter = find_in(state.membership().voters, follower.id);
    if (voter == nullptr || !follower.is_alive() || !CoreState::counts(*voter, follower.directory)) continue;
    if (best == nullptr || best->match < follower.match) best = &follower;
  }
  return best == nullptr ? NodeId() : best->id;
}

void start(CoreState& state, NodeId to) {
  if (state.role != Role::kLeader) return answer(state, Status::unavailable("this node does not lead"));
  Leadership& leading = *state.leading;
  if (to.is_zero()) to = best_successor(state);
  if (to.is_zero()) return answer(state, Status::unavailable("no other voter is up"));
  if (to == state.config.id) return answer(state, Status::ok());
  if (find_in(state.membership().voters, to) == nullptr)
    return answer(state, Status::invalid_argument("node " + std::to_string(to.value()) + " is not a voter"));
  if (leading.transfer.has_value())
    return answer(state, Status::failed_precondition("leadership is already being handed over"));
  leading.transfer = Leadership::Transfer{to};
  state.trace(trace::TransferStarted{to});
  on_acked(state, to);
}

void on_acked(CoreState& state, NodeId id) {
  auto& transfer = state.leading->transfer;
  if (!transfer.has_value() || transfer->to != id || transfer->told) return;
  const Progress* follower = state.find_follower(id);
  if (follower == nullptr || follower->match != state.log.last_index()) return;
  transfer->told = true;
  state.send(id, TimeoutNow{});
}

void on_tick(CoreState& state) {
  auto& transfer = state.leading->transfer;
  if (!transfer.has_value() || ++transfer->elapsed < state.config.election_ticks) return;
  const NodeId to = transfer->to;
  transfer.reset();
  state.trace(trace::TransferEnded{to, false});
  answer(state, Status::unavailable("node " + std::to_string(to.value()) + " did not take over in time"));
}

}  // namespace rallypoint::raft::transfer
