// GrpcCore: one gRPC connection without its socket: HTTP/2 by nghttp2, gRPC's framing on top, the calls. Bytes go in, bytes
// come out, so that tests and the fuzzer drive it like the socket does.
//
// gRPC over HTTP/2 as the protocol's own document has it; limits in grpc_limits.h. The net loop's thread only. Pending
// answers are found by token, never by pointer: a call may be gone when its answer comes.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "server/rpc/grpc_call.h"
#include "server/rpc/grpc_limits.h"
#include "server/rpc/rpc.h"

namespace rallypoint::server {

class GrpcCore {
 public:
  /// What the connection's owner gives.
  class Host {
   public:
    virtual ~Host() = default;
    virtual ReplySink* sink() = 0;
    virtual uint64_t make_token() = 0;
    virtual void submit(Request&& request) = 0;
    virtual Backend& backend() = 0;
    virtual Instant now() const = 0;
    /// on_time() is due then; an earlier one that was armed still stands.
    virtual void arm(Instant at) = 0;
  };

  GrpcCore(Host& host, const RpcTable& table, const GrpcLimits& limits);
  ~GrpcCore();
  GrpcCore(const GrpcCore&) = delete;
  GrpcCore& operator=(const GrpcCore&) = delete;

  /// Takes what arrived. False: the connection is over once its output is out.
  bool receive(std::string_view bytes);
  void on_reply(Reply&& reply);
  /// Deadlines and wakes.
  void on_time(Instant now);
  /// Appends output until `out` holds output_bytes_max; call again when it is written.
  void produce(std::string& out);
  [[nodiscard]] bool is_over() const { return over_ || (nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0); }
  /// The client has said what it must say first.
  [[nodiscard]] bool greeted() const { return greeted_; }
  /// The client is gone: its calls are cancelled.
  void lost();
  /// Graceful: every open call ends with Unavailable, and the client is told to go elsewhere.
  void stop();
  /// Asks the client whether it is there.
  void ping();

  [[nodiscard]] size_t timers() const { return timers_.size(); }
  /// Of its calls' headers, half received messages and unsent answers.
  [[nodiscard]] size_t held_bytes() const { return kept_bytes_ + receiving_bytes_ + waiting_bytes_; }
  [[nodiscard]] size_t calls() const { return calls_.size(); }
  [[nodiscard]] uint64_t requests() const { return requests_; }

 private:
  friend class GrpcCall;
  friend struct GrpcCallbacks;

  // nghttp2's callbacks
  int begin_headers(int32_t stream);
  int header(int32_t stream, std::string_view name, std::string_view value);
  int headers_complete(GrpcCall& call, bool end_stream);
  int data(int32_t stream, std::string_view bytes);
  void half_closed(GrpcCall& call);
  void stream_closed(int32_t stream);
  ssize_t read_data(GrpcCall& call, size_t length, uint32_t* flags);
  int send_data(GrpcCall& call, const uint8_t* frame_head, size_t length);
  bool count_control();

  GrpcCall* find(int32_t stream) { return static_cast<GrpcCall*>(nghttp2_session_get_stream_user_data(session_, stream)); }
  bool keep(GrpcCall& call, size_t bytes);
  void take_messages(GrpcCall& call);
  void request_ended(GrpcCall& call);
  /// The client reads too slowly what it has asked for: what it asks next is held. Its frames are still read, as the
  /// window updates that let the answers go are among them.
  [[nodiscard]] bool is_full() const { return waiting_bytes_ >= limits_.waiting_bytes_max; }
  void release_held();
  void respond(GrpcCall& call);
  void submit_trailers(GrpcCall& call);
  void cancel(GrpcCall& call);
  void retire(GrpcCall& call);
  void give_up(uint32_t error_code, std::string_view reason);
  void schedule(Instant at, int32_t stream);

  Host& host_;
  const RpcTable& table_;
  const GrpcLimits limits_;
  nghttp2_session* session_ = nullptr;
  std::unordered_map<int32_t, std::unique_ptr<GrpcCall>> calls_;
  std::unordered_map<uint64_t, GrpcCall*> by_token_;
  std::vector<std::unique_ptr<RpcHandler>> retired_;  ///< handlers that have finished, perhaps inside their own methods
  struct Timer {
    Instant at;
    int32_t stream = 0;
    bool operator<(const Timer& other) const { return other.at < at; }
  };
  static constexpr size_t kTimersMin = 64;
  std::vector<Timer> timers_;       ///< a heap, the next one first
  size_t prune_timers_at_ = kTimersMin;
  std::string* out_ = nullptr;      ///< where produce() puts bytes
  std::vector<int32_t> high_;       ///< streams that went over the high water mark
  std::deque<int32_t> held_;        ///< streams whose messages wait until the client has read
  size_t receiving_bytes_ = 0;
  size_t kept_bytes_ = 0;           ///< of open calls' headers
  size_t waiting_bytes_ = 0;
  uint64_t requests_ = 0;
  Instant second_began_;            ///< of the counts below
  uint32_t resets_ = 0, controls_ = 0;
  bool greeted_ = false;
  bool over_ = false;
  bool stopping_ = false;
};

}  // namespace rallypoint::server
