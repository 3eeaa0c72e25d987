// v3lockpb.Lock: a lock is held by whoever is first in the queue under its name, for as long as its key exists. The revision
// in the answer's header grows from holder to holder: a fencing token, since a lock alone can't stop a holder that
// was paused while its lease ran out.

#include "server/api/v3/make.h"
#include "server/api/v3/queue.h"
#include "server/api/v3/validate.h"
#include "storage/etcd_api/lock.pb.h"

namespace rallypoint::server::v3 {
namespace {

class LockHandler final : public QueueHandler {
 public:
  using QueueHandler::QueueHandler;

 private:
  void begin(std::string_view message) override {
    v3lockpb::LockRequest request;
    if (parse(message, request)) enter(request.name(), request.lease(), "");
  }
  void on_first(const etcdserverpb::ResponseHeader& header) override {
    v3lockpb::LockResponse response;
    *response.mutable_header() = header;
    response.set_key(key_);
    answer(response);
  }
  Status session_expired() const override { return kSessionExpired; }
};

class UnlockHandler final : public StepsHandler {
 public:
  using StepsHandler::StepsHandler;

 private:
  void begin(std::string_view message) override {
    v3lockpb::UnlockRequest request;
    if (!parse(message, request)) return;
    etcdserverpb::DeleteRangeRequest remove;
    remove.set_key(request.key());
    if (Status status = validate(remove); !status.is_ok()) return fail(std::move(status));
    write(V3WriteKind::kDeleteRange, remove, [this](std::string_view bytes) {
      etcdserverpb::DeleteRangeResponse removed;
      removed.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
      v3lockpb::UnlockResponse response;
      *response.mutable_header() = removed.header();
      answer(response);
    });
  }
};

}  // namespace

Made make_lock(Rpc& rpc, const V3Settings& settings) { return std::make_unique<LockHandler>(rpc, settings); }
Made make_unlock(Rpc& rpc, const V3Settings& settings) { return std::make_unique<UnlockHandler>(rpc, settings); }

}  // namespace rallypoint::server::v3
