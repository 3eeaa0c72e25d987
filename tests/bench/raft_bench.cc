// What the core alone costs: three cores in memory, disks and network instant, batches of proposals to the
// leader. Prints committed entries per second of CPU. Usage: raft_bench [entries per batch] [payload bytes]
// [entries]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <memory>
#include <vector>

#include "raft/core.h"

using namespace rallypoint;
using namespace rallypoint::raft;

namespace {

struct Cores {
  std::vector<std::unique_ptr<Core>> cores;
  std::deque<Message> network;
  uint64_t committed = 0;  ///< at the leader

  explicit Cores(uint64_t count) {
    Membership bootstrap;
    for (uint64_t id = 1; id <= count; ++id) bootstrap.voters.push_back({NodeId(id), DirectoryId()});
    for (uint64_t id = 1; id <= count; ++id) {
      Config config;
      config.id = NodeId(id);
      config.directory = DirectoryId(id);
      cores.push_back(std::make_unique<Core>(config, id, RestoredState{{}, {{}, {}, bootstrap}}));
    }
  }
  void drain(Core& core, bool leader) {
    for (bool again = true; again;) {
      Output output = core.take_output();
      for (Message& message : output.messages) network.push_back(std::move(message));
      if (!output.committed.empty()) {
        if (leader) committed += output.committed.size();
        core.step(Applied{output.committed.back().index});
        if (core.last_index() > core.first_index() + 10000)
          core.step(Compact{output.committed.back().index - 1000});
      }
      again = !output.writes.empty();
      if (again) core.step(Persisted{output.writes.back().number});
    }
  }
  void settle() {
    while (!network.empty()) {
      Message message = std::move(network.front());
      network.pop_front();
      const uint64_t to = message.to.value();
      Core& core = *cores[to - 1];
      core.step(MessageReceived{std::move(message)});
      drain(core, to == 1);
    }
  }
  void tick() {
    for (size_t i = 0; i < cores.size(); ++i) {
      cores[i]->tick();
      drain(*cores[i], i == 0);
    }
    settle();
  }
};

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t batch = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 256;
  const size_t bytes = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 256;
  const uint64_t total = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 2'000'000;
  for (const uint64_t nodes : {1, 3, 5}) {
    Cores cluster(nodes);
    for (int i = 0; i < 10; ++i) cluster.tick();
    cluster.committed = 0;
    const Bytes payload(std::string(bytes, 'x'));
    const double start = cpu_seconds();
    uint64_t rounds = 0;
    while (cluster.committed < total) {
      Propose event;
      event.batch.reserve(batch);
      for (uint64_t i = 0; i < batch; ++i) event.batch.push_back({i, payload});
      cluster.cores[0]->step(std::move(event));
      cluster.drain(*cluster.cores[0], true);
      cluster.settle();
      if (++rounds % 64 == 0) cluster.tick();
    }
    const double seconds = cpu_seconds() - start;
    std::printf("nodes=%llu batch=%llu bytes=%zu entries=%llu cpu_s=%.3f entries_per_cpu_s=%.0f\n",
                static_cast<unsigned long long>(nodes), static_cast<unsigned long long>(batch), bytes,
                static_cast<unsigned long long>(cluster.committed), seconds,
                static_cast<double>(cluster.committed) / seconds);
  }
  return 0;
}
