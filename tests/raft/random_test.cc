// The whole core under random schedules: lost, doubled and reordered messages, crashes that lose unsynced
// writes, wiped disks, membership changes, compaction, hand-overs. The cluster's invariants are checked after
// every step; at the end all heals, and the cluster must make progress and agree. A second test sends it
// messages that no honest node would send.
#include <gtest/gtest.h>

#include <algorithm>

#include "raft/base/random.h"
#include "tests/raft/support/cluster.h"
#include "tests/raft/support/text.h"

namespace rallypoint::raft {
namespace {

using test::Cluster;
using test::Node;
using Kind = ChangeMembership::Kind;

class Chaos {
 public:
  Chaos(uint64_t seed, size_t size, bool wipes)
      : random_(seed), wipes_(wipes), cluster_(ids(size), config()) {
    cluster_.start_all();
    cluster_.elect(200);
    cluster_.lose = [this](const Message& message) {
      if (!hostile_) return false;
      if (random_.chance(1, 40) && cluster_.network.size() < 2000) cluster_.network.push_back(message);
      return random_.chance(1, 30);
    };
  }

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) act();
    if (testing::Test::HasFailure()) return;
    finish();
  }

 private:
  static std::vector<uint64_t> ids(size_t size) {
    std::vector<uint64_t> list;
    for (size_t i = 1; i <= size; ++i) list.push_back(i);
    return list;
  }
  static Config config() {
    Config config;
    config.append_entries_max = 3;
    config.inflight_appends_max = 4;
    config.snapshot_chunk_bytes = 16;
    return config;
  }
  uint64_t any() {
    auto it = cluster_.nodes.begin();
    std::advance(it, static_cast<ptrdiff_t>(random_.below(cluster_.nodes.size())));
    return it->first;
  }
  size_t down() const {
    return static_cast<size_t>(std::count_if(cluster_.nodes.begin(), cluster_.nodes.end(),
                                             [](const auto& item) { return !item.second->up(); }));
  }

  void act() {
    const uint64_t id = any();
    Node& node = cluster_.node(id);
    const uint64_t dice = random_.below(1000);
    if (dice < 300) {
      cluster_.tick(id);
    } else if (dice < 700) {
      for (uint64_t n = random_.below(6); n > 0; --n) {
        if (cluster_.network.size() > 1 && random_.chance(1, 10))
          std::swap(cluster_.network.front(), cluster_.network[random_.below(cluster_.network.size())]);
        cluster_.deliver_one();
      }
    } else if (dice < 850) {
      cluster_.sync(id);
    } else if (dice < 930) {
      if (Node* leader = cluster_.leader())
        cluster_.propose(random_.chance(9, 10) ? leader->id.value() : id, "w" + std::to_string(++words_));
    } else if (dice < 945) {
      if (node.up()) {
        cluster_.step(id, Read{++reads_});
      }
    } else if (dice < 955) {
      if (node.up()) cluster_.compact(id);
    } else if (dice < 963) {
      if (node.up() && down() < (cluster_.nodes.size() + 1) / 2) cluster_.crash(id, random_.below(3));
    } else if (dice < 975) {
      if (!node.up()) cluster_.start(id);
    } else if (dice < 980) {
      if (random_.chance(1, 2))
        cluster_.heal();
      else
        cluster_.cut(id, any());
    } else if (dice < 985) {
      cluster_.node(id).disk_stalls = random_.chance(1, 3);
    } else if (dice < 990) {
      if (node.up()) {
        const SoftState soft = node.core->soft_state();
        cluster_.step(id, LeaderGone{soft.leader, soft.term});
      }
    } else if (dice < 993) {
      cluster_.step(id, TransferLeadership{NodeId(random_.below(cluster_.nodes.size() + 1))});
    } else if (dice < 998) {
      change_members();
    } else if (wipes_) {
      wipe();
    }
  }

  void change_members() {
    Node* leader = cluster_.leader();
    if (leader == nullptr) return;
    const Membership& membership = leader->core->membership();
    // A membership that consists of lost disks is lost; which ones are is not known to the leader at once.
    for (const Member& voter : membership.voters)
      if (voter.directory != cluster_.node(voter.id.value()).disk.directory) return;
    std::vector<ChangeMembership::Change> changes;
    for (uint64_t n = 1 + random_.below(2); n > 0; --n) {
      const uint64_t id = any();
      if (find_in(membership.learners, NodeId(id)) != nullptr)
        changes.push_back({random_.chance(3, 4) ? Kind::kPromote : Kind::kRemove, NodeId(id)});
      else if (find_in(membership.voters, NodeId(id)) != nullptr && membership.voters.size() > 2)
        changes.push_back({random_.chance(1, 2) ? Kind::kDemote : Kind::kRemove, NodeId(id)});
      else if (find_member(membership, NodeId(id)) == nullptr)
        changes.push_back({Kind::kAddLearner, NodeId(id),
                           random_.chance(1, 2) ? cluster_.node(id).disk.directory : DirectoryId()});
    }
    if (!changes.empty()) cluster_.step(leader->id.value(), ChangeMembership{++tags_, changes});
  }

