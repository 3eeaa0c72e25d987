// What the transport's tests share: a handler that records and can be waited for, and a raw client socket.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/transport/address.h"
#include "server/transport/frame.h"
#include "server/transport/transport.h"

namespace rallypoint::server {

/// How long a test waits for what must happen; only a broken build ever waits so long.
constexpr auto kPatience = std::chrono::seconds(30);

class Recorder final : public TransportHandler {
 public:
  struct App {
    NodeId from;
    uint8_t type = 0;
    Bytes payload;
  };

  void on_messages(std::vector<raft::Message>&& batch) override {
    update([&] {
      for (auto& message : batch) messages.push_back(std::move(message));
    });
  }
  void on_app(NodeId from, uint8_t type, Bytes payload) override {
    update([&] { apps.push_back({from, type, std::move(payload)}); });
  }
  void on_peer_lost(NodeId peer) override {
    update([&] { lost.push_back(peer); });
  }
  void on_peer_up(NodeId peer) override {
    update([&] { up.push_back(peer); });
  }

  void on_removed(NodeId peer) override {
    update([&] { removed_by.push_back(peer); });
  }
  void on_founded_twice(NodeId peer) override {
    update([&] { founded_twice.push_back(peer); });
  }

  /// Waits until `condition` (read under the lock) holds; false if it never did.
  bool wait(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, condition);
  }
  /// A consistent look at the fields.
  template <class Function>
  auto look(Function function) {
    std::lock_guard lock(mutex_);
    return function();
  }

  std::vector<raft::Message> messages;
  std::vector<App> apps;
  std::vector<NodeId> lost;
  std::vector<NodeId> up;
  std::vector<NodeId> removed_by;
  std::vector<NodeId> founded_twice;

 private:
  template <class Function>
  void update(Function function) {
    std::lock_guard lock(mutex_);
    function();
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// Polls a counter of the transport, which has no event of its own.
inline bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

constexpr uint64_t kCluster = 77;

inline TransportOptions test_options(uint64_t id) {
  TransportOptions options;
  options.cluster_id = kCluster;
  options.self = NodeId(id);
  options.directory = DirectoryId(id * 100);
  options.listen = {"127.0.0.1:0"};
  // Loaded test machines freeze threads for seconds; tests of silence set their own.
  options.silence_max = Duration::seconds(20);
  options.refused_retry = Duration::millis(50);
  return options;
}

/// A member under test: transport and recorder.
struct TestNode {
  explicit TestNode(TransportOptions options) : id(options.self), transport(std::move(options), recorder) {
    const Status status = transport.listen();
    EXPECT_TRUE(status.is_ok()) << status;
    transport.start();
  }
  ~TestNode() { transport.stop(); }
  [[nodiscard]] HostPort address() const { return transport.listening().at(0); }
  void know(std::vector<PeerAddress> peers) { transport.set_peers(std::move(peers)); }
  bool wait_up(NodeId peer, size_t times = 1) {
    return recorder.wait([&] { return static_cast<size_t>(std::count(recorder.up.begin(), recorder.up.end(), peer)) >= times; });
  }
  bool wait_lost(NodeId peer) {
    return recorder.wait([&] { return std::count(recorder.lost.begin(), recorder.lost.end(), peer) > 0; });
  }

  NodeId id;
  Recorder recorder;
  Transport transport;
};

inline raft::Message heartbeat(NodeId from, NodeId to, uint64_t round) {
  return {from, to, Term(1), DirectoryId(1), raft::Heartbeat{Index(1), round}};
}
inline raft::Message append(NodeId from, NodeId to, uint64_t index, std::string payload) {
  raft::AppendRequest request;
  request.previous = {Term(1), Index(index - 1)};
  request.entries.push_back({Term(1), Index(index), raft::EntryKind::kCommand, Bytes(std::move(payload))});
  return {from, to, Term(1), DirectoryId(1), std::move(request)};
}

/// A client that says what it likes.
class RawPeer {
 public:
  explicit RawPeer(const HostPort& to) : socket_(io_) {
    socket_.connect(*numeric_endpoint(split_address(to).value()));
  }
  void write(std::string_view bytes) {
    boost::system::error_code ignored;  // the other side may have hung up already
    boost::asio::write(socket_, boost::asio::buffer(bytes.data(), bytes.size()), ignored);
  }
  /// All bytes until the other side hangs up.
  std::string read_to_end() {
    std::string all;
    char buffer[4096];
    boost::system::error_code error;
    while (!error) all.append(buffer, socket_.read_some(boost::asio::buffer(buffer), error));
    return all;
  }

 private:
  boost::asio::io_context io_;
  boost::asio::ip::tcp::socket socket_;
};

}  // namespace rallypoint::server
