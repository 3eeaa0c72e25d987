// Snapshotting: cutting the log, and bringing a member up to date whose next entries were cut (paper 7).
//
//   leader                                   driver                  follower
//   snapshot_wanted ----------------------->  makes one
//   <--- SnapshotReady{meta, size} ---------
//   snapshot_reads{offset} ---------------->  reads
//   <--- SnapshotBytes{offset, data} -------
//   InstallSnapshot{meta, offset, data} ------------------------------>  Write{chunk}
//   <--- InstallSnapshotReply{next_offset}, once the write is durable --
//   ... until the last piece is durable: then it is installed, and the follower's log begins right after it.
//
// One piece is under way to a follower at a time; the follower's durable offset says what comes next, so a
// transfer goes on where it stopped after a lost message or a restart of neither side. A piece at offset 0
// always begins anew: two snapshots of the same point, by two leaders, need not be equal byte for byte. While
// the last piece is with the log loop the follower takes no appends and does not campaign, since its log is
// about to be replaced.
#pragma once

#include "raft/core_state.h"

namespace rallypoint::raft::snapshotting {

// Leader.
/// `follower` has just become kSnapshot: begin with the snapshot at hand, or ask the driver for one.
void serve(CoreState& state, Progress& follower);
void on_ready(CoreState& state, SnapshotReady event);
void on_bytes(CoreState& state, SnapshotBytes event);
void on_reply(CoreState& state, const Message& message, const InstallSnapshotReply& reply);
/// A heartbeat was answered: send the piece again if it has been under way for long.
void resend_if_lost(CoreState& state, Progress& follower);
/// A follower left kSnapshot: perhaps the log may be cut further now.
void transfer_ended(CoreState& state);

// Any role.
void on_compact(CoreState& state, Index index);
// Follower.
void on_install(CoreState& state, const Message& message, InstallSnapshot request);
/// The last piece is durable and verified.
void installed(CoreState& state, SnapshotMeta meta);

}  // namespace rallypoint::raft::snapshotting
