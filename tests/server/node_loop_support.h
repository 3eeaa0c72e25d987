// A cluster of node loops on one thread: virtual clock, network in memory, logs that become durable when the test lets
// them. Everything that a node does besides is real: core, state machine, requests.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/cluster_info.h"
#include "server/node_loop.h"
#include "storage/engine/memory_engine.h"

namespace rallypoint::server {

class TestClock final : public Clock {
 public:
  Instant now{1'000'000};
  [[nodiscard]] Instant monotonic() const override { return now; }
  [[nodiscard]] int64_t wall_unix_ns() const override { return 1'700'000'000'000'000'000 + now.us * 1000; }
};

/// A net loop's mailbox that only remembers.
class Answers final : public ReplySink {
 public:
  void deliver(std::vector<Reply>&& batch) override {
    for (Reply& reply : batch) by_token[reply.token].push_back(std::move(reply));
  }
  std::map<uint64_t, std::vector<Reply>> by_token;
};

class TestNode {
 public:
  struct Sent {
    std::optional<raft::Message> message;
    NodeId to;
    uint8_t type = 0;
    Bytes payload;
  };

  TestNode(NodeId id, const raft::Membership& membership, const Clock& clock, const StateSettings& state = {}) : id(id) {
    NodeSettings settings;
    settings.raft.id = id;
    settings.raft.directory = DirectoryId(id.value() * 1000);
    settings.raft.heartbeat_ticks = 2;
    settings.raft.election_ticks = 20;
    settings.seed = id.value();
    settings.cluster_id = 77;
    settings.nonce = id.value() * 7;
    settings.name = "n" + std::to_string(id.value());
    settings.client_urls = {"http://" + settings.name + ":2379"};
    auto machine = StateMachine::open(std::make_shared<storage::MemoryEngine>(), membership, state);
    EXPECT_TRUE(machine.is_ok()) << machine.status();
    raft::RestoredState restored;
    restored.snapshot.membership = membership;
    NodeLoop::Ports ports;
    ports.write = [this](std::vector<raft::Write>&& writes) {
      for (const raft::Write& write : writes) written = write.number, ++writes_made;
    };
    ports.send = [this](std::vector<raft::Message>&& messages) {
      for (raft::Message& message : messages) {
        const NodeId to = message.to;
        out.push_back({std::move(message), to, 0, {}});
      }
    };
    ports.send_app = [this](NodeId to, uint8_t type, Bytes payload) { out.push_back({std::nullopt, to, type, std::move(payload)}); };
    ports.make_snapshot = [](auto, const raft::SnapshotMeta&) {};
    ports.read_snapshot = [](const raft::SnapshotRead&) {};
    ports.save_snapshot = [](const SnapshotJob&, auto, const raft::SnapshotMeta&) {};
    ports.members_changed = [this](const StateMachine& machine) { members = cluster_info_of(machine.applied().membership); };
    ports.removed = [this](const std::string&) { removed = true; };
    ports.diverged = [this](const Status& status) { diverged = status; };
    ports.fatal = [](const Status& status) { ADD_FAILURE() << "the node stops: " << status; };
    loop = std::make_unique<NodeLoop>(std::move(settings), std::move(restored), std::move(*machine), std::move(ports), clock);
  }

  void post(NodeEvent event) { loop->mailbox().post(std::move(event)); }
  /// Returns the call's token.
  template <class T>
  uint64_t ask(T request) {
    request.call = {&answers, ++tokens};
    std::vector<Request> batch;
    batch.emplace_back(std::move(request));
    post(std::move(batch));
    return tokens;
  }
  uint64_t put(const std::string& path, const std::string& value, std::optional<int64_t> ttl_s = {}) {
    V2Write write;
    write.request.path = path;
    write.request.value = Bytes::copy_of(value);
    write.request.ttl_s = ttl_s;
    return ask(std::move(write));
  }
  uint64_t get(const std::string& path, bool linearizable = true) { return ask(V2Read{{}, {path, false, false}, linearizable}); }
  uint64_t change_member(ChangeMember::Kind kind, uint64_t member, std::vector<std::string> urls = {}, bool learner = false) {
    return ask(ChangeMember{{}, kind, member, std::move(urls), learner});
  }

