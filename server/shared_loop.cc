#include "server/shared_loop.h"

#include <sys/prctl.h>

#include <chrono>

#include "server/node_loop.h"

namespace rallypoint::server {
namespace {
/// Completions handled in one round: a client that sends without a pause must not keep the node waiting.
constexpr int kRoundMax = 256;
constexpr unsigned kFewCores = 2;
/// A round that took so many requests is busy: the loop rests before it looks at the sockets again.
constexpr uint64_t kBusyRequests = 2;
constexpr auto kRest = std::chrono::microseconds(100);
constexpr unsigned long kTimerSlackNs = 1000;  // the kernel's own would add half as much again to the rest
}  // namespace

SharedLoop::~SharedLoop() { join(); }

bool SharedLoop::pays_off() { return std::thread::hardware_concurrency() <= kFewCores; }

void SharedLoop::start(NodeLoop& node) {
  // From a handler of this thread the node's turn follows anyway.
  node.mailbox().set_waker([this] {
    if (!rounds_.is_here()) rounds_.post([] {});
  });
  thread_ = std::thread([this, &node] { run(node); });
}

void SharedLoop::join() {
  if (thread_.joinable()) thread_.join();
}

void SharedLoop::run(NodeLoop& node) {
  ::prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
  rounds_.begin();
  uint64_t taken = 0;
  while (!node.is_done()) {
    if (std::exchange(taken, node.requests_taken()) + kBusyRequests <= taken) std::this_thread::sleep_for(kRest);
    if (!node.wants_turn() && !rounds_.has_posted())
      rounds_.context().run_one_until(std::chrono::steady_clock::time_point(std::chrono::microseconds(node.next_tick().us)));
    serve_sockets();
    rounds_.run_posted();
    if (!node.wants_turn()) continue;
    node.turn();
    rounds_.run_posted();
  }
  serve_sockets();
  rounds_.run_posted();
}

void SharedLoop::serve_sockets() {
  for (int i = 0; i < kRoundMax && rounds_.context().poll_one() != 0; ++i) {
  }
}

}  // namespace rallypoint::server
