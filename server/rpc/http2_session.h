// Http2Session: one HTTP/2 connection of a gRPC client: the socket around a GrpcCore. What arrives is read into the loop's
// buffer, so that a connection at rest needs none. Output is written without waiting, once per round of the loop, so that
// all answers of a round leave in one write.
//
// Owned by its NetLoop and by its pending socket operations; the loop's thread only.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <string>

#include "server/rpc/connection.h"
#include "server/rpc/grpc_core.h"

namespace rallypoint::server {

class NetLoop;

class Http2Session final : public Connection, private GrpcCore::Host {
 public:
  /// `received`: what the client has sent so far, its preface at least.
  Http2Session(NetLoop& loop, boost::asio::ip::tcp::socket&& socket, std::string&& received);

  void start() override;
  void on_reply(Reply&& reply) override { core_.on_reply(std::move(reply)); }
  void resume() override;
  void on_tick(uint64_t tick) override;
  void close() override;

 private:
  ReplySink* sink() override;
  uint64_t make_token() override;
  void submit(Request&& request) override;
  Backend& backend() override;
  Instant now() const override;
  void arm(Instant at) override;

  void read();
  void on_readable(boost::system::error_code error);
  void take(std::string_view bytes);
  void flush();
  void post_flush();
  void drop();
  [[nodiscard]] std::shared_ptr<Http2Session> self();

  NetLoop& loop_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer timer_;
  GrpcCore core_;
  std::string received_;         ///< before start()
  std::string output_;
  size_t written_ = 0;
  uint64_t counted_requests_ = 0;
  uint64_t deadline_tick_ = 0;   ///< of the greeting, or of a write that makes no progress; 0 = none
  uint64_t quiet_since_tick_ = 0;  ///< when the client was last heard
  bool pinged_ = false;            ///< since then
  bool flush_posted_ = false;    ///< one flush per round, behind all that the round brings
  bool write_waiting_ = false;
  bool closed_ = false;
};

}  // namespace rallypoint::server
