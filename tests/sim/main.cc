// rallypoint_sim: runs the deterministic simulation over many seeds. A failure prints one line that replays
// it.
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/sim/cluster.h"
#include "tests/sim/planted.h"

namespace rallypoint::sim {
namespace {

thread_local uint64_t current_seed = 0;

/// A crash of the process must not hide which seed did it.
void on_fatal_signal(int number) {
  char text[96];
  const int n = std::snprintf(text, sizeof text, "\nfatal signal %d in --seed %llu\n", number,
                              static_cast<unsigned long long>(current_seed));
  if (n > 0) (void)!::write(2, text, static_cast<size_t>(n));
  std::signal(number, SIG_DFL);
  std::raise(number);
}

struct Totals {
  uint64_t runs = 0;
  uint64_t steps = 0;
  int64_t simulated_us = 0;
  uint64_t longest_seed = 0;
  uint64_t longest_steps = 0;
  std::map<uint64_t, RunResult> failures;
  Coverage coverage;
};

void print_failure(uint64_t seed, const RunResult& result, const RunOptions& options) {
  std::string command =
      options.bug.empty() ? "rallypoint_sim" : "rallypoint_sim_planted --bugs " + options.bug;
  command += " --seed " + std::to_string(seed);
  if (options.nodes > 0) command += " --nodes " + std::to_string(options.nodes);
  if (options.chaos.us > 0) command += " --time " + std::to_string(options.chaos.us / 1000);
  if (!options.real_log) command += " --no-real-log";
  std::printf("FAILED after %.3f s: %s\n  replay: %s --trace\n", static_cast<double>(result.end.us) / 1e6,
              result.message.c_str(), command.c_str());
  std::fflush(stdout);
}

Totals run_range(uint64_t from, uint64_t count, unsigned jobs, const RunOptions& options) {
  Totals totals;
  std::mutex mutex;
  std::atomic<uint64_t> next{from};
  const auto work = [&] {
    for (uint64_t seed = next++; seed < from + count; seed = next++) {
      current_seed = seed;
      RunResult result = run_seed(seed, options);
      const std::lock_guard lock(mutex);
      ++totals.runs;
      totals.steps += result.steps;
      totals.simulated_us += result.end.us;
      totals.coverage.merge(result.coverage);
      if (result.steps > totals.longest_steps) {
        totals.longest_steps = result.steps;
        totals.longest_seed = seed;
      }
      if (!result.passed) {
        print_failure(seed, result, options);
        totals.failures.emplace(seed, std::move(result));
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < jobs; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return totals;
}

int run_one(uint64_t seed, const RunOptions& options) {
  current_seed = seed;
  const RunResult first = run_seed(seed, options);
  RunOptions quiet = options;
  quiet.story = false;
  const RunResult second = run_seed(seed, quiet);
  if (!first.passed) print_failure(seed, first, options);
  std::printf("seed %llu: %s, %llu steps, %.3f s simulated, trace %016llx\n",
              static_cast<unsigned long long>(seed), first.passed ? "passed" : "failed",
              static_cast<unsigned long long>(first.steps), static_cast<double>(first.end.us) / 1e6,
              static_cast<unsigned long long>(first.hash));
  if (first.hash != second.hash || first.steps != second.steps) {
    std::printf("NOT DETERMINISTIC: the second run has trace %016llx\n",
                static_cast<unsigned long long>(second.hash));
    return 1;
  }
  return first.passed ? 0 : 1;
}

int run_many(uint64_t from, uint64_t count, unsigned jobs, const RunOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const Totals totals = run_range(from, count, jobs, options);
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double simulated = static_cast<double>(totals.simulated_us) / 1e6;
  std::printf(
      "%llu seeds, %zu failed; %.0f s simulated in %.1f s (%.0f times as fast), %.0f steps per second\n",
      static_cast<unsigned long long>(totals.runs), totals.failures.size(), simulated, wall, simulated / wall,
      static_cast<double>(totals.steps) / wall);
  std::printf("  longest: seed %llu, %llu steps\n", static_cast<unsigned long long>(totals.longest_seed),
              static_cast<unsigned long long>(totals.longest_steps));
  totals.coverage.print();
  if (totals.failures.empty()) return 0;
  std::map<std::string, std::vector<uint64_t>> by_property;
  for (const auto& [seed, result] : totals.failures) by_property[result.property].push_back(seed);
  for (const auto& [property, seeds] : by_property) {
    std::printf("  %zu times: %s, first by seed %llu\n", seeds.size(), property.c_str(),
                static_cast<unsigned long long>(seeds.front()));
  }
  return 1;
}

}  // namespace
}  // namespace rallypoint::sim

int main(int argc, char** argv) {
  using namespace rallypoint;
  CLI::App app{"Deterministic simulation of a Rallypoint cluster's Raft."};
  uint64_t seed = 0;
  std::string seeds = "1:200";
  int64_t time_ms = 0;
  unsigned jobs = 1;
  bool no_real_log = false;
  std::string bugs;
  uint64_t seeds_max = 3000;
  sim::RunOptions options;
  auto* one = app.add_option("--seed", seed, "run this seed, twice, and compare the traces");
  app.add_option("--seeds", seeds, "run a range of seeds, FROM:COUNT");
  app.add_option("--nodes", options.nodes, "nodes at the start, instead of the seed's choice");
  app.add_option("--time", time_ms,
                 "milliseconds of simulated time with faults, instead of the seed's choice");
  app.add_option("--jobs", jobs, "threads");
  app.add_flag("--trace", options.story, "tell the story of the run");
  app.add_flag("--messages", options.messages, "with --trace: tell of each message, too");
  app.add_flag("--no-real-log", no_real_log, "never put the real log under a node");
  auto* planted =
      app.add_option("--bugs", bugs, "find planted bugs: all, or names with commas (planted build only)");
  app.add_option("--seeds-max", seeds_max, "seeds to try for each planted bug");
  CLI11_PARSE(app, argc, argv);
  options.chaos = Duration::millis(time_ms);
  options.real_log = !no_real_log;
  for (const int number : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS}) std::signal(number, sim::on_fatal_signal);

  if (planted->count() > 0 && one->count() == 0)
    return sim::find_planted_bugs(bugs, seeds_max, jobs, options);
  if (planted->count() > 0 && !sim::plant(bugs)) return 2;
  options.bug = bugs;
  if (one->count() > 0) return sim::run_one(seed, options);
  const size_t colon = seeds.find(':');
  uint64_t from = 0;
  uint64_t count = 0;
  try {
    if (colon == std::string::npos) throw std::invalid_argument(seeds);
    from = std::stoull(seeds.substr(0, colon));
    count = std::stoull(seeds.substr(colon + 1));
  } catch (const std::exception&) {
    std::fprintf(stderr, "--seeds wants FROM:COUNT, e.g. 1:200, not '%s'\n", seeds.c_str());
    return 2;
  }
  return sim::run_many(from, count, jobs, options);
}
