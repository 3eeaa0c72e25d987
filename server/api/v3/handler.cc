#include "server/api/v3/handler.h"

namespace rallypoint::server::v3 {
namespace {

constexpr size_t kIdempotencyKeyMax = 128;
constexpr int kElectionsWithoutLeader = 3;

}  // namespace

Status as_seen_by_client(Status status) {
  if (status.code() != Code::kOutcomeUnknown) return status;
  return {kTimeout.code, status.message().starts_with("etcdserver: ") ? status.message() : std::string(kTimeout.text)};
}

void fill_header(etcdserverpb::ResponseHeader& header, const ClusterView& view) {
  header.set_cluster_id(view.cluster_id);
  header.set_member_id(view.member_id);
  header.set_raft_term(view.raft_term);
}

bool V3Handler::admit() {
  if (!wants_leader() || rpc_.backend().cluster_view().has_leader()) return true;
  fail(kNoLeader);
  return false;
}

bool V3Handler::parse(std::string_view bytes, google::protobuf::Message& message) {
  if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return true;
  fail(Status::internal("grpc: error unmarshalling request: malformed " + message.GetTypeName()));
  return false;
}

bool V3Handler::submit_write(V3WriteKind kind, std::string_view message) {
  if (message.size() > settings_.request_bytes_max) return fail(kRequestTooLarge), false;
  const std::string_view key = rpc_.metadata("rallypoint-idempotency-key");
  if (key.size() > kIdempotencyKeyMax) return fail(kKeyOfIdempotencyTooLong), false;
  submit(V3Write{rpc_.call(), kind, Bytes::copy_of(message), rpc_.time_left(), std::string(key)});
  return true;
}

void V3Handler::submit_read(V3Read::Kind kind, std::unique_ptr<google::protobuf::Message> message, bool linearizable) {
  submit(V3Read{rpc_.call(), kind, std::move(message), linearizable, rpc_.time_left()});
}

void UnaryHandler::on_reply(Reply&& reply) {
  if (const auto* message = std::get_if<Bytes>(&reply.body)) return answer(*message);
  const auto* status = std::get_if<Status>(&reply.body);
  finish(status != nullptr && !status->is_ok() ? *status : Status::internal("the node gave an answer of another kind"));
}

bool StreamHandler::open() {
  if (opened_) return true;
  if (!admit()) return false;
  opened_ = true;
  if (wants_leader()) rpc_.wake_after(settings_.election_timeout);
  return true;
}

void StreamHandler::on_wake() {
  times_without_leader_ = rpc_.backend().cluster_view().has_leader() ? 0 : times_without_leader_ + 1;
  if (times_without_leader_ == kElectionsWithoutLeader) return fail(kNoLeader);
  rpc_.wake_after(settings_.election_timeout);
}

void PartsHandler::on_reply(Reply&& reply) {
  const auto* message = std::get_if<Bytes>(&reply.body);
  if (message == nullptr) {
    const auto* status = std::get_if<Status>(&reply.body);
    return finish(status != nullptr ? *status : Status::internal("the node gave an answer of another kind"));
  }
  rpc_.send(*message);
  if (reply.final) return finish(Status::ok());
  more_wanted_ = true;
  if (rpc_.queued_bytes() <= kRpcStreamHighWater) on_writable();
}

void PartsHandler::on_writable() {
  if (!more_wanted_) return;
  more_wanted_ = false;
  submit(V3More{rpc_.call()});
}

}  // namespace rallypoint::server::v3
