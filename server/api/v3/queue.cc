#include "server/api/v3/queue.h"

#include <algorithm>

#include "server/api/v3/lease_id.h"

namespace rallypoint::server::v3 {

namespace pb = etcdserverpb;

namespace {

constexpr int64_t kLeaseTtl = 60;  // seconds, of a session that the client did not bring
constexpr Duration kRenewAtLeast = Duration::millis(500);

}  // namespace

void QueueHandler::enter(std::string name, int64_t lease, std::string value) {
  name_ = std::move(name);
  value_ = std::move(value);
  lease_ = lease;
  if (lease != 0) return join();
  lease_ = choose_lease_id();
  lease_is_ours_ = true;
  pb::LeaseGrantRequest grant;
  grant.set_id(lease_);
  grant.set_ttl(kLeaseTtl);
  write(V3WriteKind::kLeaseGrant, grant, [this](std::string_view) { join(); });
}

void QueueHandler::join() {
  key_ = queue_key(name_, lease_);
  pb::TxnRequest txn;
  compare_age(txn, key_, 0);
  pb::PutRequest& put = *txn.add_success()->mutable_request_put();
  put.set_key(key_);
  put.set_value(value_);
  put.set_lease(lease_);
  txn.add_failure()->mutable_request_range()->set_key(key_);
  for (auto* branch : {txn.mutable_success(), txn.mutable_failure()})
    *branch->Add()->mutable_request_range() = in_queue(name_, pb::RangeRequest::ASCEND, 0);
  write(V3WriteKind::kTxn, txn, [this](std::string_view bytes) {
    pb::TxnResponse response;
    if (!response.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || response.responses_size() != 2)
      return give_up(Status::internal("the node gave an answer of another kind"));
    joined(response);
  });
}

void QueueHandler::joined(const pb::TxnResponse& response) {
  key_is_ours_ = response.succeeded();
  revision_ = response.header().revision();
  bool other_value = false;
  if (!response.succeeded()) {
    const pb::RangeResponse& own = response.responses(0).response_range();
    if (own.kvs_size() == 0) return give_up(Status::internal("the node gave an answer of another kind"));
    revision_ = own.kvs(0).create_revision();
    other_value = own.kvs(0).value() != value_;
  }
  if (other_value) return on_other_value();
  const pb::RangeResponse& oldest = response.responses(1).response_range();
  if (oldest.kvs_size() == 0 || oldest.kvs(0).create_revision() == revision_) return on_first(response.header());
  look();
}

void QueueHandler::look() {
  waiting_ = false;
  pb::TxnRequest txn;
  *txn.add_success()->mutable_request_range() = in_queue(name_, pb::RangeRequest::DESCEND, revision_ - 1);
  txn.add_success()->mutable_request_range()->set_key(key_);
  read(txn, [this](std::string_view bytes) {
    pb::TxnResponse response;
    if (!response.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || response.responses_size() != 2)
      return give_up(Status::internal("the node gave an answer of another kind"));
    const pb::RangeResponse& older = response.responses(0).response_range();
    const pb::RangeResponse& own = response.responses(1).response_range();
    if (own.kvs_size() == 0 || own.kvs(0).create_revision() != revision_) {
      key_is_ours_ = false;
      return give_up(session_expired());
    }
    if (older.kvs_size() == 0) return on_first(response.header());
    watch_from(response.header().revision() + 1, older.kvs(0).key());
    waiting_ = true;
    keep_alive(lease_);
  });
}

bool QueueHandler::on_watch(const pb::WatchResponse& response) {
  if (response.canceled() && response.compact_revision() == 0)
    return give_up(Status::unavailable(response.cancel_reason())), false;
  bool again = response.canceled();  // compacted meanwhile: another look will tell
  for (const mvccpb::Event& event : response.events()) again |= event.type() == mvccpb::Event::DELETE;
  if (again) look();
  return !again;
}

void QueueHandler::on_kept_alive(int64_t ttl) {
  if (ttl <= 0) {
    key_is_ours_ = lease_is_ours_ = false;  // both went with the lease
    return give_up(session_expired());
  }
  rpc_.wake_after(std::max(Duration::micros(Duration::seconds(ttl).us / 3), kRenewAtLeast));
}

void QueueHandler::on_wake() {
  if (waiting_) keep_alive(lease_);
}

void QueueHandler::leave() {
  cancel_call();
  // Nobody waits for these: the call is over, and its answers are dropped.
  if (lease_is_ours_) {
    pb::LeaseRevokeRequest revoke;
    revoke.set_id(lease_);
    rpc_.submit(V3Write{rpc_.call(), V3WriteKind::kLeaseRevoke, Bytes(revoke.SerializeAsString()), {}, {}});
  } else if (key_is_ours_) {
    pb::TxnRequest txn;
    compare_age(txn, key_, revision_);
    txn.add_success()->mutable_request_delete_range()->set_key(key_);
    rpc_.submit(V3Write{rpc_.call(), V3WriteKind::kTxn, Bytes(txn.SerializeAsString()), {}, {}});
  }
}

void QueueHandler::give_up(Status status) {
  leave();
  finish(std::move(status));
}

void QueueHandler::on_cancel() { leave(); }

}  // namespace rallypoint::server::v3
