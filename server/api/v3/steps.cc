#include "server/api/v3/steps.h"

#include <charconv>

namespace rallypoint::server::v3 {

namespace pb = etcdserverpb;

Call StepsHandler::next_call() {
  if (watching_) rpc_.submit(CancelCall{rpc_.call()});
  watching_ = held_ = false;
  return rpc_.new_call();
}

void StepsHandler::write(V3WriteKind kind, const google::protobuf::Message& message, Then then) {
  std::string bytes = message.SerializeAsString();
  if (bytes.size() > settings_.request_bytes_max) return on_failure(kRequestTooLarge);
  then_ = std::move(then);
  submit(V3Write{next_call(), kind, Bytes(std::move(bytes)), rpc_.time_left(), {}});
}

void StepsHandler::read(const pb::RangeRequest& request, Then then) {
  read(V3Read::Kind::kRange, std::make_unique<pb::RangeRequest>(request), std::move(then));
}

void StepsHandler::read(const pb::TxnRequest& request, Then then) {
  read(V3Read::Kind::kTxn, std::make_unique<pb::TxnRequest>(request), std::move(then));
}

void StepsHandler::read(V3Read::Kind kind, std::unique_ptr<google::protobuf::Message> message, Then then) {
  then_ = std::move(then);
  submit(V3Read{next_call(), kind, std::move(message), true, rpc_.time_left()});
}

void StepsHandler::watch_from(int64_t revision, const std::string& key, const std::string& range_end) {
  auto request = std::make_unique<pb::WatchRequest>();
  request->mutable_create_request()->set_key(key);
  request->mutable_create_request()->set_range_end(range_end);
  request->mutable_create_request()->set_start_revision(revision);
  submit(V3WatchMessage{next_call(), std::move(request)});
  watching_ = true;
}

void StepsHandler::on_reply(Reply&& reply) {
  if (const auto* status = std::get_if<Status>(&reply.body)) {
    return on_failure(status->is_ok() ? Status::internal("the node gave an answer of another kind") : *status);
  }
  if (!watching_) {
    const auto* bytes = std::get_if<Bytes>(&reply.body);
    if (bytes == nullptr) return on_failure(Status::internal("the node gave an answer of another kind"));
    const Then then = std::exchange(then_, nullptr);
    RALLY_CHECK(then != nullptr, "an answer without a question", reply.token);
    return then(bytes->view());
  }
  if (const auto* bytes = std::get_if<Bytes>(&reply.body)) {
    pb::LeaseKeepAliveResponse response;
    response.ParseFromArray(bytes->data(), static_cast<int>(bytes->size()));
    return on_kept_alive(response.ttl());
  }
  const auto* parts = std::get_if<WatchParts>(&reply.body);
  if (parts == nullptr) return;
  if (rpc_.queued_bytes() > kRpcStreamHighWater && !held_) {
    held_ = true;
    submit(V3WatchFlow{rpc_.call(), false});
  }
  for (const WatchPart& part : parts->parts) {
    pb::WatchResponse response;
    response.ParseFromArray(part.response.data(), static_cast<int>(part.response.size()));
    if (!on_watch(response)) return;
  }
}

void StepsHandler::on_writable() {
  if (!held_) return;
  held_ = false;
  submit(V3WatchFlow{rpc_.call(), true});
}

std::string queue_prefix(std::string_view name) { return std::string(name) + '/'; }
std::string queue_end(std::string_view name) { return std::string(name) + static_cast<char>('/' + 1); }

std::string queue_key(std::string_view name, int64_t lease) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, lease, 16).ptr;
  return queue_prefix(name).append(digits, end);
}

pb::RangeRequest in_queue(std::string_view name, pb::RangeRequest::SortOrder order, int64_t create_revision_max) {
  pb::RangeRequest range;
  range.set_key(queue_prefix(name));
  range.set_range_end(queue_end(name));
  range.set_sort_target(pb::RangeRequest::CREATE);
  range.set_sort_order(order);
  range.set_max_create_revision(create_revision_max);
  range.set_limit(1);
  return range;
}

void compare_age(pb::TxnRequest& txn, const std::string& key, int64_t create_revision) {
  pb::Compare& compare = *txn.add_compare();
  compare.set_target(pb::Compare::CREATE);
  compare.set_key(key);
  compare.set_create_revision(create_revision);
}

}  // namespace rallypoint::server::v3
