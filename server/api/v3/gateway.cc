#include "server/api/v3/gateway.h"

#include <google/protobuf/message.h>

#include <memory>

#include "server/api/v2_json.h"
#include "server/api/v3/handler.h"
#include "server/api/v3/json.h"
#include "server/rpc/grpc_timeout.h"

namespace rallypoint::server::v3 {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::Message;

constexpr std::string_view kJson = "application/json";

/// Browsers may ask from any origin, as by etcd's default.
class GatewayHead : public ResponseHead {
 public:
  explicit GatewayHead(int status) : ResponseHead(status, kJson) {
    add("Access-Control-Allow-Headers", "accept, content-type, authorization");
    add("Access-Control-Allow-Methods", "POST, GET, OPTIONS, PUT, DELETE");
    add("Access-Control-Allow-Origin", "*");
  }
};

std::string_view reason_of(int http_status) {
  switch (http_status) {
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 409: return "Conflict";
    case 429: return "Too Many Requests";
    case 499: return "Client Closed Request";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    default: return "Internal Server Error";
  }
}

void respond_error(Responder& responder, int http_status, Code code, std::string_view message) {
  std::string& body = responder.scratch();
  body += R"({"error":)";
  append_json_string(body, message);
  body += R"(,"message":)";
  append_json_string(body, message);
  body += R"(,"code":)" + std::to_string(static_cast<int>(code)) + R"(,"details":[]})";
  responder.respond(GatewayHead(http_status), body);
}

std::unique_ptr<Message> make_message(const Descriptor& type) {
  return std::unique_ptr<Message>(google::protobuf::MessageFactory::generated_factory()->GetPrototype(&type)->New());
}

/// One call of a method, as its handler sees it.
class GatewayCall final : public Exchange, public Rpc {
 public:
  GatewayCall(const RpcMethod& method, const HttpRequest& request, Responder& responder, Backend& backend)
      : method_(method), request_(request), responder_(responder), backend_(backend), handler_(method.make(*this)) {}

  /// Gives the handler the body's messages. May be over when it returns.
  void start() {
    // The node answers before the caller's end; a stream lasts as long as its client.
    if (const std::string_view timeout = metadata("grpc-timeout"); !timeout.empty()) {
      const auto time = parse_grpc_timeout(timeout);
      if (!time) return fail(Status::invalid_argument(std::string(kMalformedTimeout)));
      time_left_ = *time;
    }
    std::string_view rest = request_.body;
    if (!method_.client_streams) return give(rest);
    while (!over_) {
      auto value = cut_json_value(rest);
      if (!value.is_ok()) return fail(value.status());
      if (value->empty()) break;
      give(*value);
    }
    if (!over_) handler_->on_half_close();
  }

  // ---- what the session tells ----
  void on_reply(Reply&& reply) override {
    if (!over_) handler_->on_reply(std::move(reply));
  }
  void on_writable() override {
    if (!over_) handler_->on_writable();
  }
  void on_wake() override {
    if (!over_) handler_->on_wake();
  }
  void on_gone() override {
    if (over_) return;
    over_ = true;
    handler_->on_cancel();
  }
  bool lasts() const override {
    // A queue of locks must not keep the place of a client that is gone.
    return method_.server_streams || method_.path == "/v3lockpb.Lock/Lock" || method_.path == "/v3electionpb.Election/Campaign";
  }

