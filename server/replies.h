// Replies: what the node loop has to tell its net loops, gathered over a turn and handed over in one batch each.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "server/api/api.h"

namespace rallypoint::server {

/// What a reply's headers state besides the store's index.
struct RaftPosition {
  Index applied;
  Term term;
};

class Replies {
 public:
  void add(Call call, Reply reply) {
    reply.token = call.token;
    waiting_[call.sink].push_back(std::move(reply));
  }
  /// The whole answer, or a part of it if not `final`.
  void add(Call call, Bytes message, bool final = true) {
    Reply reply;
    reply.body = std::move(message);
    reply.final = final;
    add(call, std::move(reply));
  }
  void fail(Call call, Status status, const RaftPosition& at) {
    ++failed_;
    Reply reply;
    reply.body = std::move(status);
    reply.raft_index = at.applied.value();
    reply.raft_term = at.term.value();
    add(call, std::move(reply));
  }
  void flush() {
    for (auto& [sink, replies] : waiting_)
      if (!replies.empty()) sink->deliver(std::exchange(replies, {}));
  }
  /// Requests that ended without the answer that they wanted.
  [[nodiscard]] uint64_t failed() const { return failed_; }

 private:
  std::unordered_map<ReplySink*, std::vector<Reply>> waiting_;
  uint64_t failed_ = 0;
};

}  // namespace rallypoint::server
