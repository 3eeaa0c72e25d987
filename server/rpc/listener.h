// Listener: the bound sockets of the listen URLs, and the loop that accepts on them and deals the connections out.
//
// A URL's host may be a name: it is bound on every address that it resolves to; `localhost` always means both
// 127.0.0.1 and ::1, whatever /etc/hosts says, because clients try either. An address family that this machine lacks
// is skipped; a port in use is an error that says so.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "raft/base/status.h"
#include "server/options.h"

namespace rallypoint::server {

/// Sockets that listen for `url`, at least one. `option` names the option in messages, e.g. "listen-client-urls".
Result<std::vector<boost::asio::ip::tcp::acceptor>> bind_url(boost::asio::io_context& context, const Url& url,
                                                             const std::string& option);

/// Accepts for ever on one socket. Everything runs on the acceptor's own context.
class Listener {
 public:
  /// Gives the io_context that the next connection shall live on.
  using ChooseContext = std::function<boost::asio::io_context&()>;
  /// Takes an accepted socket (of the context chosen for it); called on the acceptor's context.
  using OnAccept = std::function<void(boost::asio::ip::tcp::socket&&)>;

  Listener(boost::asio::ip::tcp::acceptor&& acceptor, ChooseContext choose, OnAccept on_accept);
  void start() { accept(); }
  [[nodiscard]] uint16_t port() const { return port_; }
  /// "127.0.0.1:2379"
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  void accept();

  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  ChooseContext choose_;
  OnAccept on_accept_;
  uint16_t port_;
  std::string address_;
};

}  // namespace rallypoint::server
