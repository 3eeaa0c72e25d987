// Link: one lane to one peer, from this node's side: dials, introduces itself, keeps dialling. Peer loop only.
//
//   waiting -> resolving -> connecting -> greeting -> up
//      ^___________|____________|____________|________|     (up: at once; else after a back-off)
//
// Nothing is queued while it is not up: what Raft had to say then is stale when the link is back, and Raft repeats
// what still matters. After a break the first dial is immediate; if the port refuses it, the process behind it is
// gone (a kernel that answers for a dead process sends a reset), which followers use to elect without waiting.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "raft/base/random.h"
#include "server/transport/connection.h"

namespace rallypoint::server {

class Link final : public Connection::Owner, public std::enable_shared_from_this<Link> {
 public:
  class Events {
   public:
    virtual void on_link_up(NodeId peer, Lane lane) = 0;
    virtual void on_link_down(NodeId peer, Lane lane) = 0;
    /// It was up, broke, and the port refused a new connection at once.
    virtual void on_link_refused(NodeId peer, Lane lane) = 0;
    /// The peer says that this member was removed.
    virtual void on_link_removed(NodeId peer) = 0;

   protected:
    ~Events() = default;
  };

  Link(LoopContext& context, NodeId peer, Lane lane, Events& events);

  /// Where to dial from the next time on; a link that is waiting dials at once.
  void set_endpoints(std::vector<HostPort> endpoints);
  /// The peer has just shown that it lives: a link that waits dials at once, from the shortest back-off on.
  void dial_now();
  /// For good; nothing is told.
  void close();
  void tick();

  /// False: not up, or its queue is full. It leaves with flush().
  bool enqueue(FrameType type, std::string_view head, std::span<const Bytes> payloads) {
    return up_ && connection_->enqueue(type, head, payloads);
  }
  void flush() {
    if (up_) connection_->flush();
  }
  [[nodiscard]] bool is_up() const { return up_; }

 private:
  using Endpoint = boost::asio::ip::tcp::endpoint;

  Status on_frame(Frame frame) override;
  void on_read_done() override {}
  void on_closed(const Status& why) override;

  // One dial, in its steps. `dial_` numbers them: what belongs to an older one is ignored.
  void dial();
  void resolve_from(size_t endpoint);
  void connect_from(size_t candidate);
  void on_connected();
  void on_connect_failed(const boost::system::error_code& error, size_t candidate);
  /// Where others find this member, as far as it knows: told in every hello.
  [[nodiscard]] std::vector<HostPort> own_endpoints() const;
  void dial_failed(const std::string& why, bool refused);
  void retry_after(Duration delay);
  Duration next_backoff();
  [[nodiscard]] std::string name() const;

  LoopContext& context_;
  const NodeId peer_;
  const Lane lane_;
  Events& events_;
  std::vector<HostPort> endpoints_;
  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::ip::tcp::socket socket_;  ///< while connecting
  boost::asio::steady_timer timer_;
  Random random_;
  std::shared_ptr<Connection> connection_;  ///< while greeting or up

  uint64_t dial_ = 0;
  bool closed_ = false;
  bool up_ = false;
  bool waiting_ = true;
  bool connecting_ = false;
  uint64_t connect_began_ = 0;           ///< round of LoopContext::now
  std::vector<Endpoint> candidates_;
  std::string dial_errors_;
  bool any_refused_ = false;             ///< of this dial
  bool any_other_error_ = false;
  int immediate_dials_left_ = 0;         ///< > 0: the link has just broken and we ask whether the process is gone
  size_t failures_ = 0;                  ///< since it was last up
  std::string last_logged_;              ///< a peer that stays away is one line, not one per dial
};

}  // namespace rallypoint::server
