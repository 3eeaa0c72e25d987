// Proves that the simulation bites: turns on one planted bug (raft/planted_bug.h) at a time and runs seeds
// until a property breaks. Only the planted build has bugs to find.
#pragma once

#include <cstdint>
#include <string>

#include "tests/sim/cluster.h"

namespace rallypoint::sim {

/// Switches the bug of that name on for this process; false (with a message) if there is none.
bool plant(const std::string& name);

/// "all" or names with commas. Prints bug, property and seeds needed as a table; 1 if one was not found in
/// `seeds_max` seeds or in its stated number, 2 for bad names or a build without bugs.
int find_planted_bugs(const std::string& names, uint64_t seeds_max, unsigned jobs, const RunOptions& options);

}  // namespace rallypoint::sim
