// /v2/members and /v2/machines: who is in the cluster, and changing it. Also the stub of /v2/auth.
// Source of the rules: etcd 3.4 as observed. Stateless; any net loop.
#pragma once

#include "server/rpc/exchange.h"

namespace rallypoint::server {

/// The client URLs of all members, the same text on every member: python-etcd looks the URL it uses up in it.
class V2MachinesHandler final : public Handler {
 public:
  explicit V2MachinesHandler(const Backend& backend) : backend_(backend) {}
  void handle(const HttpRequest& request, Responder& responder) const override;

 private:
  const Backend& backend_;
};

/// GET lists; POST adds, PUT /ID updates, DELETE /ID removes.
class V2MembersHandler final : public Handler {
 public:
  explicit V2MembersHandler(const Backend& backend) : backend_(backend) {}
  void handle(const HttpRequest& request, Responder& responder) const override;
  void on_reply(Reply&& reply, Responder& responder) const override;

 private:
  void get(std::string_view rest, Responder& responder) const;
  void change(ChangeMember::Kind kind, std::string_view id, const HttpRequest& request, Responder& responder) const;

  const Backend& backend_;
};

/// v2 auth is not there: it says that it is off, and refuses to be switched on.
class V2AuthHandler final : public Handler {
 public:
  void handle(const HttpRequest& request, Responder& responder) const override;
};

}  // namespace rallypoint::server
