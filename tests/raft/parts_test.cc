// The small parts: config, progress, membership, read_index, output.
#include <gtest/gtest.h>

#include "raft/config.h"
#include "raft/core.h"
#include "raft/membership.h"
#include "raft/output.h"
#include "raft/planted_bug.h"
#include "raft/progress.h"
#include "raft/read_index.h"

namespace rallypoint::raft {
namespace {

TEST(Config, NamesTheFirstBadField) {
  Config config;
  EXPECT_NE(config.validate().message().find("id"), std::string::npos);
  config.id = NodeId(1);
  EXPECT_NE(config.validate().message().find("directory"), std::string::npos);
  config.directory = DirectoryId(1);
  EXPECT_TRUE(config.validate().is_ok());
  config.election_ticks = config.heartbeat_ticks;
  EXPECT_NE(config.validate().message().find("election_ticks"), std::string::npos);
}

struct ProgressTest : testing::Test {
  Config config;
  Progress follower{{NodeId(2), DirectoryId(2)}, Index(5)};
  void SetUp() override { config.inflight_appends_max = 2, config.inflight_bytes_max = 100; }
};

TEST_F(ProgressTest, ProbesOneAppendAtATime) {
  EXPECT_TRUE(follower.may_send(config));
  follower.sent(Index(6), 10);
  EXPECT_FALSE(follower.may_send(config));
  EXPECT_EQ(follower.next, Index(5)) << "a probe promises nothing";
}

TEST_F(ProgressTest, RefusedProbeMovesToWhereTheLogsMayMeet) {
  follower.sent(Index(5), 0);
  EXPECT_TRUE(follower.refused(Index(4), Index(2)));
  EXPECT_EQ(follower.next, Index(3));
  EXPECT_TRUE(follower.may_send(config));
  EXPECT_FALSE(follower.refused(Index(4), Index(0))) << "old news";
}

TEST_F(ProgressTest, RefusalNeverGoesBelowWhatIsAcked) {
  follower.acked(Index(3));
  follower.next = Index(6);
  EXPECT_TRUE(follower.refused(Index(5), Index(0)));
  EXPECT_EQ(follower.next, Index(4));
}

TEST_F(ProgressTest, ReplicatesUpToItsBounds) {
  follower.become_replicate();
  follower.sent(Index(1), 1);
  EXPECT_TRUE(follower.may_send(config));
  follower.sent(Index(2), 1);
  EXPECT_FALSE(follower.may_send(config)) << "two appends are under way";
  EXPECT_TRUE(follower.acked(Index(1)));
  EXPECT_TRUE(follower.may_send(config));
  follower.sent(Index(3), 100);
  follower.acked(Index(2));
  EXPECT_FALSE(follower.may_send(config)) << "too many bytes are under way";
}

TEST_F(ProgressTest, LossSendsItBackToProbing) {
  follower.become_replicate();
  follower.sent(Index(1), 1);
  follower.sent(Index(2), 1);
  EXPECT_TRUE(follower.refused(Index(1), Index(0)));
  EXPECT_EQ(follower.mode, Progress::Mode::kProbe);
  EXPECT_EQ(follower.next, Index(1));
}

Membership example() {
  return {{{NodeId(1), DirectoryId(11)}, {NodeId(2), DirectoryId(12)}},
          {{NodeId(2), DirectoryId(12)}, {NodeId(3), DirectoryId(13)}},
          {{NodeId(4), DirectoryId(14)}},
          {{NodeId(3), DirectoryId(13)}},
          Bytes::copy_of("context"),
          {NodeId(4)}};
}

TEST(Membership, SurvivesEncoding) {
  auto decoded = decode_membership(encode_membership(example()));
  ASSERT_TRUE(decoded.is_ok());
  EXPECT_EQ(*decoded, example());
}

TEST(Membership, RejectsWhatMakesNoSense) {
  EXPECT_EQ(decode_membership(Bytes::copy_of("\xff\xff junk")).status().code(), Code::kDataLoss);
  Membership m = example();
  std::swap(m.voters[0], m.voters[1]);
  EXPECT_FALSE(validate_membership(m).is_ok()) << "unsorted";
  m = example();
  m.learners = {{NodeId(1), DirectoryId(11)}};
  m.returning.clear();
  EXPECT_FALSE(validate_membership(m).is_ok()) << "voter and learner";
  m = example();
  m.voters[1].directory = DirectoryId(99);
  EXPECT_FALSE(validate_membership(m).is_ok()) << "two disks for one member";
  m = example();
  m.returning = {NodeId(9)};
  EXPECT_FALSE(validate_membership(m).is_ok()) << "returns but does not learn";
}

TEST(MembershipHistory, AnswersForEveryIndexAndForgetsWhatIsCut) {
  Membership first, second = example();
  MembershipHistory history(Index(3), first);
  history.append(Index(7), second);
  EXPECT_EQ(history.at(Index(6)), first);
  EXPECT_EQ(history.at(Index(7)), second);
  EXPECT_EQ(history.current_index(), Index(7));
  EXPECT_FALSE(history.truncate_from(Index(8)));
  MembershipHistory compacted = history;
  compacted.compact_to(Index(9));
  EXPECT_EQ(compacted.current(), second);
  EXPECT_TRUE(history.truncate_from(Index(7)));
  EXPECT_EQ(history.current(), first);
}

TEST(ReadIndexQueue, OnlyALaterRoundConfirms) {
  ReadIndexQueue queue;
  const uint64_t before = queue.round();
  queue.add(NodeId(1), 10, Index(4));
  EXPECT_TRUE(queue.wants_round());
  EXPECT_TRUE(queue.take_confirmed(before).empty());
  queue.begin_round();
  EXPECT_FALSE(queue.wants_round());
  const auto reads = queue.take_confirmed(queue.round());
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0].index, Index(4));
}

