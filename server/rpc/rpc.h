// One RPC, as a service sees it: independent of the protocol underneath. gRPC over HTTP/2 and the JSON gateway over
// HTTP/1.1 serve the same table of methods.
//
// Everything here is touched by the one net loop that owns the connection. A service makes one RpcHandler per RPC; the
// transport owns it, and destroys it when the RPC is over. Messages are protobuf wire bytes, without gRPC's prefix.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "raft/base/bytes.h"
#include "raft/base/status.h"
#include "raft/base/units.h"
#include "server/api/api.h"

namespace google::protobuf { class Descriptor; }

namespace rallypoint::server {

/// Where an RPC's answers go, and what a handler may ask of its transport. Lives longer than the handler.
class Rpc {
 public:
  /// One message, of two parts of which the second is copied (a shared body and what is the receiver's own).
  virtual void send(const Bytes& message, std::string_view own_part = {}) = 0;
  /// The end, with status OK or an error; nothing may be called afterwards. The handler may be destroyed inside.
  virtual void finish(Status status) = 0;

  /// Bytes sent that the connection has not taken yet. Above rpc_stream_high_water a handler should stop producing; the
  /// transport calls on_writable() when it has fallen below rpc_stream_low_water again.
  [[nodiscard]] virtual size_t queued_bytes() const = 0;

  /// The RPC's call for the backend. Replies to it go to RpcHandler::on_reply. new_call() makes another token: replies to
  /// earlier ones are dropped from then on.
  virtual Call call() = 0;
  virtual Call new_call() = 0;
  /// Goes to the backend together with all other requests of this round of the loop.
  virtual void submit(Request&& request) = 0;

  /// A request header (gRPC metadata or HTTP field), lower case; empty = not there.
  [[nodiscard]] virtual std::string_view metadata(std::string_view name) const = 0;
  /// What is left of the caller's deadline; 0 = it set none.
  [[nodiscard]] virtual Duration time_left() const = 0;
  virtual Backend& backend() = 0;
  /// RpcHandler::on_wake() once, at least that much later; a later call replaces an earlier one.
  virtual void wake_after(Duration delay) { (void)delay; }

 protected:
  ~Rpc() = default;
};

inline constexpr size_t kRpcStreamHighWater = 1 << 20;
inline constexpr size_t kRpcStreamLowWater = 256 << 10;

class RpcHandler {
 public:
  virtual ~RpcHandler() = default;
  /// A request message, complete. Unary and server streams: exactly one.
  virtual void on_message(std::string_view message) = 0;
  /// The client sends nothing more. Not called for unary methods and server streams.
  virtual void on_half_close() {}
  virtual void on_reply(Reply&& reply) = 0;
  virtual void on_writable() {}
  virtual void on_wake() {}
  /// The client is gone, or its deadline has passed; the transport has answered what there was to answer. Must free what
  /// the backend holds (CancelCall). The handler is destroyed afterwards.
  virtual void on_cancel() {}
};

/// What auth will ask for, once it is on; every method says it from the first day. kKeys: by the keys that the
/// request names, operation by operation.
enum class Permission : uint8_t { kOpen, kAuthenticated, kKeys, kRoot };

struct RpcMethod {
  std::string_view path;  ///< "/etcdserverpb.KV/Put"
  bool client_streams = false;
  bool server_streams = false;
  Permission permission = Permission::kRoot;
  std::vector<std::string_view> gateway_paths;  ///< "/kv/put": below /v3 and /v3beta; empty = not in the gateway
  const google::protobuf::Descriptor* request = nullptr;
  const google::protobuf::Descriptor* response = nullptr;
  std::function<std::unique_ptr<RpcHandler>(Rpc&)> make;
};

/// All methods of the node, the one service table. Filled once at start, then read by all net loops without locks.
class RpcTable {
 public:
  void add(RpcMethod method);
  [[nodiscard]] const RpcMethod* find(std::string_view path) const;
  /// Whether any method of that "package.Service" exists, for the text of Unimplemented.
  [[nodiscard]] bool has_service(std::string_view service) const;
  [[nodiscard]] const std::vector<std::unique_ptr<RpcMethod>>& methods() const { return methods_; }

 private:
  std::vector<std::unique_ptr<RpcMethod>> methods_;  // sorted by path
};

}  // namespace rallypoint::server
