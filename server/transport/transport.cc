#include "server/transport/transport.h"

#include "server/transport/loop.h"

namespace rallypoint::server {

Status TransportOptions::validate() const {
  const auto require = [](bool fine, const char* what) {
    return fine ? Status::ok() : Status::invalid_argument(std::string("transport options: ") + what);
  };
  RALLY_RETURN_IF_ERROR(require(!self.is_zero(), "self must not be 0"));
  RALLY_RETURN_IF_ERROR(require(hello_bytes_max >= 128, "hello_bytes_max must be at least 128"));
  RALLY_RETURN_IF_ERROR(require(frame_bytes_max >= 4096 && frame_bytes_max <= (1u << 30),
                                "frame_bytes_max must lie between 4 KiB and 1 GiB"));
  RALLY_RETURN_IF_ERROR(require(queue_bytes_max > 0, "queue_bytes_max must not be 0"));
  RALLY_RETURN_IF_ERROR(require(queue_frames_max > 0, "queue_frames_max must not be 0"));
  RALLY_RETURN_IF_ERROR(require(mailbox_messages_max > 0, "mailbox_messages_max must not be 0"));
  RALLY_RETURN_IF_ERROR(require(inbound_connections_max > 0, "inbound_connections_max must not be 0"));
  RALLY_RETURN_IF_ERROR(require(keepalive_interval.us >= 4000, "keepalive_interval must be at least 4 ms"));
  RALLY_RETURN_IF_ERROR(require(silence_max.us >= 2 * keepalive_interval.us,
                                "silence_max must be at least two keepalive_intervals"));
  RALLY_RETURN_IF_ERROR(require(handshake_timeout.us > 0, "handshake_timeout must be above 0"));
  RALLY_RETURN_IF_ERROR(require(connect_timeout.us > 0, "connect_timeout must be above 0"));
  return require(refused_retry.us > 0, "refused_retry must be above 0");
}

Transport::Transport(TransportOptions options, TransportHandler& handler, Rounds* shared)
    : loop_(std::make_unique<Loop>(std::move(options), handler, shared)) {}
Transport::~Transport() = default;

Status Transport::listen() { return loop_->listen(); }
std::vector<HostPort> Transport::listening() const { return loop_->listening(); }
void Transport::start() { loop_->start(); }
void Transport::stop() { loop_->stop(); }
void Transport::set_cluster(ClusterFacts facts) { loop_->set_cluster(std::move(facts)); }
void Transport::send(std::vector<raft::Message>&& messages) { loop_->send(std::move(messages)); }
void Transport::send_app(NodeId to, uint8_t type, Bytes payload) { loop_->send_app(to, type, std::move(payload)); }
const TransportStats& Transport::stats() const { return loop_->stats(); }

}  // namespace rallypoint::server
