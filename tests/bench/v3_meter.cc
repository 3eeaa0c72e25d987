#include "tests/bench/v3_meter.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "raft/base/check.h"

namespace rallypoint::bench {
namespace {

double seconds_of(clockid_t clock) {
  timespec time{};
  RALLY_CHECK(clock_gettime(clock, &time) == 0);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

uint64_t resident_bytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  uint64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

double Meter::server_cpu_seconds() const {
  double sum = 0;
  for (const pid_t pid : pids_) {
    clockid_t clock;
    RALLY_CHECK(clock_getcpuclockid(pid, &clock) == 0, "pid", pid);
    sum += seconds_of(clock);
  }
  return sum;
}

void Meter::open() {
  open_ = true;
  opened_ = Clock::now();
  cpu_at_open_ = server_cpu_seconds();
  own_cpu_at_open_ = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

void Meter::close() {
  open_ = false;
  seconds_ = std::chrono::duration<double>(Clock::now() - opened_).count();
  cpu_seconds_ = server_cpu_seconds() - cpu_at_open_;
  own_cpu_seconds_ = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - own_cpu_at_open_;
}

void Meter::failed(const std::string& why) {
  if (++failures_ <= 3) std::fprintf(stderr, "   failed: %s\n", why.c_str());
}

void Meter::print() const {
  auto sorted = latencies_us_;
  std::sort(sorted.begin(), sorted.end());
  const auto percentile = [&sorted](double share) {
    return sorted.empty() ? 0U : sorted[std::min(sorted.size() - 1, static_cast<size_t>(share * static_cast<double>(sorted.size())))];
  };
  std::printf("FIGURES {\"count\": %lu, \"seconds\": %.4f, \"cpu\": %.4f, \"client_cpu\": %.4f, \"p50_us\": %u, \"p99_us\": %u, \"failures\": %lu}\n",
              count_, seconds_, cpu_seconds_, own_cpu_seconds_, percentile(0.5), percentile(0.99), failures_);
}

}  // namespace rallypoint::bench
