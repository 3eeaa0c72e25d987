// FakeBackend: the node as the HTTP tests need it. It keeps every request until a test answers it, or answers writes
// and reads at once when `answer_at_once` is set. Thread safe; waiting has a deadline, so a lost request is a failure
// and not a hang.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "server/api/api.h"

namespace rallypoint::server {

inline constexpr std::chrono::seconds kTestDeadline{10};

class FakeBackend final : public Backend {
 public:
  FakeBackend() {
    view.cluster_id = 0xcdf818194e3a8c32;
    view.member_id = 0x8e9e05c52164694d;
    view.members = {{view.member_id, "n1", {"http://127.0.0.1:2380"}, {"http://127.0.0.1:2379"}},
                    {0x91bc3c398fb3c146, "n2", {"http://127.0.0.1:12380"}, {"http://127.0.0.1:12379"}}};
    view.leader_id = view.member_id;
    view.raft_term = 2;
  }

  void submit(std::vector<Request>&& requests) override {
    std::lock_guard lock(mutex_);
    ++submit_count_;
    for (Request& request : requests) {
      if (answer_at_once && answer_simply(request)) continue;
      requests_.push_back(std::move(request));
    }
    arrived_.notify_all();
  }
  ClusterView cluster_view() const override {
    std::lock_guard lock(mutex_);
    return view;
  }
  uint64_t cluster_id() const override { return view.cluster_id; }

  /// The next request, if it comes in time.
  std::optional<Request> next() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, kTestDeadline, [&] { return !requests_.empty(); })) return std::nullopt;
    Request request = std::move(requests_.front());
    requests_.pop_front();
    return request;
  }
  /// The next request, which must be of type T.
  template <class T>
  std::optional<T> next() {
    std::optional<Request> request = next();
    if (!request || !std::holds_alternative<T>(*request)) return std::nullopt;
    return std::get<T>(std::move(*request));
  }
  bool idle() const {
    std::lock_guard lock(mutex_);
    return requests_.empty();
  }
  size_t submit_count() const {
    std::lock_guard lock(mutex_);
    return submit_count_;
  }

  static v2::EventPtr event(v2::Action action, std::string path, std::string value, uint64_t index) {
    auto event = std::make_shared<v2::Event>();
    event->action = action;
    event->node.key = std::move(path);
    event->node.value = Bytes(std::move(value));
    event->node.modified_index = event->node.created_index = index;
    event->etcd_index = index;
    return event;
  }
  static void answer(const Call& call, Reply&& reply) {
    reply.token = call.token;
    std::vector<Reply> replies;
    replies.push_back(std::move(reply));
    call.sink->deliver(std::move(replies));
  }
  static void answer(const Call& call, v2::EventPtr event) {
    Reply reply;
    reply.etcd_index = event->etcd_index;
    reply.raft_index = event->etcd_index + 5;
    reply.raft_term = 2;
    reply.body = std::move(event);
    answer(call, std::move(reply));
  }
  static void answer_registered(const Call& call, uint64_t index) {
    Reply reply;
    reply.etcd_index = index;
    reply.raft_index = index + 5;
    reply.raft_term = 2;
    reply.registered = true;
    reply.final = false;
    answer(call, std::move(reply));
  }

  ClusterView view;             // set before the server starts
  bool answer_at_once = false;  // likewise

 private:
  bool answer_simply(Request& request) {
    if (auto* write = std::get_if<V2Write>(&request)) {
      answer(write->call, event(v2::Action::kSet, write->request.path, write->request.value.to_string(), ++index_));
      return true;
    }
    if (auto* read = std::get_if<V2Read>(&request)) {
      answer(read->call, event(v2::Action::kGet, read->request.path, "value", index_));
      return true;
    }
    return false;
  }

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Request> requests_;
  size_t submit_count_ = 0;
  uint64_t index_ = 3;
};

}  // namespace rallypoint::server
