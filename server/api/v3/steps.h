// For RPCs that are made of several requests to the node, one after the other: locks and elections. Each step has a call of
// its own, so that a late answer to an earlier one can't be taken for its own.
#pragma once

#include <functional>
#include <string>

#include "server/api/v3/handler.h"

namespace rallypoint::server::v3 {

class StepsHandler : public V3Handler {
 public:
  using V3Handler::V3Handler;
  void on_message(std::string_view message) final {
    if (admit()) begin(message);
  }
  void on_reply(Reply&& reply) final;
  void on_writable() final;

 protected:
  using Then = std::function<void(std::string_view)>;  // gets the encoded response

  virtual void begin(std::string_view message) = 0;
  /// What the watch of watch_from() tells. False = the next step has begun, or the RPC is over: the rest is void.
  [[nodiscard]] virtual bool on_watch(const etcdserverpb::WatchResponse& response) { return (void)response, true; }
  /// An answer to keep_alive(): seconds left, 0 = the lease is gone.
  virtual void on_kept_alive(int64_t ttl) { (void)ttl; }
  /// A step has failed. By default that is the end of the RPC.
  virtual void on_failure(Status status) { finish(std::move(status)); }

  void write(V3WriteKind kind, const google::protobuf::Message& message, Then then);
  void read(const etcdserverpb::RangeRequest& request, Then then);
  void read(const etcdserverpb::TxnRequest& request, Then then);
  /// Events from `revision` on; the watch lasts until the next step. Empty `range_end` = one key.
  void watch_from(int64_t revision, const std::string& key, const std::string& range_end = {});
  /// Beside a watch.
  void keep_alive(int64_t lease) { submit(V3KeepAlive{rpc_.call(), lease}); }

 private:
  void read(V3Read::Kind kind, std::unique_ptr<google::protobuf::Message> message, Then then);
  Call next_call();

  Then then_;
  bool watching_ = false;
  bool held_ = false;  // the watch's events
};

/// The queue under `name`: "name/".
std::string queue_prefix(std::string_view name);
/// What lies behind all keys of the queue.
std::string queue_end(std::string_view name);
/// The place of a lease in it: "name/1f2e", the id as Go prints a signed number in hex.
std::string queue_key(std::string_view name, int64_t lease);
/// The first or last in the queue, by age; of those not younger than `create_revision_max` unless that is 0.
etcdserverpb::RangeRequest in_queue(std::string_view name, etcdserverpb::RangeRequest::SortOrder order, int64_t create_revision_max);
/// If the key is as old as that (0 = isn't there).
void compare_age(etcdserverpb::TxnRequest& txn, const std::string& key, int64_t create_revision);

}  // namespace rallypoint::server::v3
