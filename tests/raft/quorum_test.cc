// raft/quorum.h against a slow twin that counts subsets, and the cases that matter by name.
#include "raft/quorum.h"

#include <gtest/gtest.h>

#include <map>

#include "raft/base/random.h"

namespace rallypoint::raft::quorum {
namespace {

Membership of(std::vector<uint64_t> voters, std::vector<uint64_t> outgoing = {}) {
  Membership m;
  for (uint64_t id : voters) m.voters.push_back({NodeId(id), DirectoryId(id)});
  for (uint64_t id : outgoing) m.outgoing.push_back({NodeId(id), DirectoryId(id)});
  return m;
}

TEST(Quorum, MajorityIsMoreThanHalf) {
  EXPECT_EQ(majority(1), 1u);
  EXPECT_EQ(majority(2), 2u);
  EXPECT_EQ(majority(3), 2u);
  EXPECT_EQ(majority(4), 3u);
  EXPECT_EQ(majority(5), 3u);
}

TEST(Quorum, NobodyDecidesWithoutVoters) {
  auto all = [](const Member&) { return true; };
  EXPECT_FALSE(is_quorum(of({}), all));
  EXPECT_EQ(agreed_value<uint64_t>(of({}), [](const Member&) { return uint64_t{7}; }), 0u);
}

TEST(Quorum, JointNeedsBothMajorities) {
  const Membership joint = of({1, 4, 5}, {1, 2, 3});
  auto with = [](std::vector<uint64_t> ids) {
    return [ids](const Member& m) { return std::find(ids.begin(), ids.end(), m.id.value()) != ids.end(); };
  };
  EXPECT_FALSE(is_quorum(joint, with({1, 4, 5})));
  EXPECT_FALSE(is_quorum(joint, with({1, 2, 3})));
  EXPECT_TRUE(is_quorum(joint, with({1, 2, 4})));
}

TEST(Quorum, BallotIsLostOnceAMajorityIsOutOfReach) {
  std::map<uint64_t, bool> votes;
  auto vote_of = [&](const Member& m) -> std::optional<bool> {
    auto it = votes.find(m.id.value());
    return it == votes.end() ? std::nullopt : std::optional<bool>(it->second);
  };
  const Membership five = of({1, 2, 3, 4, 5});
  votes = {{1, true}, {2, false}, {3, false}};
  EXPECT_EQ(ballot(five, vote_of), Vote::kPending);
  votes[4] = false;
  EXPECT_EQ(ballot(five, vote_of), Vote::kLost);
  votes = {{1, true}, {2, true}, {3, true}};
  EXPECT_EQ(ballot(five, vote_of), Vote::kWon);
}

TEST(Quorum, AgreedValueIsWhatAQuorumReached) {
  Random random(7);
  for (int round = 0; round < 2000; ++round) {
    Membership m;
    std::map<NodeId, uint64_t> values;
    auto fill = [&](std::vector<Member>& list, uint64_t count) {
      for (uint64_t i = 1; i <= count; ++i)
        if (random.chance(2, 3)) list.push_back({NodeId(i), DirectoryId(i)});
    };
    fill(m.voters, 20);
    if (random.chance(1, 2)) fill(m.outgoing, 5);
    if (m.voters.empty()) continue;
    for (uint64_t i = 1; i <= 20; ++i) values[NodeId(i)] = random.below(6);
    uint64_t slow = 0;
    for (uint64_t candidate = 1; candidate < 6; ++candidate)
      if (is_quorum(m, [&](const Member& member) { return values[member.id] >= candidate; }))
        slow = candidate;
    EXPECT_EQ(agreed_value<uint64_t>(m, [&](const Member& member) { return values[member.id]; }), slow);
  }
}

}  // namespace
}  // namespace rallypoint::raft::quorum
