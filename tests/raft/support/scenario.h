// Scenario: a story about a cluster in a text file, with everything that the nodes did in answer to each
// line.
//
//   # Prose is kept.
//   > nodes 1 2 3            commands; this one (or cluster) must be the first
//   > start 1 2 3
//   1: asks for pre-votes .. what happened, as printed by the run
//
// Commands: nodes (ids of blank nodes) | cluster (the same, but started, and the first leader elected,
// unprinted)
//   start, crash, restart, wipe (ids) | tick [n] | settle | elect | stall, unstall (disk of ids)
//   propose ID WORD.. | read ID NUMBER | compact ID | transfer ID TO | leader-gone ID LEADER
//   change ID CHANGE:MEMBER.. with add, promote, demote, remove | cut A B | isolate ID | heal
//   messages on|off (print what is delivered, heartbeats aside) | show (states and state machines)
#pragma once

#include <string>

namespace rallypoint::raft::test {

/// Runs `text` and returns it with the outcome in place of what was there.
[[nodiscard]] std::string run_scenario(const std::string& text);

}  // namespace rallypoint::raft::test