  /// Wipes one disk at a time, and only if nothing else is damaged: more is loss of data by design.
  void wipe() {
    Node* leader = cluster_.leader();
    if (leader == nullptr || down() > 0) return;
    const Membership& membership = leader->core->membership();
    if (is_joint(membership) || !membership.learners.empty() || membership.voters.size() < 3) return;
    for (const Member& voter : membership.voters)
      if (voter.directory != cluster_.node(voter.id.value()).disk.directory) return;
    for (auto& [id, n] : cluster_.nodes)
      if (n->core->membership() != membership ||
          n->core->commit() < leader->state().memberships.current_index())
        return;
    const uint64_t id = any();
    if (id == leader->id.value()) return;
    cluster_.crash(id);
    cluster_.wipe(id);
    cluster_.start(id);
  }

  void finish() {
    hostile_ = false;
    cluster_.heal();
    for (auto& [id, n] : cluster_.nodes) n->disk_stalls = false;
    cluster_.start_all();
    Node* leader = nullptr;
    for (int i = 0; i < 600 && !testing::Test::HasFailure(); ++i) {
      cluster_.tick_all();
      leader = cluster_.leader();
      if (leader != nullptr && i > 200) break;
    }
    ASSERT_NE(leader, nullptr) << "no leader after all healed" << picture();
    cluster_.propose(leader->id.value(), "last");
    cluster_.tick_all(60);
    leader = cluster_.leader();
    ASSERT_NE(leader, nullptr);
    ASSERT_FALSE(leader->disk.commands.empty());
    EXPECT_EQ(leader->disk.commands.back(), "last");
    for (const Member& member : leader->core->membership().voters)
      EXPECT_EQ(cluster_.commands(member.id.value()), cluster_.commands(leader->id.value()))
          << "voter " << member.id;
    for (const Member& member : leader->core->membership().learners)
      EXPECT_EQ(cluster_.commands(member.id.value()), cluster_.commands(leader->id.value()))
          << "learner " << member.id;
  }

  std::string picture() {
    std::ostringstream out;
    for (auto& [id, n] : cluster_.nodes) {
      const CoreState& s = n->state();
      out << "\n  node " << id << " disk " << s.config.directory << ' ' << role_name(s.role) << " term "
          << s.term << " leader " << s.leader << " log " << s.log.first_index() << ".."
          << s.log.last_id().term << "." << s.log.last_index() << " commit " << s.log.commit() << " durable "
          << s.log.durable() << " membership " << s.memberships.current_index()
          << test::describe(s.membership());
    }
    return out.str();
  }

  Random random_;
  bool wipes_;
  bool hostile_ = true;
  Cluster cluster_;
  uint64_t words_ = 0, reads_ = 0, tags_ = 0;
};

int seeds() {
  const char* text = std::getenv("RALLY_SEEDS");
  return text == nullptr ? 60 : std::atoi(text);
}
int first_seed() {
  const char* text = std::getenv("RALLY_SEED");
  return text == nullptr ? 1 : std::atoi(text);
}

TEST(Random, ThreeNodesKeepAllPromises) {
  for (int seed = first_seed(); seed < first_seed() + seeds() && !HasFailure(); ++seed) {
    SCOPED_TRACE("RALLY_SEED=" + std::to_string(seed));
    Chaos(static_cast<uint64_t>(seed), 3, false).run(4000);
  }
}

TEST(Random, FiveNodesKeepAllPromises) {
  for (int seed = first_seed(); seed < first_seed() + seeds() && !HasFailure(); ++seed) {
    SCOPED_TRACE("RALLY_SEED=" + std::to_string(seed));
    Chaos(static_cast<uint64_t>(seed), 5, false).run(4000);
  }
}

TEST(Random, WipedDisksBreakNoPromise) {
  for (int seed = first_seed(); seed < first_seed() + seeds() && !HasFailure(); ++seed) {
    SCOPED_TRACE("RALLY_SEED=" + std::to_string(seed));
    Chaos(static_cast<uint64_t>(seed), 3, true).run(6000);
  }
}

