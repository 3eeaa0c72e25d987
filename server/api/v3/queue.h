// Waiting in a queue of leases: what Lock and Campaign have in common. The keys are etcd's, so that clients which queue by
// themselves (its concurrency package and those like it) and clients of these services wait in one queue.
//
//   join    if name/<lease> is not there, put it with the lease; if nobody in the queue is older, that is all.
//   wait    for the delete of the youngest key that is older than ours, and renew the lease meanwhile, since the client
//           may leave that to us while its call is open.
//   look    when it is gone: is there another older one, and is our own key still there? At one revision, so that no lock
//           is handed to a lease that was lost while it waited (etcd#11456).
//
// Whoever gives up takes the key out of the queue again, unless the key was there before this call.
#pragma once

#include <string>

#include "server/api/v3/steps.h"

namespace rallypoint::server::v3 {

class QueueHandler : public StepsHandler {
 public:
  using StepsHandler::StepsHandler;
  void on_wake() final;
  void on_cancel() final;

 protected:
  /// `lease` 0: one of 60 seconds is granted.
  void enter(std::string name, int64_t lease, std::string value);
  /// First in the queue, as of the header's revision.
  virtual void on_first(const etcdserverpb::ResponseHeader& header) = 0;
  /// The key was in the queue before, with another value than ours. Goes on with look().
  virtual void on_other_value() { look(); }
  [[nodiscard]] virtual Status session_expired() const = 0;

  /// Fails, but leaves the queue first.
  void give_up(Status status);
  void look();

  std::string name_, key_, value_;
  int64_t lease_ = 0;
  int64_t revision_ = 0;  ///< create_revision of our key: our place, and the fencing token

 private:
  void join();
  void joined(const etcdserverpb::TxnResponse& response);
  void on_failure(Status status) final { give_up(std::move(status)); }
  [[nodiscard]] bool on_watch(const etcdserverpb::WatchResponse& response) final;
  void on_kept_alive(int64_t ttl) final;
  void leave();

  bool lease_is_ours_ = false;  // granted by this call, and known to nobody
  bool key_is_ours_ = false;    // put by this call
  bool waiting_ = false;
};

}  // namespace rallypoint::server::v3
