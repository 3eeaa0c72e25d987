// RawClient: a blocking socket with a deadline on every read, which sends exactly the bytes it is told to. For tests
// of what no decent HTTP client would send, and of when bytes come.
#pragma once

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>

namespace rallypoint::server {

class RawClient {
 public:
  explicit RawClient(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  ~RawClient() { disconnect(); }
  RawClient(RawClient&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), connected_(other.connected_), received_(std::move(other.received_)) {}

  [[nodiscard]] bool connected() const { return connected_; }
  void disconnect() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  /// Closes the sending half only.
  void end_sending() { ::shutdown(socket_, SHUT_WR); }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  /// Everything up to and including `mark`; "" if the connection or the time ended first.
  std::string read_until(std::string_view mark) {
    while (true) {
      const size_t at = received_.find(mark);
      if (at != std::string::npos) return take(at + mark.size());
      if (!receive()) return "";
    }
  }
  std::string read_bytes(size_t count) {
    while (received_.size() < count)
      if (!receive()) return "";
    return take(count);
  }
  /// A whole answer with a Content-Length: head and body in one.
  std::string read_answer() {
    const std::string head = read_until("\r\n\r\n");
    const size_t at = head.find("Content-Length: ");
    if (at == std::string::npos) return head;
    const size_t length = std::strtoul(head.c_str() + at + 16, nullptr, 10);
    return head + (length > 0 ? read_bytes(length) : "");
  }
  /// Everything until the server closes; "TIMEOUT" if it does not.
  std::string read_to_end() {
    while (receive()) {
    }
    return ended_ ? take(received_.size()) : "TIMEOUT";
  }
  std::string ask(std::string_view request) { return send(request) ? read_answer() : ""; }

 private:
  bool receive() {
    pollfd entry{socket_, POLLIN, 0};
    if (::poll(&entry, 1, 10'000) != 1) return false;
    char buffer[16384];
    const ssize_t size = ::recv(socket_, buffer, sizeof buffer, 0);
    if (size <= 0) return ended_ = true, false;
    received_.append(buffer, static_cast<size_t>(size));
    return true;
  }
  std::string take(size_t count) {
    std::string part = received_.substr(0, count);
    received_.erase(0, count);
    return part;
  }

  int socket_;
  bool connected_ = false;
  bool ended_ = false;
  std::string received_;
};

}  // namespace rallypoint::server
