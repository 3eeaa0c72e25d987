// Node: a whole member of the cluster in one process. Owns the loops and their threads, wires them together, and is
// the Backend of the client port. Which loop runs on which thread is decided here and nowhere else:
//   node loop 1 · log loop 1 · snapshotter 1 · peer loop 1 (transport) · net loops N (HttpServer)
// or, on few cores, node, peer and net loop together 1 (SharedLoop) · log loop 1 · snapshotter 1
#pragma once

#include <memory>
#include <thread>

#include "server/api/api.h"
#include "server/bootstrap.h"
#include "server/node_loop.h"
#include "server/shared_loop.h"
#include "server/snapshotter.h"
#include "server/transport/transport.h"

namespace rallypoint::server {

class Node final : public Backend, public TransportHandler {
 public:
  /// `shared`: run node and peer loop there; must outlive the node. null = on threads of their own.
  Node(const Options& options, storage::FileSystem& file_system, Bootstrapped bootstrapped, SharedLoop* shared = nullptr);
  ~Node() override;

  /// Binds the peer port.
  Status listen();
  void start();
  /// Hands leadership over and stops; at most about 60 ms plus the writes under way.
  void stop();

  void submit(std::vector<Request>&& requests) override;
  [[nodiscard]] ClusterView cluster_view() const override;
  [[nodiscard]] uint64_t cluster_id() const override { return cluster_id_; }

 private:
  void on_messages(std::vector<raft::Message>&& messages) override;
  void on_app(NodeId from, uint8_t type, Bytes payload) override;
  void on_peer_lost(NodeId peer) override;
  void on_peer_up(NodeId peer) override;
  void on_removed(NodeId peer) override;
  void on_founded_twice(NodeId peer) override;
  void members_changed(const StateMachine& machine);
  static void removed(const std::string& why);
  [[noreturn]] static void fatal(const Status& status);

  const Options options_;
  const SystemClock clock_;
  std::unique_ptr<DirectoryLock> lock_;
  uint64_t cluster_id_;
  std::unique_ptr<LogLoop> log_;
  std::unique_ptr<Snapshotter> snapshotter_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<NodeLoop> loop_;
  SharedLoop* const shared_;
  std::thread thread_;
  ClusterFacts first_facts_;
  std::shared_ptr<const std::vector<NodeId>> known_ = std::make_shared<std::vector<NodeId>>();  ///< members, this one too
};

}  // namespace rallypoint::server