  // ---- what the handler tells ----
  void send(const Bytes& message, std::string_view own_part) override {
    auto response = make_message(*method_.response);
    const bool readable = own_part.empty() ? response->ParseFromArray(message.data(), static_cast<int>(message.size()))
                                           : response->ParseFromString(message.to_string().append(own_part));
    if (!readable) {  // e.g. a member's name that is no UTF-8: gRPC's clients have the same trouble with it
      unreadable_ = true;
      return;
    }
    if (!method_.server_streams) return append_json(answer_, *response);
    if (!responder_.is_streaming()) responder_.begin_stream(GatewayHead(200));
    std::string line = R"({"result":)";
    append_json(line, *response);
    line += "}\n";
    responder_.stream_part(line);
  }
  void finish(Status status) override {
    over_ = true;
    if (status.is_ok() && unreadable_) status = Status::internal("the answer has text that is no UTF-8");
    if (!responder_.is_streaming()) {
      if (!status.is_ok()) return respond_error(responder_, http_status_of(status.code()), status.code(), status.message());
      if (!method_.server_streams) return responder_.respond(GatewayHead(200), answer_);
      responder_.begin_stream(GatewayHead(200));
    } else if (!status.is_ok()) {
      responder_.stream_part(error_line(status));
    }
    responder_.end_stream();
  }
  size_t queued_bytes() const override { return responder_.queued_bytes(); }
  Call call() override { return call_.token == 0 ? new_call() : call_; }
  Call new_call() override { return call_ = responder_.new_call(); }
  void submit(Request&& request) override { responder_.submit(std::move(request)); }
  std::string_view metadata(std::string_view name) const override {
    for (const auto& [key, value] : request_.metadata)
      if (key == name) return value;
    return {};
  }
  Duration time_left() const override { return time_left_; }
  Backend& backend() override { return backend_; }
  void wake_after(Duration delay) override { responder_.wake_after(delay); }

 private:
  void give(std::string_view json) {
    auto message = make_message(*method_.request);
    if (Status status = parse_json(json, *message); !status.is_ok()) return fail(status);
    handler_->on_message(message->SerializeAsString());
  }
  /// What the handler has not been told, and need not be.
  void fail(const Status& status) {
    handler_->on_cancel();
    finish(status);
  }
  static std::string error_line(const Status& status) {
    const int http_status = http_status_of(status.code());
    const std::string code = std::to_string(static_cast<int>(status.code()));
    std::string line = R"({"error":{"grpc_code":)" + code + R"(,"http_code":)" + std::to_string(http_status) + R"(,"message":)";
    append_json_string(line, status.message());
    line += R"(,"http_status":")" + std::string(reason_of(http_status)) + R"(","code":)" + code + R"(,"details":[]}})" + "\n";
    return line;
  }

  const RpcMethod& method_;
  const HttpRequest request_;  // its views live until the answer
  Responder& responder_;
  Backend& backend_;
  Call call_;
  Duration time_left_;  // as of the request, which goes to the node at once
  std::string answer_;  // of a method with one
  bool over_ = false;
  bool unreadable_ = false;  // part of the answer
  const std::unique_ptr<RpcHandler> handler_;  // the last to be made: it knows us
};

}  // namespace

int http_status_of(Code code) {
  switch (code) {
    case Code::kOk: return 200;
    case Code::kInvalidArgument:
    case Code::kOutOfRange:
    case Code::kFailedPrecondition: return 400;  // 412 on 3.4
    case Code::kUnauthenticated: return 401;
    case Code::kPermissionDenied: return 403;
    case Code::kNotFound: return 404;
    case Code::kAlreadyExists:
    case Code::kAborted: return 409;
    case Code::kResourceExhausted: return 429;
    case Code::kCancelled: return 499;
    case Code::kUnimplemented: return 501;
    case Code::kUnavailable: return 503;
    case Code::kDeadlineExceeded: return 504;
    case Code::kUnknown:
    case Code::kInternal:
    case Code::kDataLoss:
    case Code::kOutcomeUnknown: return 500;
  }
  return 500;
}

GatewayHandler::GatewayHandler(const RpcTable& table, Backend& backend, std::string prefix) : backend_(backend), prefix_(std::move(prefix)) {
  for (const auto& method : table.methods())
    for (std::string_view path : method->gateway_paths) RALLY_CHECK(methods_.emplace(path, method.get()).second, "path", path);
}

void GatewayHandler::handle(const HttpRequest& request, Responder& responder) const {
  const auto method = methods_.find(request.path.substr(prefix_.size()));
  if (method == methods_.end()) return respond_error(responder, 404, Code::kNotFound, "Not Found");
  if (request.method == "OPTIONS") return responder.respond(GatewayHead(200), "");
  if (request.method != "POST") return respond_error(responder, 405, Code::kUnimplemented, "Method Not Allowed");
  auto call = std::make_unique<GatewayCall>(*method->second, request, responder, backend_);
  GatewayCall& started = *call;
  responder.keep(std::move(call));
  started.start();
}

}  // namespace rallypoint::server::v3
