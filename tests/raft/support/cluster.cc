#include "tests/raft/support/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/raft/support/text.h"

namespace rallypoint::raft::test {

void Node::on_event(const TraceEvent& event) {
  if (cluster_.trace) cluster_.trace(id, describe(event));
}

Cluster::Cluster(std::vector<uint64_t> bootstrap, Config base_in) : base(std::move(base_in)) {
  for (uint64_t id : bootstrap) bootstrap_.voters.push_back({NodeId(id), DirectoryId()});
  for (uint64_t id : bootstrap) node(id);
}

Node& Cluster::node(uint64_t id) {
  auto& slot = nodes[id];
  if (slot == nullptr) {
    slot = std::make_unique<Node>(*this, NodeId(id));
    wipe(id);
  }
  return *slot;
}

void Cluster::wipe(uint64_t id) {
  Node& n = *nodes[id];
  RALLY_CHECK(!n.up());
  n.disk = Disk();
  n.disk.directory = DirectoryId(id * 100 + ++directories_);
  if (find_in(bootstrap_.voters, n.id) != nullptr) n.disk.start.membership = bootstrap_;
}

void Cluster::start(uint64_t id) {
  Node& n = node(id);
  RALLY_CHECK(!n.up());
  Config config = base;
  config.id = n.id;
  config.directory = n.disk.directory;
  invariants_.restarted(n.id);
  n.core = std::make_unique<Core>(
      config, 1000 * id + ++lives_,
      RestoredState{n.disk.hard_state, n.disk.start, n.disk.entries, n.disk.applied}, &n);
  drain(n);
}

void Cluster::start_all() {
  for (auto& [id, n] : nodes)
    if (!n->up()) start(id);
}

void Cluster::crash(uint64_t id, size_t keep) {
  Node& n = node(id);
  while (keep-- > 0 && !n.unsynced.empty()) {
    persist(n.disk, n.unsynced.front());
    n.unsynced.pop_front();
  }
  n.unsynced.clear();
  n.core.reset();
  n.snapshots.clear();
  n.disk.staged.clear();
}

void Cluster::persist(Disk& disk, const Write& write) {
  if (write.hard_state) disk.hard_state = *write.hard_state;
  if (!write.entries.empty()) {
    const Index first = write.entries.front().index;
    RALLY_CHECK(disk.start.index < first && first <= disk.start.index + disk.entries.size() + 1, "first",
                first);
    disk.entries.resize(first - disk.start.index - 1);
    disk.entries.insert(disk.entries.end(), write.entries.begin(), write.entries.end());
  }
  if (write.compact_to && disk.start.index < write.compact_to->index) {
    const uint64_t drop = write.compact_to->index - disk.start.index;
    RALLY_CHECK(drop <= disk.entries.size());
    disk.entries.erase(disk.entries.begin(), disk.entries.begin() + static_cast<ptrdiff_t>(drop));
    disk.start = *write.compact_to;
  }
  if (!write.chunk) return;
  if (write.chunk->offset == 0) disk.staged.clear();
  RALLY_CHECK(write.chunk->offset == disk.staged.size(), "offset", write.chunk->offset, "staged",
              disk.staged.size());
  disk.staged += write.chunk->data.view();
  if (!write.chunk->last) return;
  std::istringstream in(disk.staged);
  disk.commands.clear();
  for (std::string word; in >> word;) disk.commands.push_back(word);
  disk.start = write.chunk->meta;
  disk.entries.clear();
  disk.applied = disk.start.index;
  disk.staged.clear();
}

void Cluster::sync(uint64_t id) {
  Node& n = node(id);
  if (!n.up() || n.disk_stalls || n.unsynced.empty()) return;
  WriteNumber last;
  while (!n.unsynced.empty()) {
    persist(n.disk, n.unsynced.front());
    last = n.unsynced.front().number;
    n.unsynced.pop_front();
  }
  step(id, Persisted{last});
}

void Cluster::step(uint64_t id, Event event) {
  Node& n = node(id);
  if (!n.up()) return;
  const StateSummary before(n.state());
  n.core->step(std::move(event));
  judge(n, before);
  drain(n);
}

void Cluster::tick(uint64_t id) {
  Node& n = node(id);
  if (!n.up()) return;
  const StateSummary before(n.state());
  n.core->tick();
  judge(n, before);
  drain(n);
}

void Cluster::tick_all(int count) {
  for (int i = 0; i < count; ++i) {
    for (auto& [id, n] : nodes) tick(id);
    settle();
  }
}

void Cluster::judge(Node& n, const StateSummary& before) {
  std::string broken = broken_in(n.state());
  if (broken.empty()) broken = broken_between(before, n.state());
  std::vector<const CoreState*> states;
  for (auto& [id, other] : nodes)
    if (other->up()) states.push_back(&other->state());
  if (broken.empty()) broken = invariants_.check(states);
  EXPECT_EQ(broken, "");
}

void Cluster::drain(Node& n) {
  Output output = n.core->take_output();
  for (Write& write : output.writes) n.unsynced.push_back(std::move(write));
  for (Message& message : output.messages) network.push_back(std::move(message));
  for (const Entry& entry : output.committed) apply(n, entry);
  auto keep = [](auto& to, auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  for (const ReadResult& read : output.reads)
    say(n.id, "read " + std::to_string(read.id) +
                  (read.status.is_ok() ? " at index " + std::to_string(read.index.value())
                                       : " refused: " + read.status.message()));
  for (const Rejection& r : output.rejections) say(n.id, "proposal refused: " + r.status.message());
  for (const MembershipResult& r : output.membership_results)
    say(n.id, "membership change: " + (r.status.is_ok() ? std::string("done") : r.status.to_string()));
  for (const TransferResult& r : output.transfer_results)
    say(n.id, "transfer: " + (r.status.is_ok() ? std::string("done") : r.status.to_string()));
  keep(n.reads, output.reads);
  keep(n.rejections, output.rejections);
  keep(n.membership_results, output.membership_results);
  keep(n.transfer_results, output.transfer_results);
  if (!output.committed.empty()) step(n.id.value(), Applied{n.disk.applied});
  if (output.snapshot_wanted) {
    const Index at = n.disk.applied;
    const std::string text = joined(n.disk.commands);
    n.snapshots[at] = text;
    const CoreState& state = n.state();
    step(n.id.value(), SnapshotReady{{*state.log.term_at(at), at, {}}, text.size()});
  }
  for (const SnapshotRead& read : output.snapshot_reads) {
    auto it = n.snapshots.find(read.index);
    SnapshotBytes bytes{read.to, read.index, read.offset};
    if (it == n.snapshots.end()) {
      bytes.failed = true;
    } else {
      bytes.data = Bytes::copy_of(std::string_view(it->second).substr(read.offset, read.bytes));
      bytes.last = read.offset + bytes.data.size() == it->second.size();
    }
    step(n.id.value(), std::move(bytes));
  }
}

void Cluster::apply(Node& n, const Entry& entry) {
  EXPECT_EQ(entry.index, n.disk.applied + 1) << "node " << n.id;
  n.disk.applied = entry.index;
  if (entry.kind != EntryKind::kCommand) return;
  n.disk.commands.push_back(entry.payload.to_string());
  say(n.id, "applies " + entry.payload.to_string() + " (" + std::to_string(entry.index.value()) + ")");
}

bool Cluster::deliver_one() {
  while (!network.empty()) {
    Message message = std::move(network.front());
    network.pop_front();
    const bool lost = cut_.contains({message.from.value(), message.to.value()}) ||
                      !nodes.contains(message.to.value()) || !node(message.to.value()).up() ||
                      (lose && lose(message));
    if (lost) {
      if (trace_messages) say(message.from, describe(message) + " (lost)");
      continue;
    }
    if (trace_messages) say(message.from, describe(message));
    const uint64_t to = message.to.value();
    step(to, MessageReceived{std::move(message)});
    return true;
  }
  return false;
}

void Cluster::settle() {
  for (int i = 0; i < 100000; ++i) {
    bool moved = false;
    for (auto& [id, n] : nodes) {
      if (!n->up() || n->disk_stalls || n->unsynced.empty()) continue;
      sync(id);
      moved = true;
    }
    moved |= deliver_one();
    if (!moved) return;
  }
  ADD_FAILURE() << "the cluster never comes to rest";
}

Node* Cluster::leader() {
  Node* best = nullptr;
  for (auto& [id, n] : nodes)
    if (n->leads() && (best == nullptr || best->state().term < n->state().term)) best = n.get();
  return best;
}

Node* Cluster::elect(int ticks) {
  settle();
  for (int i = 0; i < ticks; ++i) {
    if (Node* found = leader();
        found != nullptr && found->state().leading->first_of_term <= found->core->commit())
      return found;
    tick_all();
  }
  return leader();
}

void Cluster::make_leader(uint64_t id) {
  for (int i = 0; i < 100 && !node(id).leads(); ++i) {
    tick(id);
    settle();
  }
  EXPECT_TRUE(node(id).leads());
}

void Cluster::propose(uint64_t id, const std::string& command) {
  Propose event;
  event.batch.push_back({0, Bytes::copy_of(command)});
  step(id, std::move(event));
}

void Cluster::compact(uint64_t id) {
  step(id, Compact{node(id).disk.applied});
}

void Cluster::isolate(uint64_t id) {
  for (auto& [other, n] : nodes)
    if (other != id) cut(id, other);
}

std::string Cluster::joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

}  // namespace rallypoint::raft::test
