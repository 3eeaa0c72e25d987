// Following: what a node does with the messages of its term's leader, snapshots aside. An ack vouches for
// durability, so it waits for the write; a refusal is sent at once.
#pragma once

#include "raft/core_state.h"

namespace rallypoint::raft::following {

/// Takes `message.from` for this term's leader. False if that can't be (then the message is void): two
/// leaders in one term, or a message to a leader of that very term.
bool accept_leader(CoreState& state, const Message& message);
void on_append(CoreState& state, const Message& message, AppendRequest request);
void on_heartbeat(CoreState& state, const Message& message, const Heartbeat& heartbeat);

// Reads of a node that does not lead.
void read(CoreState& state, uint64_t id);
void on_read_index_reply(CoreState& state, const Message& message, const ReadIndexReply& reply);
void on_tick(CoreState& state);

}  // namespace rallypoint::raft::following
