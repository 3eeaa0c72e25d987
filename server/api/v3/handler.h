// What the handlers of all v3 methods share: refusing what must not reach the node, submitting the rest, and turning the
// node's answers into the RPC's.
//
// After finish(), fail() or answer() a handler must return at once: it may be gone.
#pragma once

#include <google/protobuf/message.h>

#include <string_view>

#include "server/api/v3/errors.h"
#include "server/api/v3/services.h"
#include "server/rpc/rpc.h"
#include "storage/etcd_api/rpc.pb.h"

namespace rallypoint::server::v3 {

/// How a client must see it. A request of unknown outcome reads as a time-out, which clients never take for a failure.
Status as_seen_by_client(Status status);
/// ResponseHeader of what is not of the keyspace: members, status, alarms.
void fill_header(etcdserverpb::ResponseHeader& header, const ClusterView& view);

class V3Handler : public RpcHandler {
 public:
  V3Handler(Rpc& rpc, const V3Settings& settings) : rpc_(rpc), settings_(settings) {}
  void on_cancel() override { cancel_call(); }

 protected:
  [[nodiscard]] bool wants_leader() const { return rpc_.metadata("hasleader") == "true"; }
  /// False = refused, and finished: the client wants a leader and there is none.
  bool admit();
  /// Parses what is known to be of the right type; false = could not be read, and finished.
  bool parse(std::string_view bytes, google::protobuf::Message& message);
  /// The node has ended the call.
  void finish(Status status) { rpc_.finish(as_seen_by_client(std::move(status))); }
  /// We end it; the node forgets what it has of it.
  void fail(Status status) {
    cancel_call();
    finish(std::move(status));
  }
  /// The one answer, and the end.
  void answer(const Bytes& message) {
    rpc_.send(message);
    rpc_.finish(Status::ok());
  }
  void answer(const google::protobuf::Message& message) { answer(Bytes(message.SerializeAsString())); }

  /// Submits; the answer comes to on_reply. False = refused, and finished.
  bool submit_write(V3WriteKind kind, std::string_view message);
  void submit_read(V3Read::Kind kind, std::unique_ptr<google::protobuf::Message> message, bool linearizable);
  template <class R>
  void submit(R&& request) {
    call_stands_ = true;
    rpc_.submit(std::forward<R>(request));
  }
  /// The backend forgets the call, if there is one.
  void cancel_call() {
    if (call_stands_) rpc_.submit(CancelCall{rpc_.call()});
    call_stands_ = false;
  }

  Rpc& rpc_;
  const V3Settings& settings_;

 private:
  bool call_stands_ = false;  // submitted, and not known to be over
};

/// One request, one answer that the node has encoded.
class UnaryHandler : public V3Handler {
 public:
  using V3Handler::V3Handler;
  void on_message(std::string_view message) final {
    if (admit()) handle(message);
  }
  void on_reply(Reply&& reply) override;

 protected:
  virtual void handle(std::string_view message) = 0;
};

/// Messages both ways. A client that wants a leader (metadata `hasleader`) is let in only with one, and put out when there
/// has been none for three election timeouts: its stream would be as silent as one on which nothing happens.
class StreamHandler : public V3Handler {
 public:
  using V3Handler::V3Handler;
  void on_message(std::string_view message) final {
    if (open()) handle(message);
  }
  void on_wake() final;

 protected:
  virtual void handle(std::string_view message) = 0;

 private:
  bool open();

  bool opened_ = false;
  int times_without_leader_ = 0;
};

/// One request, an answer in parts: each but the first is asked for when the connection has taken what was before.
class PartsHandler : public V3Handler {
 public:
  using V3Handler::V3Handler;
  void on_message(std::string_view message) final {
    if (admit()) handle(message);
  }
  void on_reply(Reply&& reply) final;
  void on_writable() final;

 protected:
  virtual void handle(std::string_view message) = 0;

 private:
  bool more_wanted_ = false;  // a part was sent, and the next has not been asked for
};

}  // namespace rallypoint::server::v3
