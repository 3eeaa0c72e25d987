#include "server/shared_loop.h"

#include <boost/asio/post.hpp>
#include <chrono>

#include "server/node_loop.h"

namespace rallypoint::server {
namespace {
/// Completions handled in one round: a client that sends without a pause must not keep the node waiting.
constexpr int kRoundMax = 256;
constexpr unsigned kFewCores = 2;
}  // namespace

SharedLoop::~SharedLoop() { join(); }

bool SharedLoop::pays_off() { return std::thread::hardware_concurrency() <= kFewCores; }

void SharedLoop::start(NodeLoop& node) {
  // From a handler of this thread the node's turn follows anyway.
  node.mailbox().set_waker([this] {
    if (!context_.get_executor().running_in_this_thread()) boost::asio::post(context_, [] {});
  });
  thread_ = std::thread([this, &node] { run(node); });
}

void SharedLoop::join() {
  if (thread_.joinable()) thread_.join();
}

void SharedLoop::run(NodeLoop& node) {
  while (!node.is_done()) {
    if (!node.wants_turn()) context_.run_one_until(std::chrono::steady_clock::time_point(std::chrono::microseconds(node.next_tick().us)));
    serve_sockets();
    if (node.wants_turn()) node.turn();
  }
  serve_sockets();  // what the last turn sent
}

void SharedLoop::serve_sockets() {
  for (int i = 0; i < kRoundMax && context_.poll_one() != 0; ++i) {
  }
}

}  // namespace rallypoint::server