/// Numbers that are close to the real ones hurt more than wild ones.
class Forger {
 public:
  explicit Forger(uint64_t seed) : random_(seed) {}
  uint64_t number() { return random_.chance(9, 10) ? random_.below(12) : random_.next(); }
  EntryId id() { return {Term(number()), Index(number())}; }
  Membership membership() {
    Membership m;
    for (uint64_t n = random_.below(4); n > 0; --n)
      put_in(m.voters, {NodeId(number()), DirectoryId(number())});
    for (uint64_t n = random_.below(3); n > 0; --n)
      put_in(m.outgoing, {NodeId(number()), DirectoryId(number())});
    for (uint64_t n = random_.below(2); n > 0; --n)
      put_in(m.learners, {NodeId(number()), DirectoryId(number())});
    return m;
  }
  Message::Body body() {
    switch (random_.below(11)) {
      case 0:
        return VoteRequest{id(), coin(), coin(), coin(), DirectoryId(number())};
      case 1:
        return VoteReply{coin(), coin(), coin()};
      case 2: {
        AppendRequest request{id(), Index(number())};
        EntryId at = request.previous;
        for (uint64_t n = random_.below(5); n > 0; --n) {
          if (random_.chance(1, 10)) at = id();
          Entry entry{at.term + random_.below(2), at.index + 1, EntryKind(random_.below(3)), Bytes()};
          if (entry.kind == EntryKind::kMembership)
            entry.payload = random_.chance(1, 4) ? Bytes::copy_of("junk") : encode_membership(membership());
          at = {entry.term, entry.index};
          request.entries.push_back(entry);
        }
        return request;
      }
      case 3:
        return AppendReply{coin(), Index(number()), Index(number()), id(), coin()};
      case 4:
        return Heartbeat{Index(number()), number()};
      case 5:
        return HeartbeatReply{number(), Index(number()), coin()};
      case 6:
        return InstallSnapshot{
            {Term(number()), Index(number()), membership()}, number() % 3, Bytes::copy_of("xyz"), coin()};
      case 7:
        return InstallSnapshotReply{id(), number(), coin(), coin()};
      case 8:
        return ReadIndexRequest{number()};
      case 9:
        return ReadIndexReply{number(), coin(), Index(number())};
      default:
        return TimeoutNow{};
    }
  }
  bool coin() { return random_.chance(1, 2); }
  Random random_;
};

TEST(Random, NoMessageCanMakeACoreAbort) {
  const int rounds = seeds() * 20;
  for (int round = 0; round < rounds; ++round) {
    Forger forger(static_cast<uint64_t>(first_seed() * 1000000 + round));
    Random& random = forger.random_;
    Config config;
    config.id = NodeId(1);
    config.directory = DirectoryId(5);
    config.snapshot_chunk_bytes = 4;
    RestoredState restored;
    for (uint64_t id = 1; id <= 1 + random.below(4); ++id)
      restored.snapshot.membership.voters.push_back({NodeId(id), DirectoryId()});
    if (random.chance(1, 2)) {
      Membership bound = restored.snapshot.membership;
      for (Member& voter : bound.voters) voter.directory = DirectoryId(voter.id.value() + 4);
      restored.hard_state.term = Term(1);
      restored.entries.push_back({Term(1), Index(1), EntryKind::kMembership, encode_membership(bound)});
    }
    Core core(config, random.next(), restored);
    WriteNumber written;
    for (int i = 0; i < 300; ++i) {
      const uint64_t dice = random.below(20);
      if (dice < 13) {
        // Mostly messages of about the current term, from members and their disks.
        const uint64_t from = forger.number();
        Message message{NodeId(from), NodeId(1), core.soft_state().term + random.below(3),
                        DirectoryId(random.chance(3, 4) ? from + 4 : forger.number()), forger.body()};
        if (random.chance(1, 8)) message.term = Term(forger.number());
        core.step(MessageReceived{message});
      } else if (dice < 15) {
        core.tick();
      } else if (dice < 16) {
        core.step(Propose{{{1, Bytes::copy_of("p")}}});
      } else if (dice < 17) {
        core.step(Read{static_cast<uint64_t>(i)});
      } else if (dice < 18) {
        core.step(ChangeMembership{
            7, {{Kind(random.below(5)), NodeId(forger.number()), DirectoryId(forger.number())}}});
      } else if (dice < 19) {
        core.step(TransferLeadership{NodeId(forger.number())});
      } else {
        core.step(LeaderGone{core.soft_state().leader, core.soft_state().term});
      }
      Output output = core.take_output();
      if (!output.writes.empty()) written = output.writes.back().number;
      if (!output.committed.empty()) core.step(Applied{output.committed.back().index});
      if (random.chance(1, 3)) core.step(Persisted{written});
      if (random.chance(1, 20)) core.step(Compact{core.state().applied});
      if (output.snapshot_wanted)
        core.step(
            SnapshotReady{{*core.state().log.term_at(core.state().applied), core.state().applied, {}}, 10});
      for (const SnapshotRead& read : output.snapshot_reads)
        core.step(SnapshotBytes{read.to, read.index, read.offset, Bytes::copy_of("abcd"), forger.coin(),
                                random.chance(1, 5)});
    }
  }
}

}  // namespace
}  // namespace rallypoint::raft
