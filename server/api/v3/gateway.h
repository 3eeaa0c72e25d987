// The JSON gateway: the methods of the service table over HTTP/1.1, below /v3 and /v3beta, by grpc-gateway's conventions as etcd
// uses them (contracts A.3). The same handlers as over gRPC: a request's body becomes messages, the messages of the answer
// become JSON. A stream's answer is one {"result":...} a line.
//
// Where etcd's versions differ, this is 3.6's with 3.4's fields beside: an error has error, message, code and details, and
// FailedPrecondition is 400. Stateless; any net loop.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "server/rpc/exchange.h"
#include "server/rpc/rpc.h"

namespace rallypoint::server::v3 {

/// Of an error; 200 for kOk.
int http_status_of(Code code);

class GatewayHandler final : public Handler {
 public:
  /// Both must outlive the handler. `prefix` is where it is mounted.
  GatewayHandler(const RpcTable& table, Backend& backend, std::string prefix);
  void handle(const HttpRequest& request, Responder& responder) const override;

 private:
  Backend& backend_;
  const std::string prefix_;
  std::unordered_map<std::string_view, const RpcMethod*> methods_;  // by path below the prefix
};

}  // namespace rallypoint::server::v3
