// Replication, the leader's side: proposals into the log, the log to the followers, acks to the commit index.
//
// The leader sends an entry to its followers while its own disk still writes it (thesis 10.2.1); its own log
// counts for the quorum only as far as it is durable. An entry commits by counting only if it is of the
// leader's own term; older ones commit with it (paper 5.4.2, figure 8).
//
// Nothing is sent inside an event: flush() runs once per hand-over and sends each follower what gathered, so
// the size of an append follows the load. Commit news ride on appends; a follower that gets none is told by a
// heartbeat that wants no answer (round 0). An empty append would not do: it travels in the urgent lane,
// might overtake the entries that it follows on, and be refused.
#pragma once

#include "raft/core_state.h"

namespace rallypoint::raft::replication {

/// Becomes the leader's state; appends the first entry of the term: the membership that binds a blank
/// cluster's directories, or else a no-op.
void start_leading(CoreState& state, std::optional<Membership> binding);
/// The membership changed: follow exactly its members, from their bound disks.
void follow_members(CoreState& state);
void on_tick(CoreState& state);

void propose(CoreState& state, Propose event);
/// Appends a membership to the leader's log; it counts at once.
Index append_membership(CoreState& state, Membership membership);
/// Puts a read into the next round.
void read(CoreState& state, NodeId from, uint64_t id);

void on_append_reply(CoreState& state, const Message& message, const AppendReply& reply);
void on_heartbeat_reply(CoreState& state, const Message& message, const HeartbeatReply& reply);
/// The follower whose answer this is, if it comes from the right disk; notes that it lives.
Progress* heard_from(CoreState& state, const Message& message, bool blank);
/// `follower` durably holds the log up to `match`; it may have left a snapshot behind.
void acked(CoreState& state, Progress& follower, Index match);

/// Own writes or acks moved: commit what a quorum holds.
void maybe_commit(CoreState& state);
/// Sends what gathered.
void flush(CoreState& state);

/// Voters that were heard lately make a quorum of `membership`.
[[nodiscard]] bool quorum_is_alive(const CoreState& state, const Membership& membership);
/// The same, counting only those that were heard since the last check-quorum.
[[nodiscard]] bool quorum_was_heard(const CoreState& state);

}  // namespace rallypoint::raft::replication
