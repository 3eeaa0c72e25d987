// "host:port" texts <-> endpoints. Pure but for the types.
#pragma once

#include <boost/asio/ip/tcp.hpp>

#include <optional>
#include <string>

#include "raft/base/status.h"

namespace rallypoint::server {

struct SplitAddress {
  std::string host;  ///< without brackets; empty = any
  uint16_t port = 0;
};
/// Splits "host:port"; an IPv6 address must stand in brackets.
Result<SplitAddress> split_address(const std::string& text);
/// The endpoint, if the host is an address and not a name.
std::optional<boost::asio::ip::tcp::endpoint> numeric_endpoint(const SplitAddress& address);
std::string to_text(const boost::asio::ip::tcp::endpoint& endpoint);

}  // namespace rallypoint::server
