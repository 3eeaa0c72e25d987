// Inbound: one accepted connection. Judges the hello, then decodes what the peer says and hands it over in the
// batches that the reads brought. Peer loop only.
//
// Whoever connects is a stranger until its hello was accepted, and even then only believed about itself: messages
// in another member's name end the connection.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/transport/connection.h"

namespace rallypoint::server {

class Inbound final : public Connection::Owner {
 public:
  class Events {
   public:
    /// Its hello was accepted: from now on it speaks for this peer on this lane.
    virtual void on_inbound_hello(Inbound& inbound) = 0;
    /// It is over. InvalidArgument: for what it sent; DeadlineExceeded: for what it did not send. It may be
    /// destroyed, but not right now.
    virtual void on_inbound_closed(Inbound& inbound, const Status& why) = 0;

   protected:
    ~Events() = default;
  };

  Inbound(LoopContext& context, boost::asio::ip::tcp::socket socket, Events& events);

  void start() { connection_->start(); }
  void tick() { connection_->tick(); }
  void close() { connection_->close(); }

  [[nodiscard]] bool is_greeted() const { return greeted_; }
  /// By what is known now.
  [[nodiscard]] bool is_welcome() const { return !judge().has_value(); }
  [[nodiscard]] bool is_open() const { return connection_->is_open(); }
  [[nodiscard]] NodeId peer() const { return hello_.from; }
  /// Where it says that it can be dialled.
  [[nodiscard]] const std::vector<HostPort>& endpoints() const { return hello_.endpoints; }
  [[nodiscard]] Lane lane() const { return hello_.lane; }
  [[nodiscard]] const std::string& remote() const { return remote_; }

 private:
  struct App {
    uint8_t type = 0;
    Bytes payload;
  };

  Status on_frame(Frame frame) override;
  void on_read_done() override;
  void on_closed(const Status& why) override { events_.on_inbound_closed(*this, why); }
  [[nodiscard]] std::optional<Reject> judge() const;
  Status on_query(const Frame& frame);
  Status on_hello(const Frame& frame);
  Status on_message(const Bytes& body);

  LoopContext& context_;
  Events& events_;
  std::shared_ptr<Connection> connection_;
  std::string remote_;
  bool greeted_ = false;
  Hello hello_;
  // What the current read brought. Only handed over when all of it is decoded, see FrameReader::settle().
  std::vector<raft::Message> messages_;
  std::vector<App> apps_;
};

}  // namespace rallypoint::server
