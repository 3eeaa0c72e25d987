#include "server/api/v2_members.h"

#include <algorithm>
#include <boost/json.hpp>
#include <set>

#include "server/api/text.h"
#include "server/api/v2_json.h"
#include "server/options.h"

namespace rallypoint::server {
namespace {

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kMembersPath = "/v2/members";

void append_member(std::string& out, const Member& member) {
  out += R"({"id":")" + to_hex(member.id) + R"(","name":)";
  append_json_string(out, member.name);
  out += R"(,"peerURLs":)";
  append_json_strings(out, member.peer_urls);
  out += R"(,"clientURLs":)";
  append_json_strings(out, member.client_urls);
  out += '}';
}

void respond_message(Responder& responder, int status, std::string_view message, std::string_view cluster_id = {}) {
  std::string& body = responder.scratch();
  body += R"({"message":)";
  append_json_string(body, message);
  body += "}\n";
  ResponseHead head(status, kJson);
  if (!cluster_id.empty()) head.add("X-Etcd-Cluster-Id", cluster_id);
  responder.respond(head, body);
}

/// {"peerURLs":["http://host:port", ...]}, normalised and without repetitions.
Result<std::vector<std::string>> parse_peer_urls(std::string_view body) {
  boost::system::error_code error;
  const boost::json::value parsed = boost::json::parse({body.data(), body.size()}, error);
  const auto* object = error ? nullptr : parsed.if_object();
  const auto* list = object && object->contains("peerURLs") ? object->at("peerURLs").if_array() : nullptr;
  if (list == nullptr || list->empty())
    return Status::invalid_argument(R"(the body must be {"peerURLs":["http://host:port"]})");
  std::set<std::string> urls;
  for (const auto& item : *list) {
    if (!item.is_string()) return Status::invalid_argument("peerURLs: every URL must be a string");
    const auto& text = item.get_string();
    auto url = Url::parse({text.data(), text.size()});
    if (!url.is_ok()) return url.status();
    urls.insert(url->to_string());
  }
  return std::vector<std::string>(urls.begin(), urls.end());
}

}  // namespace

void V2MachinesHandler::handle(const HttpRequest& request, Responder& responder) const {
  if (!request.is_get()) return respond_method_not_allowed(responder, "GET, HEAD");
  std::vector<std::string> urls;  // etcd: sorted as texts
  for (const Member& member : backend_.cluster_view().members) urls.insert(urls.end(), member.client_urls.begin(), member.client_urls.end());
  std::sort(urls.begin(), urls.end());
  std::string& body = responder.scratch();
  for (const std::string& url : urls) {
    if (!body.empty()) body += ", ";
    body += url;
  }
  responder.respond(ResponseHead(200, "text/plain; charset=utf-8"), body);
}

void V2MembersHandler::handle(const HttpRequest& request, Responder& responder) const {
  std::string_view rest = request.path.substr(kMembersPath.size());
  if (rest.starts_with('/')) rest.remove_prefix(1);
  if (request.is_get()) return get(rest, responder);
  if (request.method == "POST" && rest.empty()) return change(ChangeMember::Kind::kAdd, rest, request, responder);
  if (request.method == "PUT") return change(ChangeMember::Kind::kUpdate, rest, request, responder);
  if (request.method == "DELETE") return change(ChangeMember::Kind::kRemove, rest, request, responder);
  respond_method_not_allowed(responder, "HEAD,GET,POST,DELETE,PUT");
}

void V2MembersHandler::get(std::string_view rest, Responder& responder) const {
  const ClusterView view = backend_.cluster_view();
  ResponseHead head(200, kJson);
  const std::string cluster_id = to_hex(view.cluster_id);
  head.add("X-Etcd-Cluster-Id", cluster_id);
  std::string& body = responder.scratch();
  if (rest.empty()) {
    body += R"({"members":[)";
    for (size_t i = 0; i < view.members.size(); ++i) {
      if (i != 0) body += ',';
      append_member(body, view.members[i]);
    }
    body += "]}\n";
  } else if (rest == "leader") {
    const Member* leader = view.find(view.leader_id);
    if (leader == nullptr) return respond_message(responder, 503, "During election");
    append_member(body, *leader);
    body += '\n';
  } else {
    return respond_message(responder, 404, "Not found");
  }
  responder.respond(head, body);
}

void V2MembersHandler::change(ChangeMember::Kind kind, std::string_view id, const HttpRequest& request,
                              Responder& responder) const {
  ChangeMember change;
  change.kind = kind;
  if (kind != ChangeMember::Kind::kAdd && !parse_hex(id, change.id))
    return respond_message(responder, 404, "No such member: " + std::string(id));
  if (kind != ChangeMember::Kind::kRemove) {
    if (!request.content_type.starts_with(kJson))
      return respond_message(responder, 415,
                             "Bad Content-Type " + std::string(request.content_type) + ", accept application/json");
    auto urls = parse_peer_urls(request.body);
    if (!urls.is_ok()) return respond_message(responder, 400, urls.status().message());
    change.peer_urls = std::move(urls).value();
  }
  change.call = responder.await(*this, false);
  responder.submit(std::move(change));
}

void V2MembersHandler::on_reply(Reply&& reply, Responder& responder) const {
  const std::string cluster_id = to_hex(backend_.cluster_id());
  if (const auto* member = std::get_if<Member>(&reply.body)) {
    std::string& body = responder.scratch();
    append_member(body, *member);
    body += '\n';
    ResponseHead head(201, kJson);
    head.add("X-Etcd-Cluster-Id", cluster_id);
    return responder.respond(head, body);
  }
  const auto* status = std::get_if<Status>(&reply.body);
  if (status == nullptr) return respond_message(responder, 500, "the node gave an answer of another kind", cluster_id);
  if (status->is_ok()) {
    ResponseHead head(204);
    head.add("X-Etcd-Cluster-Id", cluster_id);
    return responder.respond(head, "");
  }
  if (status->code() == Code::kNotFound) {
    const std::vector<uint64_t> removed = backend_.cluster_view().removed_members;
    const bool was_member = std::find(removed.begin(), removed.end(), reply.etcd_index) != removed.end();
    return respond_message(responder, was_member ? 410 : 404,
                           (was_member ? "Member permanently removed: " : "No such member: ") + to_hex(reply.etcd_index), cluster_id);
  }
  if (status->message() == "etcdserver: Peer URLs already exists") return respond_message(responder, 409, "membership: peerURL exists", cluster_id);
  if (status->message() == "etcdserver: member ID already exist") return respond_message(responder, 409, "membership: ID exists", cluster_id);
  // etcd says "Internal Server Error" and keeps the reason to itself.
  respond_message(responder, status->code() == Code::kInvalidArgument ? 400 : 500, status->message(), cluster_id);
}

void V2AuthHandler::handle(const HttpRequest& request, Responder& responder) const {
  if (request.is_get() && request.path == "/v2/auth/enable")
    return responder.respond(ResponseHead(200, kJson), "{\"enabled\":false}\n");
  respond_message(responder, 501, "auth: authentication is not implemented by this version of rallypoint");
}

}  // namespace rallypoint::server
