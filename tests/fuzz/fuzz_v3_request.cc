// Requests to every v3 method, nearly right: fields left out, unions empty, negative ids, giant limits, revisions at the
// ends of the range. They go the whole way that a single member's requests go: service, log entry, state, answer. Every
// call must end as its kind ends, with an error of the API where there is one; nothing may be left behind; and what the
// engine holds at the end must be the state.
#include <algorithm>
#include <map>

#include "raft/base/check.h"
#include "server/api/v3/services.h"
#include "server/requests.h"
#include "server/state/command.pb.h"
#include "storage/engine/memory_engine.h"
#include "tests/fuzz/choose.h"

using namespace rallypoint;
using namespace rallypoint::server;

namespace {

const NodeId kSelf(1);

class Node;

class Caller final : public Rpc {
 public:
  Caller(Node& node, const RpcMethod& method) : node_(node), method_(method) {}
  void send(const Bytes& message, std::string_view own_part) override {
    RALLY_CHECK(!finished, "sent after the end by", method_.path);
    const std::string whole = message.to_string() + std::string(own_part);
    std::unique_ptr<google::protobuf::Message> parsed(google::protobuf::MessageFactory::generated_factory()->GetPrototype(method_.response)->New());
    RALLY_CHECK(parsed->ParseFromString(whole), "not an answer to", method_.path);
    ++sent;
  }
  void finish(Status status) override {
    RALLY_CHECK(!finished, "ended twice:", method_.path);
    finished = true;
    // A well formed request never meets an error that says it was our fault, unless a client has said so itself by the alarm.
    RALLY_CHECK(status.message() == "etcdserver: corrupt cluster" || (status.code() != Code::kInternal && status.code() != Code::kDataLoss && status.code() != Code::kOutcomeUnknown), method_.path, status);
    RALLY_CHECK(method_.server_streams || !status.is_ok() || sent == 1, "without an answer:", method_.path);
  }
  size_t queued_bytes() const override { return 0; }
  Call call() override;
  Call new_call() override;
  void submit(Request&& request) override;
  std::string_view metadata(std::string_view name) const override { return name == "rallypoint-idempotency-key" ? std::string_view(idempotency_key) : ""; }
  Duration time_left() const override { return {}; }
  Backend& backend() override;
  void wake_after(Duration) override {}

  std::string idempotency_key;
  bool finished = false;
  size_t sent = 0;
  uint64_t token = 0;
  std::unique_ptr<RpcHandler> handler;

 private:
  Node& node_;
  const RpcMethod& method_;
};

const RpcTable& table() {
  static const RpcTable* const all = [] {
    auto* made = new RpcTable;
    V3Settings settings;
    settings.txn_operations_max = 8;
    register_v3_services(*made, settings);
    return made;
  }();
  return *all;
}

/// A cluster of one, without Raft: what is proposed is applied.
class Node final : public Backend, public ReplySink {
 public:
  Node() : engine_(std::make_shared<storage::MemoryEngine>()), machine_(open()), requests_(kSelf, limits()) {
    pb::Command command;
    command.set_node(1);
    command.mutable_register_node()->set_nonce(9);
    commit({Bytes(command.SerializeAsString())});
    requests_.set_incarnation(1);
    machine_->set_local(kSelf, 1);
    machine_->v3().lessor().promote(now_, Duration::seconds(1));
  }

  void run(Choose& choose) {
    for (int calls = 0; choose.more() && calls < 60; ++calls) {
      const RpcMethod& method = *table().methods()[choose.below(table().methods().size())];
      auto caller = std::make_unique<Caller>(*this, method);
      if (choose.seldom()) caller->idempotency_key = "k";
      caller->handler = method.make(*caller);
      size_t messages = method.client_streams ? 1 + choose.below(3) : 1;
      while (messages-- > 0 && !caller->finished) {
        std::unique_ptr<google::protobuf::Message> request(google::protobuf::MessageFactory::generated_factory()->GetPrototype(method.request)->New());
        choose.fill(*request);
        caller->handler->on_message(request->SerializeAsString());
      }
      if (method.client_streams && !caller->finished && choose.seldom()) caller->handler->on_half_close();
      if (!caller->finished) open_.push_back(std::move(caller));
      work();
      if (choose.seldom()) {
        now_ = now_ + Duration::millis(200 * static_cast<int64_t>(choose.byte()));
        requests_.lease_desk().tick(*machine_, now_, Term(1));
        requests_.tick(*machine_, now_, at());
        must(machine_->compact_slice(3));
        work();
      }
      if (choose.seldom() && !open_.empty()) drop(choose.below(open_.size()));
      std::erase_if(open_, [](const auto& caller) { return caller->finished; });
    }
    while (!open_.empty()) drop(0);
    work();
    must(machine_->write_batch());
    const uint64_t digest = machine_->digest();
    auto again = StateMachine::open(engine_, {}, {});
    must(again.status());
    RALLY_CHECK((*again)->digest() == digest, "the engine holds another state", digest);
  }