TEST(ReadIndexQueue, EarlyReadsTakeTheCommitOfTheirAdmission) {
  ReadIndexQueue queue;
  queue.add_early(NodeId(1), 10);
  EXPECT_FALSE(queue.wants_round());
  queue.admit_early(Index(9));
  queue.begin_round();
  EXPECT_EQ(queue.take_confirmed(queue.round())[0].index, Index(9));
}

TEST(ForwardedReads, AnswerIsTakenOnceAndTimesOut) {
  ForwardedReads reads(1000);
  const uint64_t first = reads.add(1), second = reads.add(2);
  EXPECT_NE(first, second);
  EXPECT_EQ(reads.take(first), 1u);
  EXPECT_EQ(reads.take(first), std::nullopt);
  EXPECT_TRUE(reads.tick(2).empty());
  EXPECT_EQ(reads.tick(2), std::vector<uint64_t>{2});
}

Message ack(uint64_t match) {
  return {NodeId(1), NodeId(2), Term(1), DirectoryId(1), AppendReply{true, Index(match)}};
}

TEST(WriteTracker, CutShortensWhatEarlierWritesVouchFor) {
  WriteTracker writes;
  const WriteNumber first = writes.hand_over(Index(7), 0, std::nullopt);
  writes.truncate_from(Index(6));
  (void)writes.hand_over(Index(6), 0, std::nullopt);
  const auto done = writes.persisted_to(first);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].durable, Index(5));
}

TEST(WriteTracker, MessagesWaitForTheirWrite) {
  WriteTracker writes;
  const WriteNumber first = writes.hand_over(Index(1), 0, std::nullopt);
  const WriteNumber second = writes.hand_over(Index(2), 0, std::nullopt);
  writes.hold(first, ack(1));
  writes.hold(second, ack(2));
  std::vector<Message> out;
  writes.release(out);
  EXPECT_TRUE(out.empty());
  (void)writes.persisted_to(first);
  writes.release(out);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(std::get<AppendReply>(out[0].body).match, Index(1));
}

TEST(WriteTracker, AcksOfOneWriteBecomeOne) {
  WriteTracker writes;
  const WriteNumber only = writes.hand_over(Index(2), 0, std::nullopt);
  writes.hold(only, ack(1));
  writes.hold(only, ack(2));
  (void)writes.persisted_to(only);
  std::vector<Message> out;
  writes.release(out);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(std::get<AppendReply>(out[0].body).match, Index(2));
}

TEST(WriteTracker, KnowsHowLongTheOldestWriteTakes) {
  WriteTracker writes;
  EXPECT_EQ(writes.oldest_age(50), 0u);
  const WriteNumber first = writes.hand_over(Index(1), 10, std::nullopt);
  (void)writes.hand_over(Index(2), 40, std::nullopt);
  EXPECT_EQ(writes.oldest_age(50), 40u);
  (void)writes.persisted_to(first);
  EXPECT_EQ(writes.oldest_age(50), 10u);
}

TEST(Message, OnlyBulkIsNotUrgent) {
  Message message{NodeId(1), NodeId(2), Term(1), DirectoryId(1), AppendRequest{}};
  EXPECT_TRUE(is_urgent(message));
  std::get<AppendRequest>(message.body).entries.resize(1);
  EXPECT_FALSE(is_urgent(message));
  message.body = InstallSnapshot{};
  EXPECT_FALSE(is_urgent(message));
  EXPECT_STREQ(message_name(message), "InstallSnapshot");
  message.body = TimeoutNow{};
  EXPECT_TRUE(is_urgent(message));
}

TEST(PlantedBugs, TableListsEveryOneInOrder) {
  const auto bugs = planted_bugs();
  ASSERT_EQ(bugs.size(), static_cast<size_t>(PlantedBug::kCount) - 1);
  for (size_t i = 0; i < bugs.size(); ++i) EXPECT_EQ(static_cast<size_t>(bugs[i].bug), i + 1) << bugs[i].name;
}

}  // namespace
}  // namespace rallypoint::raft
