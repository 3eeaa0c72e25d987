#include "server/rpc/http_server.h"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <csignal>

#include "server/api/services.h"
#include "server/api/v3/services.h"
#include "server/obs/logging.h"
#include "server/rpc/listener.h"
#include "server/rpc/net_loop.h"

namespace rallypoint::server {

namespace asio = boost::asio;
using asio::ip::tcp;

HttpLimits limits_from(const Options& options) {
  HttpLimits limits;
  limits.body_bytes_max = options.max_request_bytes;
  limits.gateway_body_bytes_max = 2 * (options.max_request_bytes + (512 << 10));
  limits.connections_max = options.max_client_connections;
  limits.streams_max = static_cast<uint32_t>(options.max_concurrent_streams);
  limits.keepalive_interval = HttpLimits::Millis(options.grpc_keepalive_interval_ms);
  limits.keepalive_timeout = HttpLimits::Millis(options.grpc_keepalive_timeout_ms);
  return limits;
}

struct HttpServer::Parts {
  const Options options;
  Backend& backend;
  const HttpLimits limits;
  Rounds* const shared;
  HttpCounters counters;
  Router router;
  Router metrics_router;  // of listen-metrics-urls
  RpcTable rpcs;
  std::vector<std::unique_ptr<NetLoop>> loops;
  std::vector<std::unique_ptr<Listener>> listeners;  // all on loops[0]
  std::vector<std::thread> threads;
  size_t next_loop = 0;  // of loops[0]'s thread

  NetLoop& next() { return *loops[next_loop]; }

  void accepted(tcp::socket&& socket, const Router& router) {
    NetLoop& loop = next();
    next_loop = (next_loop + 1) % loops.size();
    if (counters.connections.fetch_add(1, std::memory_order_relaxed) >= limits.connections_max) {
      counters.connections.fetch_sub(1, std::memory_order_relaxed);
      return refuse(socket);
    }
    if (&loop == loops.front().get()) return loop.adopt(std::move(socket), router);
    asio::post(loop.context(), [&loop, &router, s = std::move(socket)]() mutable { loop.adopt(std::move(s), router); });
  }

  void refuse(tcp::socket& socket) {
    if (counters.connections_refused.fetch_add(1, std::memory_order_relaxed) == 0)
      log_warning("too many client connections, new ones are refused",
                  {{"limit", limits.connections_max}, {"option", "max-client-connections"}});
    const std::string body = "too many connections: this node's limit is " + std::to_string(limits.connections_max) +
                             " (option max-client-connections)\n";
    const std::string text = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
                             "Retry-After: 1\r\nConnection: close\r\nContent-Length: " +
                             std::to_string(body.size()) + "\r\n\r\n" + body;
    boost::system::error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(text), ignored);  // fits the empty send buffer of a new socket
    socket.shutdown(tcp::socket::shutdown_send, ignored);
  }
};

HttpServer::HttpServer(const Options& options, Backend& backend, Rounds* shared)
    : HttpServer(options, backend, limits_from(options), shared) {}

HttpServer::HttpServer(const Options& options, Backend& backend, const HttpLimits& limits, Rounds* shared)
    : parts_(new Parts{options, backend, limits, shared}) {
  register_v3_services(parts_->rpcs, {options.max_request_bytes, options.max_txn_ops, Duration::millis(options.election_timeout_ms)});
  add_services(parts_->router, backend, parts_->rpcs, parts_->counters);
  add_status_services(parts_->metrics_router, backend, parts_->counters);
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  const unsigned threads = shared != nullptr ? 1 : options.net_threads != 0 ? options.net_threads : std::clamp(cores - 1, 1u, 8u);
  for (unsigned i = 0; i < threads; ++i)
    parts_->loops.push_back(std::make_unique<NetLoop>(backend, parts_->router, parts_->rpcs, limits, parts_->counters, shared));
}

HttpServer::~HttpServer() {
  stop();
  parts_->listeners.clear();
}

Status HttpServer::listen() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  Parts& parts = *parts_;
  const auto listen_on = [&parts](const std::vector<Url>& urls, const char* option, const Router& router) {
    for (const Url& url : urls) {
      auto acceptors = bind_url(parts.loops.front()->context(), url, option);
      if (!acceptors.is_ok()) return acceptors.status();
      for (tcp::acceptor& acceptor : acceptors.value())
        parts.listeners.push_back(std::make_unique<Listener>(
            std::move(acceptor), [&parts]() -> asio::io_context& { return parts.next().context(); },
            [&parts, &router](tcp::socket&& socket) { parts.accepted(std::move(socket), router); }));
    }
    return Status::ok();
  };
  RALLY_RETURN_IF_ERROR(listen_on(parts.options.listen_client_urls, "listen-client-urls", parts.router));
  return listen_on(parts.options.listen_metrics_urls, "listen-metrics-urls", parts.metrics_router);
}

void HttpServer::start() {
  Parts& parts = *parts_;
  RALLY_CHECK(parts.threads.empty());
  for (auto& listener : parts.listeners) listener->start();
  if (parts.shared != nullptr) return parts.loops.front()->start_shared();
  // Signals are for the main thread: a new thread inherits the mask of the one that makes it.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (size_t i = 0; i < parts.loops.size(); ++i) {
    parts.threads.emplace_back([loop = parts.loops[i].get()] { loop->run(); });
    pthread_setname_np(parts.threads.back().native_handle(), ("net" + std::to_string(i)).c_str());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void HttpServer::stop() {
  if (parts_->shared != nullptr) return parts_->loops.front()->stop_shared();
  for (auto& loop : parts_->loops) loop->stop();
  for (std::thread& thread : parts_->threads) thread.join();
  parts_->threads.clear();
}

uint16_t HttpServer::port() const { return parts_->listeners.empty() ? 0 : parts_->listeners.front()->port(); }

std::vector<std::string> HttpServer::addresses() const {
  std::vector<std::string> all;
  for (const auto& listener : parts_->listeners) all.push_back(listener->address());
  return all;
}

const HttpCounters& HttpServer::counters() const { return parts_->counters; }

}  // namespace rallypoint::server
