#include "server/api/v2_keys.h"

#include "server/api/text.h"
#include "server/api/v2_json.h"
#include "server/api/v2_parse.h"

namespace rallypoint::server {
namespace {

constexpr std::string_view kJson = "application/json";
constexpr int kRaftInternalError = 300;
constexpr int kDuringLeaderElection = 301;

/// The node gave up on a request. Nothing better than a 500 exists in v2; the node only does so after its time-out.
v2::Error to_v2_error(const Status& status, uint64_t index) {
  const bool no_leader = status.code() == Code::kUnavailable;
  return {no_leader ? kDuringLeaderElection : kRaftInternalError, status.message(), index};
}

}  // namespace

V2KeysHandler::V2KeysHandler(Backend& backend) : cluster_id_(to_hex(backend.cluster_id())) {}

void V2KeysHandler::handle(const HttpRequest& http, Responder& responder) const {
  V2Request parsed = parse_v2_request(http.method, http.target, http.content_type, http.body);
  if (auto* write = std::get_if<v2::WriteRequest>(&parsed)) {
    responder.submit(V2Write{responder.await(*this, false), std::move(*write)});
  } else if (auto* read = std::get_if<V2ReadTarget>(&parsed)) {
    responder.submit(V2Read{responder.await(*this, false), std::move(read->request), read->linearizable});
  } else if (auto* watch = std::get_if<v2::WatchRequest>(&parsed)) {
    responder.submit(V2Watch{responder.await(*this, true), std::move(*watch)});
  } else if (auto* error = std::get_if<v2::Error>(&parsed)) {
    respond_error(*error, responder);
  } else if (auto* redirect = std::get_if<V2Redirect>(&parsed)) {
    ResponseHead head(301);
    head.add("X-Etcd-Cluster-Id", cluster_id_);
    head.add("Location", redirect->location);
    responder.respond(head, "");
  } else if (auto* bad = std::get_if<V2BadTarget>(&parsed)) {
    respond_text(responder, 400, "400 Bad Request: " + bad->reason + "\n");
  } else {
    respond_method_not_allowed(responder, kV2AllowedMethods);
  }
}

void V2KeysHandler::on_reply(Reply&& reply, Responder& responder) const {
  if (reply.registered && !responder.is_streaming()) {
    ResponseHead head(200, kJson);
    add_indexes(head, reply);
    responder.begin_stream(head);
    if (!responder.is_streaming()) return;  // a HEAD: over already
  }
  if (const auto* event = std::get_if<v2::EventPtr>(&reply.body)) {
    if (!responder.is_streaming()) {
      ResponseHead head(http_status(**event), kJson);
      add_indexes(head, reply);
      return responder.respond(head, encode_write_answer(**event));
    }
    if (reply.encoded.empty()) {
      responder.stream_part(encode_event(**event));
    } else {
      responder.stream_part(reply.encoded.view());
    }
  } else if (!std::holds_alternative<std::monostate>(reply.body)) {
    const auto* given_up = std::get_if<Status>(&reply.body);
    const v2::Error error = given_up ? to_v2_error(*given_up, reply.etcd_index) : std::get<v2::Error>(reply.body);
    if (!responder.is_streaming()) return respond_error(error, responder);
    responder.stream_part(encode_error(error));
  }
  if (reply.final) responder.end_stream();
}

void V2KeysHandler::add_indexes(ResponseHead& head, const Reply& reply) const {
  head.add("X-Etcd-Cluster-Id", cluster_id_);
  head.add_number("X-Etcd-Index", reply.etcd_index);
  head.add_number("X-Raft-Index", reply.raft_index);
  head.add_number("X-Raft-Term", reply.raft_term);
}

void V2KeysHandler::respond_error(const v2::Error& error, Responder& responder) const {
  ResponseHead head(http_status(error), kJson);
  head.add("X-Etcd-Cluster-Id", cluster_id_);
  head.add_number("X-Etcd-Index", error.index);
  responder.respond(head, encode_error(error));
}

}  // namespace rallypoint::server
