#include "server/api/status_pages.h"

#include "server/api/text.h"
#include "server/api/v2_json.h"
#include "server/obs/metrics.h"
#include "server/options.h"

namespace rallypoint::server {
namespace {

constexpr std::string_view kReadOnly = "GET, HEAD";

/// Empty = this member can serve.
std::string why_not_healthy(const ClusterView& view) {
  if (!view.unhealthy_reason.empty()) return view.unhealthy_reason;
  if (!view.has_leader()) return "RAFT NO LEADER";
  return "";
}

void append_row(std::string& out, std::string_view name, std::string_view value) {
  out += "<tr><th>";
  out += name;
  out += "</th><td>" + escape_html(value) + "</td></tr>\n";
}

std::string join(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + text;
  return out;
}

constexpr std::string_view kPageHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>rallypoint</title><meta name="viewport" content="width=device-width">
<style>body{font:16px/1.5 system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:1em 0}th,td{border-bottom:1px solid #ddd;padding:.3em .8em;text-align:left}
code{background:#f3f3f3;padding:.1em .3em}</style></head><body>
<h1>rallypoint</h1>
)";

}  // namespace

void VersionHandler::handle(const HttpRequest& request, Responder& responder) const {
  if (!request.is_get()) return respond_method_not_allowed(responder, kReadOnly);
  std::string& body = responder.scratch();
  body += R"({"etcdserver":")" + std::string(kEtcdVersion) + R"(","etcdcluster":")" + kEtcdClusterVersion +
          R"(","rallypoint":")" + kRallypointVersion + "\"}\n";
  responder.respond(ResponseHead(200, "application/json"), body);
}

void HealthHandler::handle(const HttpRequest& request, Responder& responder) const {
  if (!request.is_get()) return respond_method_not_allowed(responder, kReadOnly);
  if (kind_ == Kind::kLive) {
    // The process answers, so it lives; a kubelet that killed a member for having no leader would help nobody.
    return respond_text(responder, 200, "ok\n");
  }
  const std::string reason = why_not_healthy(backend_.cluster_view());
  const int status = reason.empty() ? 200 : 503;
  if (kind_ == Kind::kReady) return respond_text(responder, status, reason.empty() ? "ok\n" : "not ready: " + reason + "\n");
  std::string& body = responder.scratch();
  body += reason.empty() ? R"({"health":"true","reason":)" : R"({"health":"false","reason":)";
  append_json_string(body, reason);
  body += '}';
  responder.respond(ResponseHead(status, "application/json"), body);
}

void MetricsHandler::handle(const HttpRequest& request, Responder& responder) const {
  if (!request.is_get()) return respond_method_not_allowed(responder, kReadOnly);
  std::string& body = responder.scratch();
  append_metrics(body, backend_.cluster_view(), counters_);
  responder.respond(ResponseHead(200, "text/plain; version=0.0.4; charset=utf-8"), body);
}

void FrontPageHandler::handle(const HttpRequest& request, Responder& responder) const {
  if (!request.is_get()) return respond_method_not_allowed(responder, kReadOnly);
  const ClusterView view = backend_.cluster_view();
  const Member* self = view.find(view.member_id);
  const Member* leader = view.find(view.leader_id);
  const std::string reason = why_not_healthy(view);
  std::string& body = responder.scratch();
  body += kPageHead;
  body += "<table>\n";
  append_row(body, "this member", (self ? self->name : "?") + " (" + to_hex(view.member_id) + ")");
  append_row(body, "health", reason.empty() ? "healthy" : reason);
  append_row(body, "leader", leader ? leader->name + " (" + to_hex(view.leader_id) + ")" : "none: an election is under way");
  append_row(body, "cluster", to_hex(view.cluster_id));
  append_row(body, "raft", "term " + std::to_string(view.raft_term) + ", committed " + std::to_string(view.commit_index) +
                               ", applied " + std::to_string(view.applied_index));
  append_row(body, "up", to_go_duration(wall_time_unix_ns() - view.start_unix_ns));
  append_row(body, "version", std::string(kRallypointVersion) + ", as etcd " + kEtcdVersion);
  body += "</table>\n<h2>Members</h2>\n<table><tr><th>id</th><th>name</th><th>clients</th><th>peers</th><th></th></tr>\n";
  for (const Member& member : view.members) {
    body += "<tr><td>" + to_hex(member.id) + "</td><td>" + escape_html(member.name) + "</td><td>" +
            escape_html(join(member.client_urls)) + "</td><td>" + escape_html(join(member.peer_urls)) + "</td><td>" +
            (member.id == view.leader_id ? "leader" : member.is_learner ? "learner" : "") + "</td></tr>\n";
  }
  body += "</table>\n<p>Look further: <a href=\"/v2/keys/?recursive=true&amp;sorted=true\">keys</a>, "
          "<a href=\"/v2/members\">members</a>, <a href=\"/v2/stats/store\">store</a>, <a href=\"/health\">health</a>, "
          "<a href=\"/metrics\">metrics</a>, <a href=\"/version\">version</a>.</p>\n</body></html>\n";
  responder.respond(ResponseHead(200, "text/html; charset=utf-8"), body);
}

}  // namespace rallypoint::server
