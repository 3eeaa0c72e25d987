// Any bytes as a request to any method of the service table: as protobuf straight into its handler, as messages of a
// stream, and as JSON through the gateway. Nothing may crash, and a request that is refused must leave nothing behind.
// Input: one byte for the method, one for how; then the request. The node takes everything and answers nothing.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "raft/base/check.h"
#include "server/api/v3/gateway.h"
#include "server/api/v3/services.h"
#include "tests/v3/fake_responder.h"

using namespace rallypoint;
using namespace rallypoint::server;

namespace {

class NullBackend final : public Backend {
 public:
  void submit(std::vector<Request>&&) override {}
  ClusterView cluster_view() const override {
    ClusterView view;
    view.member_id = view.leader_id = 1;
    view.members = {{1, "n1", {"http://a:1"}, {"http://a:2"}}};
    return view;
  }
  uint64_t cluster_id() const override { return 1; }
};

class FuzzRpc final : public Rpc {
 public:
  explicit FuzzRpc(Backend& backend) : backend_(backend) {}
  void send(const Bytes&, std::string_view) override { RALLY_CHECK(!finished); }
  void finish(Status status) override {
    RALLY_CHECK(!finished && status.code() != Code::kOutcomeUnknown);
    finished = true;
  }
  size_t queued_bytes() const override { return 0; }
  Call call() override { return {nullptr, token_}; }
  Call new_call() override { return {nullptr, ++token_}; }
  void submit(Request&& request) override {
    RALLY_CHECK(!finished);
    open = !std::holds_alternative<CancelCall>(request);
  }
  std::string_view metadata(std::string_view) const override { return {}; }
  Duration time_left() const override { return {}; }
  Backend& backend() override { return backend_; }

  bool finished = false;
  bool open = false;  // the node has a call

 private:
  Backend& backend_;
  uint64_t token_ = 1;
};

/// Streams: each message has its length in front, two bytes.
void as_protobuf(const RpcMethod& method, std::string_view bytes, Backend& backend) {
  FuzzRpc rpc(backend);
  const auto handler = method.make(rpc);
  if (!method.client_streams) {
    handler->on_message(bytes);
  } else {
    while (bytes.size() >= 2 && !rpc.finished) {
      const size_t size = static_cast<uint8_t>(bytes[0]) | static_cast<size_t>(static_cast<uint8_t>(bytes[1])) << 8;
      handler->on_message(bytes.substr(2, size));
      bytes.remove_prefix(std::min(bytes.size(), 2 + size));
    }
    if (!rpc.finished) handler->on_half_close();
  }
  RALLY_CHECK(!rpc.finished || !rpc.open, "left behind by", method.path);
  if (!rpc.finished) handler->on_cancel();
}

void as_json(const RpcMethod& method, std::string_view body, const Handler& gateway) {
  if (method.gateway_paths.empty()) return;
  const std::string path = "/v3" + std::string(method.gateway_paths.front());
  HttpRequest request;
  request.method = "POST";
  request.target = request.path = path;
  request.body = body;
  FakeResponder http;
  gateway.handle(request, http);
  if (!http.ended) http.exchange->on_gone();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static NullBackend backend;
  static const RpcTable* const table = [] {
    auto* made = new RpcTable;
    register_v3_services(*made, {});
    return made;
  }();
  static const v3::GatewayHandler gateway(*table, backend, "/v3");

  if (size < 2) return 0;
  const RpcMethod& method = *table->methods()[data[0] % table->methods().size()];
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  if (data[1] % 2 == 0) as_protobuf(method, bytes, backend);
  else as_json(method, bytes, gateway);
  return 0;
}
