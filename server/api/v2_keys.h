// /v2/keys: etcd's v2 keys API over HTTP. Parses (v2_parse), submits to the backend, encodes the answer (v2_json) with
// etcd's headers. Stateless; any net loop. Source of the rules: etcd 3.4 as observed.
//
// The head of a watch goes out when the watch is registered, not with its event: python-etcd (and torch through it)
// takes a late head for a dead server.
#pragma once

#include <string>

#include "server/rpc/exchange.h"

namespace rallypoint::server {

class V2KeysHandler final : public Handler {
 public:
  explicit V2KeysHandler(Backend& backend);
  void handle(const HttpRequest& request, Responder& responder) const override;
  void on_reply(Reply&& reply, Responder& responder) const override;

 private:
  void add_indexes(ResponseHead& head, const Reply& reply) const;
  void respond_error(const v2::Error& error, Responder& responder) const;

  const std::string cluster_id_;  // in every answer, constant for ever: clients refuse another one
};

}  // namespace rallypoint::server
