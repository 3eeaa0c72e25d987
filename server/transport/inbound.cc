#include "server/transport/inbound.h"

#include <utility>

#include "raft/wire.h"

namespace rallypoint::server {

Inbound::Inbound(LoopContext& context, boost::asio::ip::tcp::socket socket, Events& events)
    : context_(context),
      events_(events),
      connection_(std::make_shared<Connection>(context, std::move(socket), *this)),
      remote_(connection_->remote()) {}

Status Inbound::on_frame(Frame frame) {
  if (!greeted_) return on_hello(frame);
  switch (frame.type) {
    case FrameType::kRaft:
      return on_message(frame.body);
    case FrameType::kApp:
      if (frame.body.empty()) return Status::invalid_argument("an app frame without its type");
      apps_.push_back({static_cast<uint8_t>(frame.body.data()[0]), frame.body.slice(1, frame.body.size() - 1)});
      return Status::ok();
    default:
      return Status::invalid_argument("a frame of type " + std::to_string(static_cast<int>(frame.type)) +
                                      " after the handshake");
  }
}

std::optional<Reject> Inbound::judge() const {
  return judge_hello(hello_, {context_.options.cluster_id, context_.options.self, context_.facts.founding, context_.facts.removed});
}

Status Inbound::on_query(const Frame& frame) {
  RALLY_RETURN_IF_ERROR(decode_query(frame.body.view()));
  connection_->enqueue(FrameType::kCluster, context_.facts.answer.view());
  connection_->flush();
  return Status(Code::kCancelled, "asked for the cluster and was answered");
}

Status Inbound::on_hello(const Frame& frame) {
  if (frame.type == FrameType::kQuery) return on_query(frame);
  if (frame.type != FrameType::kHello) return Status::invalid_argument("the first frame is no hello");
  const Result<Hello> hello = decode_hello(frame.body.view());
  if (!hello.is_ok()) return hello.status();
  hello_ = hello.value();
  if (const auto reject = judge()) {
    connection_->enqueue(FrameType::kReject, encode_reject(*reject));
    connection_->flush();
    if (reject->reason == RejectReason::kFoundedTwice) context_.handler.on_founded_twice(hello_.from);
    return Status::invalid_argument("member " + std::to_string(hello_.from.value()) + " refused: " + reject->text);
  }
  greeted_ = true;
  connection_->established();
  connection_->enqueue(FrameType::kWelcome,
                       encode_welcome({kPeerProtocolVersion, context_.options.directory}));
  events_.on_inbound_hello(*this);
  connection_->flush();
  return Status::ok();
}

Status Inbound::on_message(const Bytes& body) {
  Result<raft::Message> message = raft::decode(body);
  if (!message.is_ok()) return message.status();
  if (message->from != hello_.from || message->to != context_.options.self) {
    return Status::invalid_argument("a message from " + std::to_string(message->from.value()) + " to " +
                                    std::to_string(message->to.value()) + " on a connection from " +
                                    std::to_string(hello_.from.value()));
  }
  messages_.push_back(std::move(message).value());
  return Status::ok();
}

void Inbound::on_read_done() {
  if (!messages_.empty()) context_.handler.on_messages(std::exchange(messages_, {}));
  for (App& app : apps_) context_.handler.on_app(hello_.from, app.type, std::move(app.payload));
  apps_.clear();
}

}  // namespace rallypoint::server
