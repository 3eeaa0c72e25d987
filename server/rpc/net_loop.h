// NetLoop: one thread, one io_context, the connections that were given to it. It turns sockets into batches: every
// request that was parsed in one round of the loop goes to the backend in one submit(), every reply that came in one
// deliver() is encoded first and then flushed with one write per connection. Alone, a request pays nothing for this.
//
// deliver(), stop() and post-like calls are thread safe; everything else belongs to the loop's thread. That is its own, or,
// on few cores, the one whose rounds it shares (server/shared_loop.h).
// It never waits for the backend and never blocks on a socket.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/api.h"
#include "server/rpc/connection.h"
#include "server/rpc/limits.h"
#include "server/rpc/router.h"
#include "server/rpc/rpc.h"
#include "server/rounds.h"

namespace rallypoint::server {

/// Counters of the client port, shared by its loops.
struct HttpCounters {
  std::atomic<uint64_t> connections{0};           ///< open now
  std::atomic<uint64_t> connections_refused{0};   ///< over the limit
  std::atomic<uint64_t> requests{0};
  std::atomic<uint64_t> bad_requests{0};          ///< malformed, too large, too slow
  std::atomic<uint64_t> bytes_received{0};
  std::atomic<uint64_t> bytes_sent{0};
};

class NetLoop final : public ReplySink {
 public:
  NetLoop(Backend& backend, const Router& router, const RpcTable& rpcs, const HttpLimits& limits, HttpCounters& counters,
          Rounds* shared = nullptr);
  ~NetLoop() override;

  /// Serves until stop(); the body of the loop's thread.
  void run();
  /// Closes everything and makes run() return. Thread safe.
  void stop();
  /// In place of these two where the context is shared: before its thread begins, and after it has ended.
  void start_shared();
  void stop_shared();

  void deliver(std::vector<Reply>&& replies) override;

  boost::asio::io_context& context() { return rounds_.context(); }
  void post(std::function<void()> work) { rounds_.post(std::move(work)); }
  /// A freshly accepted socket that belongs to context(). Counted in counters().connections by the caller.
  /// `router` serves it; gRPC is spoken only where that is router().
  void adopt(boost::asio::ip::tcp::socket&& socket, const Router& router);

  // For its connections:
  /// The first bytes of a connection were HTTP/2's: another session takes its socket and its place over.
  void become_http2(Connection& old, boost::asio::ip::tcp::socket&& socket, std::string&& received);
  [[nodiscard]] const RpcTable& rpcs() const { return rpcs_; }
  Backend& backend() { return backend_; }
  void submit(Request&& request);
  /// A token that leads a reply back to `connection`.
  uint64_t make_token(const Connection& connection);
  /// Drops the loop's reference.
  void remove(Connection& connection);
  [[nodiscard]] const Router& router() const { return router_; }
  [[nodiscard]] const HttpLimits& limits() const { return limits_; }
  HttpCounters& counters() { return counters_; }
  [[nodiscard]] uint64_t tick() const { return tick_; }
  /// The first tick that is at least `time` away.
  [[nodiscard]] uint64_t tick_after(HttpLimits::Millis time) const { return tick_ + 1 + time / limits_.tick; }
  /// "Tue, 01 Dec 2026 08:00:00 GMT"
  [[nodiscard]] std::string_view date() const { return date_; }
  std::string& scratch() { return scratch_.clear(), scratch_; }
  /// For one read from a socket: its contents last until the caller returns to the loop.
  std::span<char> read_buffer() { return read_buffer_; }

 private:
  // A token is a serial number above the slot of its connection: found again without a lookup table.
  static constexpr uint32_t kSlotBits = 20;
  static constexpr uint64_t kSlotMask = (1u << kSlotBits) - 1;

  void drain();
  void flush_requests();
  void arm_tick();
  void update_date();
  void close_all();

  Backend& backend_;
  const Router& router_;
  const RpcTable& rpcs_;
  const HttpLimits limits_;
  HttpCounters& counters_;
  std::unique_ptr<Rounds> own_rounds_;  // none if they are shared
  Rounds& rounds_;
  boost::asio::steady_timer timer_;

  std::vector<std::shared_ptr<Connection>> slots_;
  std::vector<uint32_t> free_slots_;
  uint64_t serial_ = 0;
  uint64_t tick_ = 0;
  std::string date_;
  std::string scratch_;
  std::array<char, 64 << 10> read_buffer_;
  bool stopping_ = false;

  std::vector<Request> requests_;  // of this round
  std::vector<std::shared_ptr<Connection>> to_resume_;

  std::mutex mutex_;             // guards mailbox_ only
  std::vector<Reply> mailbox_;   // bounded by the open calls and the backend's own limits per watch
};

}  // namespace rallypoint::server
