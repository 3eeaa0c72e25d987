// etcdserverpb.Lease: granting, keeping alive, revoking and listing leases.
//
// A lease's id is chosen here when the client leaves it open, so that the log holds a plain fact. A retried grant
// (rallypoint-idempotency-key) must carry the same bytes as the first, so its id is made from the key.

#include <openssl/evp.h>

#include <cstring>
#include <random>

#include "server/api/v3/handler.h"
#include "server/api/v3/lease_id.h"
#include "server/api/v3/make.h"
#include "server/api/v3/validate.h"

namespace rallypoint::server::v3 {

namespace pb = etcdserverpb;

int64_t choose_lease_id() {
  thread_local std::mt19937_64 generator{(uint64_t{std::random_device{}()} << 32) ^ std::random_device{}()};
  for (;;)
    if (const auto id = static_cast<int64_t>(generator() >> 1); id != 0) return id;
}

namespace {

int64_t lease_id_of(std::string_view idempotency_key) {
  if (idempotency_key.empty()) return choose_lease_id();
  unsigned char digest[EVP_MAX_MD_SIZE];
  EVP_Digest(idempotency_key.data(), idempotency_key.size(), digest, nullptr, EVP_sha256(), nullptr);
  uint64_t id = 0;
  std::memcpy(&id, digest, sizeof id);
  return std::max<int64_t>(1, static_cast<int64_t>(id >> 1));
}

class GrantHandler final : public UnaryHandler {
 public:
  using UnaryHandler::UnaryHandler;

 private:
  void handle(std::string_view message) override {
    pb::LeaseGrantRequest request;
    if (!parse(message, request)) return;
    if (Status status = validate(request); !status.is_ok()) return fail(std::move(status));
    if (request.id() != 0) {
      submit_write(V3WriteKind::kLeaseGrant, message);
      return;
    }
    request.set_id(lease_id_of(rpc_.metadata("rallypoint-idempotency-key")));
    submit_write(V3WriteKind::kLeaseGrant, request.SerializeAsString());
  }
};

class RevokeHandler final : public UnaryHandler {
 public:
  using UnaryHandler::UnaryHandler;

 private:
  void handle(std::string_view message) override {
    pb::LeaseRevokeRequest request;
    if (parse(message, request)) submit_write(V3WriteKind::kLeaseRevoke, message);
  }
};

/// A read of leases; such reads are always linearizable.
template <class Request, V3Read::Kind kind>
class LeaseReadHandler final : public UnaryHandler {
 public:
  using UnaryHandler::UnaryHandler;

 private:
  void handle(std::string_view message) override {
    auto request = std::make_unique<Request>();
    if (parse(message, *request)) submit_read(kind, std::move(request), true);
  }
};

/// Answers in the order of the requests, which is the node's order.
class KeepAliveHandler final : public StreamHandler {
 public:
  using StreamHandler::StreamHandler;

  void on_half_close() override {
    half_closed_ = true;
    if (outstanding_ == 0) finish(Status::ok());
  }
  void on_reply(Reply&& reply) override {
    const auto* message = std::get_if<Bytes>(&reply.body);
    if (message == nullptr) {
      const auto* status = std::get_if<Status>(&reply.body);
      return finish(status != nullptr ? *status : Status::internal("the node gave an answer of another kind"));
    }
    rpc_.send(*message);
    RALLY_CHECK(outstanding_ > 0);
    if (--outstanding_ == 0 && half_closed_) finish(Status::ok());
  }

 private:
  void handle(std::string_view message) override {
    pb::LeaseKeepAliveRequest request;
    if (!parse(message, request)) return;
    // A client that sends without reading would fill the node's memory with answers.
    if (outstanding_ >= kOutstandingMax || rpc_.queued_bytes() > kRpcStreamHighWater) return fail(kTooManyRequests);
    ++outstanding_;
    submit(V3KeepAlive{rpc_.call(), request.id()});
  }

  static constexpr size_t kOutstandingMax = 100'000;
  size_t outstanding_ = 0;
  bool half_closed_ = false;
};

}  // namespace

Made make_lease_grant(Rpc& rpc, const V3Settings& settings) { return std::make_unique<GrantHandler>(rpc, settings); }
Made make_lease_revoke(Rpc& rpc, const V3Settings& settings) { return std::make_unique<RevokeHandler>(rpc, settings); }
Made make_lease_keep_alive(Rpc& rpc, const V3Settings& settings) { return std::make_unique<KeepAliveHandler>(rpc, settings); }
Made make_lease_time_to_live(Rpc& rpc, const V3Settings& settings) {
  return std::make_unique<LeaseReadHandler<pb::LeaseTimeToLiveRequest, V3Read::Kind::kLeaseTimeToLive>>(rpc, settings);
}
Made make_lease_leases(Rpc& rpc, const V3Settings& settings) {
  return std::make_unique<LeaseReadHandler<pb::LeaseLeasesRequest, V3Read::Kind::kLeaseLeases>>(rpc, settings);
}

}  // namespace rallypoint::server::v3
