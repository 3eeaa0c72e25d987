// HttpServer: the client port of a node, from listen URLs to the backend: binds, owns the net loops and their threads,
// deals accepted connections out to them in turn.
//
//   HttpServer server(options, backend);
//   Status status = server.listen();   // bound: clients can connect already, and wait
//   server.start();                    // served
//   server.stop();                     // prompt, also with open long-polls
//
// All three from one thread. The backend must outlive the server, and after stop() has returned it may still deliver
// (to nobody) until the server is destroyed; so: stop the server, stop the backend, then destroy the server.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "raft/base/status.h"
#include "server/api/api.h"
#include "server/options.h"
#include "server/rpc/limits.h"

namespace rallypoint::server {

struct HttpCounters;
class Rounds;

/// The limits as the options set them.
HttpLimits limits_from(const Options& options);

class HttpServer {
 public:
  /// `shared`: the one net loop runs in these rounds, start() comes before they begin, and stop() after they have ended.
  HttpServer(const Options& options, Backend& backend, Rounds* shared = nullptr);
  HttpServer(const Options& options, Backend& backend, const HttpLimits& limits, Rounds* shared = nullptr);
  ~HttpServer();

  /// Binds all listen-client-urls; an error names the URL and what to do. Raises the limit of open files.
  Status listen();
  void start();
  void stop();

  /// Port of the first listen URL, e.g. when the option said 0.
  [[nodiscard]] uint16_t port() const;
  /// "127.0.0.1:2379" ...
  [[nodiscard]] std::vector<std::string> addresses() const;
  [[nodiscard]] const HttpCounters& counters() const;

 private:
  struct Parts;  // keeps Asio out of this header
  std::unique_ptr<Parts> parts_;
};

}  // namespace rallypoint::server
