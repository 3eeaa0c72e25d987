#include "server/rpc/listener.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <sstream>

#include "server/obs/logging.h"
#include "server/rpc/early_listen.h"

namespace rallypoint::server {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr int kBacklog = 4096;  // a restart storm of a large job; the kernel caps it at somaxconn

Result<std::vector<tcp::endpoint>> resolve(asio::io_context& context, const Url& url, const std::string& option) {
  std::vector<tcp::endpoint> endpoints;
  error_code error;
  const auto address = asio::ip::make_address(url.host, error);
  if (!error) {
    endpoints.emplace_back(address, url.port);
    return endpoints;
  }
  if (url.host == "localhost") {
    endpoints.emplace_back(asio::ip::address_v4::loopback(), url.port);
    endpoints.emplace_back(asio::ip::address_v6::loopback(), url.port);
    return endpoints;
  }
  tcp::resolver resolver(context);
  const auto found = resolver.resolve(url.host, std::to_string(url.port), tcp::resolver::passive, error);
  if (error)
    return Status::invalid_argument("--" + option + ": the host of " + url.to_string() + " can't be resolved (" +
                                    error.message() + "); give an IP address of this machine, or localhost");
  for (const auto& entry : found)
    if (std::find(endpoints.begin(), endpoints.end(), entry.endpoint()) == endpoints.end())
      endpoints.push_back(entry.endpoint());
  return endpoints;
}

error_code listen_on(tcp::acceptor& acceptor, const tcp::endpoint& endpoint) {
  error_code error;
  if (const int early = take_early_listener(endpoint.data()); early >= 0) {
    acceptor.assign(endpoint.protocol(), early, error);
    return error;
  }
  acceptor.open(endpoint.protocol(), error);
  if (error) return error;
  acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (error) return error;
  // "::" takes IPv4 too, as people expect of it; any other IPv6 address is only itself.
  if (endpoint.address().is_v6()) {
    acceptor.set_option(asio::ip::v6_only(!endpoint.address().is_unspecified()), error);
    if (error) return error;
  }
  acceptor.bind(endpoint, error);
  if (error) return error;
  acceptor.listen(kBacklog, error);
  return error;
}

bool is_absent_family(const error_code& error) {
  return error == asio::error::address_family_not_supported ||
         error == boost::system::errc::address_not_available || error == boost::system::errc::protocol_not_supported;
}

std::string to_text(const tcp::endpoint& endpoint) {
  std::ostringstream out;
  out << endpoint;
  return out.str();
}

}  // namespace

Result<std::vector<tcp::acceptor>> bind_url(asio::io_context& context, const Url& url, const std::string& option) {
  auto endpoints = resolve(context, url, option);
  if (!endpoints.is_ok()) return endpoints.status();

  std::vector<tcp::acceptor> acceptors;
  error_code absent;
  uint16_t port = url.port;
  for (tcp::endpoint endpoint : endpoints.value()) {
    endpoint.port(port);  // port 0: all addresses of the name get the port that the first one got
    tcp::acceptor acceptor(context);
    const error_code error = listen_on(acceptor, endpoint);
    if (!error) {
      port = acceptor.local_endpoint().port();
      acceptors.push_back(std::move(acceptor));
    } else if (is_absent_family(error)) {
      absent = error;
    } else if (error == asio::error::address_in_use) {
      return Status::already_exists("--" + option + ": " + url.to_string() + ": the address " + to_text(endpoint) +
                                    " is in use by another process (see `ss -ltnp`); stop it, or choose another port");
    } else if (error == asio::error::access_denied) {
      return Status(Code::kPermissionDenied, "--" + option + ": " + url.to_string() + ": no permission to listen on " +
                                                 to_text(endpoint) + "; ports below 1024 need root, choose a higher one");
    } else {
      return Status::invalid_argument("--" + option + ": " + url.to_string() + ": can't listen on " +
                                      to_text(endpoint) + ": " + error.message());
    }
  }
  if (acceptors.empty())
    return Status::invalid_argument("--" + option + ": " + url.to_string() + ": this machine does not have the address " +
                                    url.host + " (" + absent.message() +
                                    "); give one that `ip addr` shows, or 0.0.0.0 for all");
  return acceptors;
}

Listener::Listener(tcp::acceptor&& acceptor, ChooseContext choose, OnAccept on_accept)
    : acceptor_(std::move(acceptor)),
      pause_(acceptor_.get_executor()),
      choose_(std::move(choose)),
      on_accept_(std::move(on_accept)),
      port_(acceptor_.local_endpoint().port()),
      address_(to_text(acceptor_.local_endpoint())) {}

void Listener::accept() {
  acceptor_.async_accept(choose_(), [this](error_code error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (!error) {
      on_accept_(std::move(socket));
      return accept();
    }
    if (error == asio::error::connection_aborted) return accept();
    // Out of descriptors or memory: it passes when connections close. Spinning on it would not help them to.
    log_warning("can't accept a connection", {{"address", address_}, {"reason", error.message()}});
    pause_.expires_after(std::chrono::milliseconds(100));
    pause_.async_wait([this](error_code stopped) {
      if (!stopped) accept();
    });
  });
}

}  // namespace rallypoint::server
