#include "server/rpc/router.h"

#include <algorithm>

namespace rallypoint::server {

void respond_text(Responder& responder, int status, std::string_view text) {
  ResponseHead head(status, "text/plain; charset=utf-8");
  head.add("X-Content-Type-Options", "nosniff");
  responder.respond(head, text);
}

void respond_method_not_allowed(Responder& responder, std::string_view allowed) {
  ResponseHead head(405, "text/plain; charset=utf-8");
  head.add("Allow", allowed);
  responder.respond(head, "Method Not Allowed\n");
}

namespace {

class NotFoundHandler final : public Handler {
 public:
  void handle(const HttpRequest&, Responder& responder) const override {
    respond_text(responder, 404, "404 page not found\n");
  }
};

bool matches(std::string_view prefix, std::string_view path) {
  if (!path.starts_with(prefix)) return false;
  return path.size() == prefix.size() || (path[prefix.size()] == '/' && prefix != "/");
}

}  // namespace

void Router::add(std::string prefix, std::unique_ptr<Handler> handler) {
  routes_.push_back({std::move(prefix), std::move(handler)});
  std::stable_sort(routes_.begin(), routes_.end(),
                   [](const Route& a, const Route& b) { return a.prefix.size() > b.prefix.size(); });
}

const Handler& Router::find(std::string_view path) const {
  static const NotFoundHandler not_found;
  for (const Route& route : routes_)
    if (matches(route.prefix, path)) return *route.handler;
  return not_found;
}

}  // namespace rallypoint::server
