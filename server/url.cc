// Url (server/options.h): its text, and what is refused in one.
#include <arpa/inet.h>

#include <charconv>

#include "server/options.h"

namespace rallypoint::server {

std::string Url::to_string() const { return scheme + "://" + host_port(); }

std::string Url::host_port() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<Url> Url::parse(std::string_view text) {
  const std::string quoted = "\"" + std::string(text) + "\"";
  const auto wrong = [&](const std::string& why) {
    return Status::invalid_argument(quoted + " " + why + "; write e.g. http://10.0.0.1:2379");
  };
  Url url;
  const size_t scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos) return wrong("has no scheme");
  url.scheme = text.substr(0, scheme_end);
  if (url.scheme == "https") return wrong("asks for TLS, which is not there yet");
  if (url.scheme != "http") return wrong("has a scheme other than http");
  std::string_view rest = text.substr(scheme_end + 3);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.find_first_of("/?#@ \t") != std::string_view::npos) return wrong("has more than a host and a port");
  const size_t colon = rest.rfind(':');
  const std::string_view host = rest.substr(0, colon);
  if (colon == std::string_view::npos || (host.starts_with('[') != host.ends_with(']')))
    return wrong("has no port");
  const std::string_view port = rest.substr(colon + 1);
  const auto [stop, error] = std::from_chars(port.data(), port.data() + port.size(), url.port);
  if (port.empty() || error != std::errc() || stop != port.data() + port.size())
    return wrong("has no port from 0 to 65535");
  if (host.starts_with('[')) {
    url.host = host.substr(1, host.size() - 2);
    in6_addr address;
    if (::inet_pton(AF_INET6, url.host.c_str(), &address) != 1) return wrong("has no IPv6 address in its brackets");
  } else {
    url.host = host;
    if (url.host.empty()) return wrong("has no host");
    if (url.host.find(':') != std::string::npos) return wrong("has an IPv6 address without brackets");
  }
  return url;
}

}  // namespace rallypoint::server