  void take(Request&& request) {
    // What the node loop takes itself.
    if (std::holds_alternative<V3MoveLeader>(request) || std::holds_alternative<V3Defragment>(request) || std::holds_alternative<ChangeMember>(request) ||
        std::holds_alternative<V3Snapshot>(request)) {
      Reply reply;
      reply.token = std::visit([](const auto& each) { return each.call.token; }, request);
      reply.body = Status::failed_precondition("etcdserver: not leader");
      answers_.push_back(std::move(reply));
      return;
    }
    batch_.push_back(std::move(request));
  }
  Call make_call(Caller& caller) {
    caller.token = ++token_;
    return {this, caller.token};
  }

  void submit(std::vector<Request>&&) override {}
  ClusterView cluster_view() const override {
    ClusterView view;
    view.member_id = view.leader_id = 1;
    view.members = {{1, "n1", {"http://a:1"}, {"http://a:2"}}};
    return view;
  }
  uint64_t cluster_id() const override { return 1; }
  void deliver(std::vector<Reply>&& replies) override {
    for (Reply& reply : replies) answers_.push_back(std::move(reply));
  }

 private:
  static Requests::Limits limits() {
    Requests::Limits limits;
    limits.v3.quota_bytes = 50'000;
    limits.v3.part_bytes = 20;
    return limits;
  }
  static void must(const Status& status) { RALLY_CHECK(status.is_ok(), "status", status); }
  std::unique_ptr<StateMachine> open() {
    auto machine = StateMachine::open(engine_, {}, {});
    must(machine.status());
    return std::move(*machine);
  }
  RaftPosition at() const { return {machine_->applied().index, Term(1)}; }

  void commit(const std::vector<Bytes>& commands) {
    Effects effects;
    const raft::Entry entry{Term(1), machine_->applied().index + 1, raft::EntryKind::kCommand, encode_entry({now_, 1}, commands)};
    must(machine_->apply(entry, effects));
    must(machine_->write_batch());
    requests_.applied(effects, *machine_, now_, at());
  }

  /// Turns, until nothing is left to do.
  void work() {
    for (int turns = 0;; ++turns) {
      RALLY_CHECK(turns < 10'000, "it never comes to rest", turns);
      bool idle = batch_.empty();
      requests_.take(std::exchange(batch_, {}), *machine_, now_, {}, at());
      if (auto commands = requests_.take_proposals(now_); !commands.empty()) commit(commands), idle = false;
      requests_.take_lease_questions_here(now_);
      if (const uint64_t read = requests_.take_read(now_)) {
        requests_.read_confirmed(read, machine_->applied().index);
        requests_.serve_reads(*machine_, now_, {}, at());
        idle = false;
      }
      auto behind = requests_.v3().catch_up(*machine_, now_, at());
      must(behind.status());
      idle &= !*behind;
      requests_.flush();
      idle &= answers_.empty();
      for (Reply& reply : std::exchange(answers_, {}))
        for (auto& caller : open_)
          if (caller->token == reply.token && !caller->finished) {
            caller->handler->on_reply(std::move(reply));
            break;
          }
      if (idle) return;
    }
  }
  void drop(size_t index) {
    if (!open_[index]->finished) open_[index]->handler->on_cancel();
    open_.erase(open_.begin() + static_cast<ptrdiff_t>(index));
  }

  std::shared_ptr<storage::Engine> engine_;
  Instant now_{1'000'000};
  std::unique_ptr<StateMachine> machine_;
  Requests requests_;
  std::vector<std::unique_ptr<Caller>> open_;
  std::vector<Request> batch_;
  std::vector<Reply> answers_;
  uint64_t token_ = 0;
};

Call Caller::call() { return token == 0 ? new_call() : Call{&node_, token}; }
Call Caller::new_call() { return node_.make_call(*this); }
void Caller::submit(Request&& request) { node_.take(std::move(request)); }
Backend& Caller::backend() { return node_; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Choose choose(data, size);
  Node().run(choose);
  return 0;
}
