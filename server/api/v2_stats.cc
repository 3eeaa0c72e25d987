#include "server/api/v2_stats.h"

#include <cstdio>

#include "server/api/text.h"
#include "server/api/v2_json.h"

namespace rallypoint::server {
namespace {

constexpr std::string_view kJson = "application/json";

void append_field(std::string& out, std::string_view name, uint64_t value) {
  if (out.back() != '{') out += ',';
  out += '"';
  out += name;
  out += "\":" + std::to_string(value);
}

void append_double(std::string& out, std::string_view name, double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6f", value);
  if (out.back() != '{') out += ',';
  out += '"';
  out += name;
  out += "\":";
  out += text;
}

void append_self(std::string& out, const ClusterView& view) {
  const Member* self = view.find(view.member_id);
  const Member* leader = view.find(view.leader_id);
  out += R"({"name":)";
  append_json_string(out, self ? self->name : "");
  out += R"(,"id":")" + to_hex(view.member_id) + R"(","state":")";
  out += view.is_leader() ? "StateLeader" : "StateFollower";
  out += R"(","startTime":")" + to_rfc3339(view.start_unix_ns) + R"(","leaderInfo":{"leader":")";
  out += leader ? to_hex(view.leader_id) : "";
  out += R"(","uptime":")";
  out += to_go_duration(leader ? wall_time_unix_ns() - view.leader_start_unix_ns : 0);
  out += R"(","startTime":")" + to_rfc3339(view.leader_start_unix_ns) + R"("})";
  append_field(out, "recvAppendRequestCnt", view.append_requests_received);
  append_field(out, "sendAppendRequestCnt", view.append_requests_sent);
  out += "}\n";
}

void append_leader(std::string& out, const ClusterView& view) {
  out += R"({"leader":")" + to_hex(view.member_id) + R"(","followers":{)";
  for (size_t i = 0; i < view.followers.size(); ++i) {
    const FollowerView& follower = view.followers[i];
    if (i != 0) out += ',';
    out += '"' + to_hex(follower.id) + R"(":{"latency":{)";
    append_double(out, "current", follower.latency_current_ms);
    append_double(out, "average", follower.latency_average_ms);
    append_double(out, "standardDeviation", follower.latency_deviation_ms);
    append_double(out, "minimum", follower.latency_minimum_ms);
    append_double(out, "maximum", follower.latency_maximum_ms);
    out += R"(},"counts":{)";
    append_field(out, "fail", follower.append_failure);
    append_field(out, "success", follower.append_success);
    out += "}}";
  }
  out += "}}\n";
}

void append_store(std::string& out, const ClusterView& view) {
  const v2::StoreStats& stats = view.v2;
  out += '{';
  append_field(out, "getsSuccess", stats.gets.success);
  append_field(out, "getsFail", stats.gets.fail);
  append_field(out, "setsSuccess", stats.sets.success);
  append_field(out, "setsFail", stats.sets.fail);
  append_field(out, "deleteSuccess", stats.deletes.success);
  append_field(out, "deleteFail", stats.deletes.fail);
  append_field(out, "updateSuccess", stats.updates.success);
  append_field(out, "updateFail", stats.updates.fail);
  append_field(out, "createSuccess", stats.creates.success);
  append_field(out, "createFail", stats.creates.fail);
  append_field(out, "compareAndSwapSuccess", stats.compare_and_swaps.success);
  append_field(out, "compareAndSwapFail", stats.compare_and_swaps.fail);
  append_field(out, "compareAndDeleteSuccess", stats.compare_and_deletes.success);
  append_field(out, "compareAndDeleteFail", stats.compare_and_deletes.fail);
  append_field(out, "expireCount", stats.expired);
  append_field(out, "watchers", view.v2_watchers);
  out += "}\n";
}

}  // namespace

void V2StatsHandler::handle(const HttpRequest& request, Responder& responder) const {
  if (!request.is_get()) return respond_method_not_allowed(responder, "HEAD,GET");
  const ClusterView view = backend_.cluster_view();
  std::string& body = responder.scratch();
  if (request.path == "/v2/stats/self") {
    append_self(body, view);
  } else if (request.path == "/v2/stats/store") {
    append_store(body, view);
  } else if (request.path == "/v2/stats/leader") {
    if (!view.is_leader())
      return responder.respond(ResponseHead(403, kJson), "{\"message\":\"not current leader\"}\n");
    append_leader(body, view);
  } else {
    return respond_text(responder, 404, "404 page not found\n");
  }
  responder.respond(ResponseHead(200, kJson), body);
}

}  // namespace rallypoint::server
