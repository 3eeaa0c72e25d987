// Transport::Loop: the peer loop. Owns every link, every accepted connection and the mailbox from other threads.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "server/rounds.h"
#include "server/transport/inbound.h"
#include "server/transport/link.h"
#include "server/transport/transport.h"

namespace rallypoint::server {

class Transport::Loop final : public Link::Events, public Inbound::Events {
 public:
  Loop(TransportOptions options, TransportHandler& handler, Rounds* shared);
  ~Loop();

  // Any thread (listen, start, stop: the owner's).
  Status listen();
  [[nodiscard]] std::vector<HostPort> listening() const;
  void start();
  void stop();
  void set_cluster(ClusterFacts facts);
  void send(std::vector<raft::Message>&& messages);
  void send_app(NodeId to, uint8_t type, Bytes payload);
  [[nodiscard]] const TransportStats& stats() const { return stats_; }

 private:
  using Acceptor = boost::asio::ip::tcp::acceptor;
  struct Peer {
    std::array<std::shared_ptr<Link>, kLanes> links;
    bool lost_told = false;
    bool up_told = false;
    bool is_guest = false;  ///< not among the facts' peers; known by its hello, for as long as it is connected
  };
  struct App {
    NodeId to;
    uint8_t type = 0;
    Bytes payload;
  };

  void wake(bool was_empty);
  void drain_mailbox();
  void enqueue(const raft::Message& message);
  void enqueue(const App& app);
  Link* link_to(NodeId to, Lane lane);
  void mark_dirty(Link* link);

  void apply_facts(ClusterFacts facts);
  void apply_peers(const std::vector<PeerAddress>& peers);
  Peer& add_peer(const PeerAddress& address);
  std::unordered_map<NodeId, Peer>::iterator drop_peer(std::unordered_map<NodeId, Peer>::iterator peer);
  [[nodiscard]] bool is_connected_to_us(NodeId peer) const;
  void on_link_up(NodeId peer, Lane lane) override;
  void on_link_down(NodeId peer, Lane lane) override;
  void on_link_refused(NodeId peer, Lane lane) override;
  void on_link_removed(NodeId peer) override { context_.handler.on_removed(peer); }

  Status bind(const boost::asio::ip::tcp::endpoint& endpoint);
  void accept(Acceptor& acceptor);
  void on_accepted(boost::asio::ip::tcp::socket socket);
  /// Room for one more: by ending the oldest stranger, if need be.
  bool make_room_for_inbound();
  void remove_later(Inbound& inbound);
  void on_inbound_hello(Inbound& inbound) override;
  void on_inbound_closed(Inbound& inbound, const Status& why) override;
  void log_rejected(const std::string& line);

  void schedule_round();
  void round();

  const TransportOptions options_;
  TransportStats stats_;
  std::unique_ptr<Rounds> own_rounds_;  ///< none if they are shared
  Rounds& rounds_;
  boost::asio::io_context& io_{rounds_.context()};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io_.get_executor()};
  LoopContext context_;
  boost::asio::steady_timer round_timer_{io_};
  boost::asio::steady_timer accept_timer_{io_};
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  std::unordered_map<NodeId, Peer> peers_;
  std::vector<std::shared_ptr<Inbound>> inbound_;  ///< oldest first
  LogLimiter rejected_limiter_;
  std::thread thread_;
  bool stopped_ = false;  ///< owner's thread

  std::mutex mutex_;  ///< guards what follows
  std::vector<raft::Message> mailbox_;
  std::vector<App> app_mailbox_;

  // Scratch of drain_mailbox(), kept for its memory.
  std::vector<raft::Message> draining_;
  std::vector<App> app_draining_;
  std::vector<Link*> dirty_;
  std::string head_;
  std::vector<Bytes> payloads_;
};

}  // namespace rallypoint::server
