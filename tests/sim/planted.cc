#include "tests/sim/planted.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "raft/planted_bug.h"

namespace rallypoint::sim {
namespace {

using raft::PlantedBugInfo;

constexpr bool kBugsAreCompiledIn =
#if defined(RALLY_PLANTED_BUGS) && RALLY_PLANTED_BUGS
    true;
#else
    false;
#endif

const PlantedBugInfo* find(const std::string& name) {
  for (const PlantedBugInfo& info : raft::planted_bugs()) {
    if (name == info.name) return &info;
  }
  std::fprintf(stderr, "no planted bug is called '%s'; they are:\n", name.c_str());
  for (const PlantedBugInfo& info : raft::planted_bugs()) std::fprintf(stderr, "  %s\n", info.name);
  return nullptr;
}

struct Catch {
  uint64_t seed = 0;  ///< seeds are 1, 2, 3 ..., so this is also how many it took
  std::string property;
};

/// The lowest seed that fails. Threads look at seeds in order; a find ends the search once all lower ones are
/// done.
std::optional<Catch> hunt(uint64_t seeds_max, unsigned jobs, const RunOptions& options) {
  std::optional<Catch> best;
  std::mutex mutex;
  std::atomic<uint64_t> next{1};
  const auto work = [&] {
    for (;;) {
      const uint64_t seed = next++;
      {
        const std::lock_guard lock(mutex);
        if (seed > seeds_max || (best && seed > best->seed)) return;
      }
      const RunResult result = run_seed(seed, options);
      const std::lock_guard lock(mutex);
      if (!result.passed && (!best || seed < best->seed)) best = Catch{seed, result.property};
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < jobs; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return best;
}

}  // namespace

bool plant(const std::string& name) {
  if (!kBugsAreCompiledIn) {
    std::fprintf(stderr, "this build has no planted bugs; use rallypoint_sim_planted\n");
    return false;
  }
  const PlantedBugInfo* info = find(name);
  if (info == nullptr) return false;
  raft::active_planted_bug = info->bug;
  return true;
}

int find_planted_bugs(const std::string& names, uint64_t seeds_max, unsigned jobs,
                      const RunOptions& options) {
  std::vector<const PlantedBugInfo*> wanted;
  if (names == "all") {
    for (const PlantedBugInfo& info : raft::planted_bugs()) wanted.push_back(&info);
  } else {
    std::stringstream list(names);
    for (std::string name; std::getline(list, name, ',');) {
      wanted.push_back(find(name));
      if (wanted.back() == nullptr) return 2;
    }
  }
  std::printf("| bug | what the code does wrong | caught by | seeds needed |\n|---|---|---|---|\n");
  size_t missed = 0;
  for (const PlantedBugInfo* info : wanted) {
    if (!plant(info->name)) return 2;
    const auto found = hunt(seeds_max, jobs, options);
    if (!found) ++missed;
    std::printf("| %s | %s | %s | %s |\n", info->name, info->description,
                found ? found->property.c_str() : "NOT FOUND",
                found ? std::to_string(found->seed).c_str() : ("> " + std::to_string(seeds_max)).c_str());
    std::fflush(stdout);
  }
  raft::active_planted_bug = raft::PlantedBug::kNone;
  std::printf("\n%zu of %zu planted bugs found\n", wanted.size() - missed, wanted.size());
  return missed == 0 ? 0 : 1;
}

}  // namespace rallypoint::sim
