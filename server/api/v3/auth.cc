// etcdserverpb.Auth, while there are no users: authentication is off, and every method says so with etcd's text. A token that
// a client sends all the same is ignored.

#include "server/api/v3/handler.h"
#include "server/api/v3/make.h"

namespace rallypoint::server::v3 {
namespace {

class AuthStatusHandler final : public UnaryHandler {
 public:
  using UnaryHandler::UnaryHandler;

 private:
  void handle(std::string_view message) override {
    etcdserverpb::AuthStatusRequest request;
    if (!parse(message, request)) return;
    etcdserverpb::AuthStatusResponse response;
    fill_header(*response.mutable_header(), rpc_.backend().cluster_view());
    answer(response);
  }
};

class NotEnabledHandler final : public UnaryHandler {
 public:
  using UnaryHandler::UnaryHandler;

 private:
  void handle(std::string_view) override { fail(kAuthNotEnabled); }
};

}  // namespace

Made make_auth_status(Rpc& rpc, const V3Settings& settings) { return std::make_unique<AuthStatusHandler>(rpc, settings); }
Made make_auth_not_enabled(Rpc& rpc, const V3Settings& settings) { return std::make_unique<NotEnabledHandler>(rpc, settings); }

}  // namespace rallypoint::server::v3
