// The rules of the Raft paper (Ongaro and Ousterhout, extended version), in the paper's order, each on one
// core that is fed by hand. Pre-votes (thesis 9.6) come first here; the helper below plays the other voters.
#include <gtest/gtest.h>

#include <algorithm>

#include "raft/core_state.h"
#include "raft/invariants.h"

namespace rallypoint::raft {
namespace {

/// Node 1 of three; disk of node n is n + 10. Its disk is instant unless told otherwise.
struct One {
  std::unique_ptr<Core> core;
  std::vector<Message> sent;
  std::vector<Entry> committed;
  std::vector<Rejection> rejections;
  WriteNumber written;
  std::optional<HardState> durable;
  bool disk_works = true;

  /// `terms`: of the entries after the binding membership at index 1 (term 1).
  explicit One(uint64_t term = 1, std::vector<uint64_t> terms = {}) {
    Config config;
    config.id = NodeId(1);
    config.directory = DirectoryId(11);
    RestoredState restored;
    Membership members;
    for (uint64_t id : {1, 2, 3}) members.voters.push_back({NodeId(id), DirectoryId(id + 10)});
    restored.hard_state.term = Term(term);
    restored.entries.push_back({Term(1), Index(1), EntryKind::kMembership, encode_membership(members)});
    for (uint64_t t : terms)
      restored.entries.push_back(
          {Term(t), Index(restored.entries.size() + 1), EntryKind::kCommand, Bytes::copy_of("x")});
    core = std::make_unique<Core>(config, 1, restored);
  }
  void take() {
    for (bool again = true; again;) {
      again = false;
      Output output = core->take_output();
      EXPECT_EQ(broken_in(core->state()), "");
      sent.insert(sent.end(), output.messages.begin(), output.messages.end());
      committed.insert(committed.end(), output.committed.begin(), output.committed.end());
      rejections.insert(rejections.end(), output.rejections.begin(), output.rejections.end());
      for (const Write& write : output.writes) {
        written = write.number;
        if (write.hard_state) durable = write.hard_state;
        again = true;
      }
      if (again && disk_works) core->step(Persisted{written});
    }
  }
  void step(Event event) { core->step(std::move(event)), take(); }
  void hear(uint64_t from, uint64_t term, Message::Body body) {
    step(MessageReceived{{NodeId(from), NodeId(1), Term(term), DirectoryId(from + 10), std::move(body)}});
  }
  void tick(int count = 1) {
    for (; count > 0; --count) core->tick(), take();
  }
  void propose(const std::string& command) { step(Propose{{{1, Bytes::copy_of(command)}}}); }
  Role role() const { return core->soft_state().role; }
  uint64_t term() const { return core->soft_state().term.value(); }
  template <class Body>
  std::vector<Message> all() const {
    std::vector<Message> found;
    for (const Message& message : sent)
      if (std::holds_alternative<Body>(message.body)) found.push_back(message);
    return found;
  }
  template <class Body>
  Body last() const {
    const auto found = all<Body>();
    EXPECT_FALSE(found.empty());
    return found.empty() ? Body{} : std::get<Body>(found.back().body);
  }
  void until_candidate() {
    for (int i = 0; i < 30 && role() != Role::kPreCandidate; ++i) tick();
    hear(2, term() + 1, VoteReply{true, true});
    EXPECT_EQ(role(), Role::kCandidate);
  }
  void until_leader() {
    until_candidate();
    hear(2, term(), VoteReply{false, true});
    EXPECT_EQ(role(), Role::kLeader);
  }
  EntryId last_id() const { return core->state().log.last_id(); }
};

// ---- 5.1 basics
// ------------------------------------------------------------------------------------------------

TEST(Paper_5_1, HigherTermMakesAFollowerOfEveryRole) {
  for (int role = 0; role < 3; ++role) {
    One node;
    if (role == 1) node.until_candidate();
    if (role == 2) node.until_leader();
    const uint64_t term = node.term() + 3;
    node.hear(3, term, AppendRequest{node.last_id(), Index(0)});
    EXPECT_EQ(node.role(), Role::kFollower);
    EXPECT_EQ(node.term(), term);
    EXPECT_EQ(node.durable->term, Term(term)) << "the term is durable";
  }
}

TEST(Paper_5_1, OldTermIsRejectedAndAnsweredWithTheNewer) {
  One node(5);
  node.hear(2, 4, AppendRequest{node.last_id(), Index(0), {{Term(4), Index(2), EntryKind::kNoop, Bytes()}}});
  EXPECT_EQ(node.last_id().index, Index(1));
  EXPECT_EQ(node.all<AppendReply>().back().term, Term(5));
}

// ---- 5.2 leader election
// -----------------------------------------------------------------------------------------

TEST(Paper_5_2, StartsAsAFollower) {
  EXPECT_EQ(One().role(), Role::kFollower);
}

TEST(Paper_5_2, LeaderSendsHeartbeats) {
  One node;
  node.until_leader();
  node.sent.clear();
  node.tick();
  EXPECT_EQ(node.all<Heartbeat>().size(), 2u);
}

TEST(Paper_5_2, FollowerWithoutALeaderCampaigns) {
  One node;
  node.until_candidate();
  EXPECT_EQ(node.term(), 2u);
  EXPECT_EQ(node.durable->vote, NodeId(1)) << "it votes for itself";
  EXPECT_EQ(node.last<VoteRequest>().last, node.last_id());
  EXPECT_FALSE(node.last<VoteRequest>().pre_vote);
}

TEST(Paper_5_2, ElectionTimeoutIsRandomInItsRange) {
  std::set<int> seen;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    One base;
    Config config = base.core->state().config;
    RestoredState restored;
    restored.hard_state.term = Term(1);
    restored.entries.push_back(base.core->state().log.at(Index(1)));
    Core core(config, seed, restored);
    int ticks = 0;
    while (core.soft_state().role == Role::kFollower) core.tick(), ++ticks;
    EXPECT_GE(ticks, 10);
    EXPECT_LT(ticks, 20);
    seen.insert(ticks);
  }
  EXPECT_GT(seen.size(), 7u);
}

TEST(Paper_5_2, MajorityElects) {
  One node;
  node.until_candidate();
  node.hear(3, 2, VoteReply{false, false});
  EXPECT_EQ(node.role(), Role::kCandidate);
  node.hear(2, 2, VoteReply{false, true});
  EXPECT_EQ(node.role(), Role::kLeader);
}

TEST(Paper_5_2, VotesOncePerTermFirstComeFirstServed) {
  One node;
  node.tick(5);
  node.hear(2, 7, VoteRequest{{Term(6), Index(9)}});
  EXPECT_TRUE(node.last<VoteReply>().granted);
  node.hear(3, 7, VoteRequest{{Term(6), Index(9)}});
  EXPECT_FALSE(node.last<VoteReply>().granted);
  node.hear(2, 7, VoteRequest{{Term(6), Index(9)}});
  EXPECT_TRUE(node.last<VoteReply>().granted) << "the same candidate asks again";
}

TEST(Paper_5_2, CandidateFollowsTheLeaderOfItsTerm) {
  One node;
  node.until_candidate();
  node.hear(3, node.term(), Heartbeat{Index(0), 1});
  EXPECT_EQ(node.role(), Role::kFollower);
  EXPECT_EQ(node.core->soft_state().leader, NodeId(3));
}

// ---- 5.3 log replication
// -----------------------------------------------------------------------------------------

TEST(Paper_5_3, LeaderAppendsAndSendsInParallelWithItsDisk) {
  One node;
  node.until_leader();
  node.hear(2, 2, AppendReply{true, Index(2)});
  node.hear(3, 2, AppendReply{true, Index(2)});
  node.sent.clear();
  node.disk_works = false;
  node.propose("a");
  ASSERT_EQ(node.all<AppendRequest>().size(), 2u);
  EXPECT_EQ(node.last<AppendRequest>().entries[0].payload.view(), "a");
  EXPECT_EQ(node.last<AppendRequest>().previous, (EntryId{Term(2), Index(2)}));
}

TEST(Paper_5_3, CommitsOnceAMajorityHasIt) {
  One node;
  node.until_leader();
  node.propose("a");
  EXPECT_TRUE(node.committed.empty());
  node.hear(2, 2, AppendReply{true, Index(3)});
  EXPECT_EQ(node.core->commit(), Index(3)) << "and with it all before, 5.3";
  EXPECT_EQ(node.committed.size(), 3u);
}

TEST(Paper_5_3, FollowerLearnsWhatIsCommittedButNotBeyondWhatItHas) {
  One node;
  node.hear(2, 1, AppendRequest{node.last_id(), Index(9), {{Term(1), Index(2), EntryKind::kNoop, Bytes()}}});
  EXPECT_EQ(node.core->commit(), Index(2));
}

TEST(Paper_5_3, AppendIsRefusedIfTheEntryBeforeIsNotThere) {
  One node(3, {2, 2});
  node.hear(2, 3,
            AppendRequest{{Term(3), Index(3)}, Index(0), {{Term(3), Index(4), EntryKind::kNoop, Bytes()}}});
  EXPECT_FALSE(node.last<AppendReply>().accepted);
  EXPECT_EQ(node.last<AppendReply>().hint, (EntryId{Term(2), Index(3)}));
  EXPECT_EQ(node.last_id().index, Index(3));
}

// Figure 7: the follower's log may lack entries, have extra ones, or both. `lead` is the leader's log of
// term 8.
TEST(Paper_5_3, FollowersLogBecomesTheLeaders) {
  const std::vector<uint64_t> lead = {1, 1, 4, 4, 5, 5, 6, 6, 6};
  const std::vector<std::vector<uint64_t>> followers = {
      {1, 1, 4, 4, 5, 5, 6, 6},          {1, 1, 4},          {1, 1, 4, 4, 5, 5, 6, 6, 6, 6},
      {1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7}, {1, 1, 4, 4, 4, 4}, {1, 1, 2, 2, 2, 3, 3, 3, 3, 3}};
  for (const auto& terms : followers) {
    One node(7, terms);
    std::vector<Entry> entries;
    for (size_t i = 0; i < lead.size(); ++i)
      entries.push_back({Term(lead[i]), Index(i + 2), EntryKind::kCommand, Bytes()});
    entries.push_back({Term(8), Index(lead.size() + 2), EntryKind::kNoop, Bytes()});
    node.hear(2, 8, AppendRequest{{Term(1), Index(1)}, Index(1), entries});
    ASSERT_EQ(node.last_id(), (EntryId{Term(8), Index(11)}));
    for (const Entry& entry : entries) EXPECT_EQ(node.core->state().log.at(entry.index).term, entry.term);
  }
}

TEST(Paper_5_3, LateAppendCutsNothing) {
  One node;
  const EntryId before = node.last_id();
  const std::vector<Entry> two = {{Term(1), Index(2), EntryKind::kNoop, Bytes()},
                                  {Term(1), Index(3), EntryKind::kNoop, Bytes()}};
  node.hear(2, 1, AppendRequest{before, Index(0), two});
  node.hear(2, 1, AppendRequest{before, Index(0), {two[0]}});
  EXPECT_EQ(node.last_id().index, Index(3));
}

TEST(Paper_5_3, FollowerAcksOnceDurable) {
  One node;
  node.disk_works = false;
  node.hear(2, 1, AppendRequest{node.last_id(), Index(0), {{Term(1), Index(2), EntryKind::kNoop, Bytes()}}});
  EXPECT_TRUE(node.all<AppendReply>().empty());
  node.step(Persisted{node.written});
  EXPECT_EQ(node.last<AppendReply>().match, Index(2));
}

// ---- 5.4 safety
// --------------------------------------------------------------------------------------------------

TEST(Paper_5_4_1, VoterRefusesALogThatIsLessUpToDate) {
  struct Case {
    EntryId last;
    bool granted;
  };
  for (const Case& c :
       {Case{{Term(3), Index(3)}, true}, Case{{Term(3), Index(9)}, true}, Case{{Term(4), Index(1)}, true},
        Case{{Term(3), Index(2)}, false}, Case{{Term(2), Index(9)}, false}}) {
    for (bool pre_vote : {true, false}) {
      One node(3, {3, 3});
      node.hear(2, 5, VoteRequest{c.last, pre_vote});
      EXPECT_EQ(node.last<VoteReply>().granted, c.granted) << c.last.term << "." << c.last.index;
    }
  }
}

// Figure 8: an entry of an older term on a majority is not committed by counting, only together with one of
// the own.
TEST(Paper_5_4_2, OnlyEntriesOfTheOwnTermCommitByCounting) {
  One node(2, {1, 2});
  node.until_leader();
  node.hear(2, 3, AppendReply{true, Index(3)});
  EXPECT_EQ(node.core->commit(), Index(0));
  node.hear(2, 3, AppendReply{true, Index(4)});
  EXPECT_EQ(node.core->commit(), Index(4));
}

// ---- 6 membership, 7 compaction: membership_change_test.cc and snapshotting_test.cc
// ------------------------------

// ---- 8 clients
// -----------------------------------------------------------------------------------------------------

TEST(Paper_8, LeaderBeginsItsTermWithANoop) {
  One node;
  node.until_leader();
  EXPECT_EQ(node.core->state().log.at(node.last_id().index).kind, EntryKind::kNoop);
  EXPECT_EQ(node.last_id().term, Term(2));
}

TEST(Paper_8, FollowerNamesTheLeaderToWhomItSendsClients) {
  One node;
  node.hear(2, 1, Heartbeat{Index(0), 1});
  node.propose("a");
  ASSERT_EQ(node.rejections.size(), 1u);
  EXPECT_EQ(node.rejections[0].leader, NodeId(2));
}

}  // namespace
}  // namespace rallypoint::raft
