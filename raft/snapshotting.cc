#include "raft/snapshotting.h"

#include <algorithm>

#include "raft/following.h"
#include "raft/replication.h"

namespace rallypoint::raft::snapshotting {
namespace {

EntryId id_of(const SnapshotMeta& meta) {
  return {meta.term, meta.index};
}

/// After installing it, the entries that follow are still in the log.
bool is_useful(const CoreState& state, const SnapshotMeta& meta) {
  return state.log.base().index <= meta.index;
}

void want_snapshot(CoreState& state, const Progress& follower) {
  state.snapshots.ready.reset();
  if (state.snapshots.wanted) return;
  state.snapshots.wanted = true;
  state.output.snapshot_wanted = true;
  state.trace(trace::SnapshotWanted{follower.id, state.log.first_index()});
}

void read_piece(CoreState& state, Progress& follower) {
  SnapshotTransfer& transfer = *follower.transfer;
  transfer.reading = true;
  transfer.waited = 0;
  state.output.snapshot_reads.push_back(
      {follower.id, transfer.meta.index, transfer.offset, state.config.snapshot_chunk_bytes});
}

void end_transfer(CoreState& state, Progress& follower, bool installed) {
  if (!follower.transfer.has_value()) return;
  state.trace(trace::SnapshotSendEnded{follower.id, id_of(follower.transfer->meta), installed});
  follower.transfer.reset();
}

}  // namespace

void serve(CoreState& state, Progress& follower) {
  const auto& ready = state.snapshots.ready;
  if (!ready.has_value() || !is_useful(state, ready->meta)) return want_snapshot(state, follower);
  follower.transfer = SnapshotTransfer{ready->meta, ready->size};
  state.trace(trace::SnapshotSendStarted{follower.id, id_of(ready->meta)});
  read_piece(state, follower);
}

void on_ready(CoreState& state, SnapshotReady event) {
  SnapshotState& snapshots = state.snapshots;
  snapshots.wanted = false;
  SnapshotMeta& meta = event.meta;
  const bool known = state.log.base().index <= meta.index && meta.index <= state.log.commit() &&
                     state.log.term_at(meta.index) == meta.term;
  if (known) {
    meta.membership = state.memberships.at(meta.index);
    snapshots.ready = SnapshotState::Ready{std::move(meta), event.size};
  }
  if (!state.leading.has_value()) return;
  for (Progress& follower : state.leading->followers)
    if (follower.mode == Progress::Mode::kSnapshot && !follower.transfer.has_value()) serve(state, follower);
}

void on_bytes(CoreState& state, SnapshotBytes event) {
  Progress* follower = state.find_follower(event.to);
  if (follower == nullptr || !follower->transfer.has_value()) return;
  SnapshotTransfer& transfer = *follower->transfer;
  if (!transfer.reading || transfer.meta.index != event.index || transfer.offset != event.offset) return;
  transfer.reading = false;
  transfer.waited = 0;
  if (event.failed) {
    end_transfer(state, *follower, false);
    return want_snapshot(state, *follower);
  }
  state.send(follower->id, InstallSnapshot{transfer.meta, event.offset, std::move(event.data), event.last});
}

void on_reply(CoreState& state, const Message& message, const InstallSnapshotReply& reply) {
  Progress* follower = replication::heard_from(state, message, reply.blank);
  if (follower == nullptr || follower->mode != Progress::Mode::kSnapshot || !follower->transfer.has_value())
    return;
  SnapshotTransfer& transfer = *follower->transfer;
  if (id_of(transfer.meta) != reply.snapshot) return;
  if (reply.installed) {
    const Index index = transfer.meta.index;
    end_transfer(state, *follower, true);
    if (index + 1 < state.log.first_index()) {
      // The log was cut further meanwhile; probing will find that out and ask for a newer snapshot.
      follower->acked(index);
      follower->become_probe();
    } else {
      replication::acked(state, *follower, index);
    }
    if (state.role == Role::kLeader) transfer_ended(state);
    return;
  }
  if (transfer.reading || reply.next_offset == transfer.offset) return;
  transfer.offset = reply.next_offset <= transfer.size ? reply.next_offset : 0;
  read_piece(state, *follower);
}

void resend_if_lost(CoreState& state, Progress& follower) {
  if (!follower.transfer.has_value()) return;
  if (!follower.transfer->reading && follower.transfer->waited >= state.config.resend_ticks())
    read_piece(state, follower);
}

void transfer_ended(CoreState& state) {
  const Index wanted = state.snapshots.compact_wanted;
  if (state.log.base().index < wanted) on_compact(state, wanted);
}

void on_compact(CoreState& state, Index index) {
  SnapshotState& snapshots = state.snapshots;
  RALLY_CHECK(index <= state.applied, "compact", index, "applied", state.applied);
  if (RALLY_PLANTED_BUG(kCompactBeyondApplied)) index = state.log.deliverable();
  snapshots.compact_wanted = std::max(snapshots.compact_wanted, index);
  if (state.leading.has_value())
    for (const Progress& follower : state.leading->followers)
      if (follower.transfer.has_value()) index = std::min(index, follower.transfer->meta.index);
  if (index <= state.log.base().index || snapshots.installing) return;
  state.log.compact_to(index);
  state.memberships.compact_to(index);
  snapshots.compact_dirty = true;
  state.trace(trace::LogCompacted{index});
}

void on_install(CoreState& state, const Message& message, InstallSnapshot request) {
  if (!following::accept_leader(state, message)) return;
  SnapshotState& snapshots = state.snapshots;
  const EntryId id = id_of(request.meta);
  const bool blank = !state.is_bound();
  const bool over_newer = RALLY_PLANTED_BUG(kSnapshotOverNewerLog);
  if (id.index.is_zero() || id.term.is_zero() || message.term < id.term ||
      !validate_membership(request.meta.membership).is_ok())
    return;
  if (snapshots.installing) return;  // answered when the install is done
  if (!over_newer && (id.index <= state.log.commit() || state.log.matches(id))) {
    // We hold all that it covers: committed on the leader, so committed here.
    if (state.log.commit_to(id.index)) state.trace(trace::CommitAdvanced{id.index});
    state.matched = std::max(state.matched, id.index);
    snapshots.incoming.reset();
    return state.send_when_durable(message.from, InstallSnapshotReply{id, 0, true, blank});
  }
  auto& incoming = snapshots.incoming;
  const bool same = incoming.has_value() && incoming->id == id && incoming->from == message.from &&
                    incoming->term == message.term;
  // A late piece of an older snapshot of the same leader does not interrupt a newer one.
  if (!same && incoming.has_value() && incoming->term == message.term && id < incoming->id) return;
  const uint64_t expected = same ? incoming->next_offset : 0;
  const bool begins = request.offset == 0;
  if (!begins && request.offset != expected && !RALLY_PLANTED_BUG(kSnapshotIgnoresOffset))
    return state.send_when_durable(message.from, InstallSnapshotReply{id, expected, false, blank});
  if (snapshots.chunk.has_value()) return;  // one piece per write; the leader sends it again
  incoming = SnapshotState::Incoming{id, message.from, message.term, request.offset + request.data.size()};
  const bool last = request.last;
  snapshots.chunk = SnapshotChunk{std::move(request.meta), request.offset, std::move(request.data), last};
  if (last) snapshots.installing = true;
  const InstallSnapshotReply reply{id, incoming->next_offset, last, blank};
  if (RALLY_PLANTED_BUG(kSnapshotAckBeforePersisted)) return state.send(message.from, reply);
  state.send_when_durable(message.from, reply);
}

void installed(CoreState& state, SnapshotMeta meta) {
  SnapshotState& snapshots = state.snapshots;
  snapshots.installing = false;
  snapshots.incoming.reset();
  const EntryId id = id_of(meta);
  RALLY_CHECK(state.log.commit() < id.index || RALLY_PLANTED_BUG(kSnapshotOverNewerLog), "commit",
              state.log.commit(), "snapshot", id.index);
  state.log.reset(id);
  state.writes.truncate_from(Index(1));
  if (!RALLY_PLANTED_BUG(kSnapshotForgetsMembership))
    state.memberships.reset(id.index, std::move(meta.membership));
  else
    state.memberships.reset(id.index, state.memberships.current());
  state.applied = std::max(state.applied, id.index);
  state.delivered = RALLY_PLANTED_BUG(kSnapshotOverNewerLog) ? id.index : std::max(state.delivered, id.index);
  state.matched = id.index;
  snapshots.ready.reset();
  snapshots.compact_wanted = Index();
  state.trace(trace::SnapshotInstalled{id});
}

}  // namespace rallypoint::raft::snapshotting
