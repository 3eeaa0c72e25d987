#include "server/rpc/early_listen.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

// Nothing here may need a constructor, allocate or throw: it runs before all that is set up.
namespace {

constexpr int kListenersMax = 8;
constexpr int kBacklog = 4096;  // as in listener.cc

struct EarlyListener {
  sockaddr_storage address;
  int descriptor;  // -1 once it was taken
};
// Zero-initialised, so no constructor of ours can run later and empty it.
EarlyListener g_listeners[kListenersMax];
int g_count = 0;

bool same_address(const sockaddr_storage& stored, const sockaddr* address) {
  if (stored.ss_family != address->sa_family) return false;
  if (address->sa_family == AF_INET) {
    const auto& a = reinterpret_cast<const sockaddr_in&>(stored);
    const auto* b = reinterpret_cast<const sockaddr_in*>(address);
    return a.sin_port == b->sin_port && a.sin_addr.s_addr == b->sin_addr.s_addr;
  }
  const auto& a = reinterpret_cast<const sockaddr_in6&>(stored);
  const auto* b = reinterpret_cast<const sockaddr_in6*>(address);
  return a.sin6_port == b->sin6_port && std::memcmp(&a.sin6_addr, &b->sin6_addr, sizeof a.sin6_addr) == 0;
}

void listen_early(int family, const void* address, uint16_t port) {
  if (g_count == kListenersMax) return;
  EarlyListener& listener = g_listeners[g_count];
  std::memset(&listener.address, 0, sizeof listener.address);
  socklen_t size = 0;
  bool wildcard = false;
  if (family == AF_INET) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(listener.address);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, address, sizeof v4.sin_addr);
    size = sizeof v4;
  } else {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(listener.address);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&v6.sin6_addr, address, sizeof v6.sin6_addr);
    wildcard = IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr);
    size = sizeof v6;
  }
  const int descriptor = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return;
  const int on = 1;
  const int v6_only = wildcard ? 0 : 1;
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (family == AF_INET6) ::setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only);
  if (::bind(descriptor, reinterpret_cast<sockaddr*>(&listener.address), size) != 0 ||
      ::listen(descriptor, kBacklog) != 0) {
    ::close(descriptor);
    return;
  }
  listener.descriptor = descriptor;
  ++g_count;
}

// One "http://host:port"; anything else is left to the real parser.
void listen_on_url(const char* begin, const char* end) {
  constexpr char kScheme[] = "http://";
  constexpr size_t kSchemeSize = sizeof kScheme - 1;
  if (static_cast<size_t>(end - begin) <= kSchemeSize || std::memcmp(begin, kScheme, kSchemeSize) != 0)
    return;
  begin += kSchemeSize;
  const char* colon = end;
  while (colon != begin && *colon != ':') --colon;
  if (colon == begin) return;
  unsigned port = 0;
  for (const char* digit = colon + 1; digit != end; ++digit) {
    if (*digit < '0' || *digit > '9' || port > 65535) return;
    port = port * 10 + static_cast<unsigned>(*digit - '0');
  }
  if (port == 0 || port > 65535) return;
  const bool bracketed = *begin == '[' && colon[-1] == ']';
  const char* host_begin = bracketed ? begin + 1 : begin;
  const size_t host_size = static_cast<size_t>((bracketed ? colon - 1 : colon) - host_begin);
  char host[INET6_ADDRSTRLEN];
  if (host_size == 0 || host_size >= sizeof host) return;
  std::memcpy(host, host_begin, host_size);
  host[host_size] = '\0';

  in_addr v4;
  in6_addr v6;
  if (std::strcmp(host, "localhost") == 0) {
    v4.s_addr = htonl(INADDR_LOOPBACK);
    v6 = IN6ADDR_LOOPBACK_INIT;
    listen_early(AF_INET, &v4, static_cast<uint16_t>(port));
    listen_early(AF_INET6, &v6, static_cast<uint16_t>(port));
  } else if (bracketed) {
    if (::inet_pton(AF_INET6, host, &v6) == 1) listen_early(AF_INET6, &v6, static_cast<uint16_t>(port));
  } else if (::inet_pton(AF_INET, host, &v4) == 1) {
    listen_early(AF_INET, &v4, static_cast<uint16_t>(port));
  }
}

void listen_on_urls(const char* list) {
  while (*list != '\0') {
    const char* end = list;
    while (*end != '\0' && *end != ',') ++end;
    listen_on_url(list, end);
    list = *end == ',' ? end + 1 : end;
  }
}

void read_command_line(int argc, char** argv, char**) {
  constexpr char kOption[] = "listen-client-urls";
  constexpr size_t kOptionSize = sizeof kOption - 1;
  for (int i = 1; i < argc; ++i) {
    const char* argument = argv[i];
    if (*argument != '-') continue;
    argument += argument[1] == '-' ? 2 : 1;
    if (std::strncmp(argument, kOption, kOptionSize) != 0) continue;
    if (argument[kOptionSize] == '=') {
      listen_on_urls(argument + kOptionSize + 1);
    } else if (argument[kOptionSize] == '\0' && i + 1 < argc) {
      listen_on_urls(argv[i + 1]);
    }
    return;
  }
}

// The sanitizers' run time is set up in .preinit_array too, in no order that we could rely on.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
__attribute__((section(".preinit_array"),
               used)) void (*const g_before_everything)(int, char**, char**) = read_command_line;
#endif

}  // namespace

namespace rallypoint::server {

int take_early_listener(const sockaddr* address) {
  for (int i = 0; i < g_count; ++i) {
    if (g_listeners[i].descriptor >= 0 && same_address(g_listeners[i].address, address)) {
      const int descriptor = g_listeners[i].descriptor;
      g_listeners[i].descriptor = -1;
      return descriptor;
    }
  }
  return -1;
}

void close_early_listeners() {
  for (int i = 0; i < g_count; ++i) {
    if (g_listeners[i].descriptor >= 0) ::close(g_listeners[i].descriptor);
    g_listeners[i].descriptor = -1;
  }
}

}  // namespace rallypoint::server
