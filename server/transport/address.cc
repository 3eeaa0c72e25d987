#include "server/transport/address.h"

#include <charconv>

namespace rallypoint::server {

using boost::asio::ip::tcp;

Result<SplitAddress> split_address(const std::string& text) {
  const auto bad = [&](const char* why) {
    return Status::invalid_argument("address '" + text + "' " + why + "; expected host:port or [ipv6]:port");
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return bad("has no port");
  SplitAddress address;
  const char* first = text.data() + colon + 1;
  const char* last = text.data() + text.size();
  const auto parsed = std::from_chars(first, last, address.port);
  if (parsed.ec != std::errc() || parsed.ptr != last) return bad("has a port that is no number below 65536");
  address.host = text.substr(0, colon);
  if (!address.host.empty() && address.host.front() == '[') {
    if (address.host.back() != ']') return bad("has an unclosed bracket");
    address.host = address.host.substr(1, address.host.size() - 2);
  } else if (address.host.find(':') != std::string::npos) {
    return bad("has an IPv6 address without brackets");
  }
  return address;
}

std::optional<tcp::endpoint> numeric_endpoint(const SplitAddress& address) {
  if (address.host.empty()) return tcp::endpoint(tcp::v4(), address.port);
  boost::system::error_code error;
  const auto ip = boost::asio::ip::make_address(address.host, error);
  if (error) return std::nullopt;
  return tcp::endpoint(ip, address.port);
}

std::string to_text(const tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  return (endpoint.address().is_v6() ? "[" + host + "]" : host) + ":" + std::to_string(endpoint.port());
}

}  // namespace rallypoint::server