  [[nodiscard]] bool is_leader() const { return loop->view().is_leader(); }
  [[nodiscard]] bool answered(uint64_t token) const { return answers.by_token.contains(token); }
  /// The first answer: a value, "e<code>" of v2, "member <id>", "OK", or a status. It is an error if there are more.
  [[nodiscard]] std::string answer(uint64_t token) const {
    auto it = answers.by_token.find(token);
    if (it == answers.by_token.end()) return "none";
    EXPECT_EQ(it->second.size(), 1u) << "answered more than once";
    const Reply& reply = it->second.front();
    if (const auto* event = std::get_if<v2::EventPtr>(&reply.body)) return (*event)->node.value ? (*event)->node.value->to_string() : "(deleted)";
    if (const auto* error = std::get_if<v2::Error>(&reply.body)) return "e" + std::to_string(error->code);
    if (const auto* member = std::get_if<Member>(&reply.body)) return "member " + std::to_string(member->id);
    const Status& status = std::get<Status>(reply.body);
    return status.is_ok() ? "OK" : status.to_string();
  }

  const NodeId id;
  std::unique_ptr<NodeLoop> loop;
  Answers answers;
  std::vector<Sent> out;
  raft::WriteNumber written;      ///< handed over
  raft::WriteNumber persisted;    ///< told
  size_t writes_made = 0;
  bool disk_holds = false;        ///< nothing becomes durable meanwhile
  bool stopped = false;           ///< neither runs nor hears
  bool cut_off = false;           ///< runs, but nothing goes in or out
  bool removed = false;
  Status diverged;                ///< what it said of its state
  pb::ClusterInfo members;
  uint64_t tokens = 0;
};

class TestNodes {
 public:
  /// `state_of`: what the founders' states are made with; they should not differ.
  explicit TestNodes(std::vector<uint64_t> founders, const std::function<StateSettings(uint64_t id)>& state_of = [](uint64_t) { return StateSettings(); }) {
    raft::Membership membership;
    pb::ClusterInfo info;
    for (uint64_t id : founders) {
      raft::put_in(membership.voters, {NodeId(id), {}});
      auto* member = info.add_members();
      member->set_id(id);
      member->set_name("n" + std::to_string(id));
      member->add_peer_urls("http://n" + std::to_string(id) + ":2380");
    }
    membership.context = encode(info);
    for (uint64_t id : founders) nodes.push_back(std::make_unique<TestNode>(NodeId(id), membership, clock, state_of(id)));
  }
  TestNode& add(uint64_t id, const raft::Membership& membership) {
    nodes.push_back(std::make_unique<TestNode>(NodeId(id), membership, clock));
    return *nodes.back();
  }
  /// One that joins: it knows of a cluster, but of no voters.
  TestNode& join(uint64_t id) {
    raft::Membership membership;
    membership.context = encode(leader()->members);
    return add(id, membership);
  }
  TestNode& node(uint64_t id) {
    for (auto& node : nodes)
      if (node->id == NodeId(id)) return *node;
    ADD_FAILURE() << "no node " << id;
    return *nodes.front();
  }
  TestNode* leader() {
    for (auto& node : nodes)
      if (!node->stopped && !node->cut_off && node->is_leader()) return node.get();
    return nullptr;
  }
  TestNode& follower() {
    for (auto& node : nodes)
      if (!node->stopped && !node->is_leader()) return *node;
    ADD_FAILURE() << "no follower";
    return *nodes.front();
  }

  /// A millisecond: what was sent arrives, what was written is durable, everybody takes a turn.
  void step() {
    clock.now = clock.now + Duration::millis(1);
    for (auto& from : nodes) {
      for (TestNode::Sent& sent : std::exchange(from->out, {})) {
        if (from->stopped || from->cut_off) continue;
        for (auto& to : nodes) {
          if (to->id != sent.to || to->stopped || to->cut_off || (lose && lose(sent))) continue;
          if (sent.message) to->post(std::vector<raft::Message>{std::move(*sent.message)});
          else to->post(PeerApp{from->id, sent.type, sent.payload});
        }
      }
      if (!from->disk_holds && from->persisted < from->written) from->post(raft::Persisted{from->persisted = from->written});
    }
    for (auto& node : nodes)
      if (!node->stopped) node->loop->turn();
  }
  void run(Duration time) {
    const Instant until = clock.now + time;
    while (clock.now < until) step();
  }
  /// Steps until it holds; false if it did not within a virtual minute.
  bool run_until(const std::function<bool()>& condition) {
    const Instant until = clock.now + Duration::seconds(60);
    while (!condition()) {
      if (until < clock.now) return false;
      step();
    }
    return true;
  }
  /// There is a leader, and everybody who runs is registered.
  bool settle() {
    return run_until([&] {
      if (leader() == nullptr) return false;
      for (auto& node : nodes)
        if (!node->stopped && !node->cut_off && !node->loop->view().unhealthy_reason.empty()) return false;
      return true;
    });
  }

  TestClock clock;
  std::vector<std::unique_ptr<TestNode>> nodes;
  std::function<bool(const TestNode::Sent&)> lose;
};

}  // namespace rallypoint::server
