#include "server/requests.h"

#include "server/cluster_clock.h"
#include "tests/state/support.h"

namespace rallypoint::server {
namespace {

const NodeId kSelf(1);
constexpr uint64_t kIncarnation = 1;

/// A net loop's mailbox that only remembers.
class Sink final : public ReplySink {
 public:
  void deliver(std::vector<Reply>&& batch) override {
    ++batches;
    for (Reply& reply : batch) replies.push_back(std::move(reply));
  }
  std::vector<Reply> replies;
  int batches = 0;
};

class RequestsTest : public testing::Test {
 protected:
  RequestsTest() {
    Effects effects;
    EXPECT_TRUE(machine->apply(entry_at(1, {registration(kSelf, 9)}), effects).is_ok());
    requests.set_incarnation(kIncarnation);
  }
  RaftPosition at() const { return {machine->applied().index, Term(1)}; }
  void take(Request request) {
    std::vector<Request> batch;
    batch.push_back(std::move(request));
    requests.take(std::move(batch), *machine, now, {}, at());
  }
  uint64_t write(const v2::WriteRequest& request) {
    take(V2Write{{&sink, ++token}, request});
    return token;
  }
  /// What a leader would do with them: one entry, applied here.
  void commit(const std::vector<Bytes>& commands) {
    Effects effects;
    ASSERT_TRUE(machine->apply(entry_at(machine->applied().index.value() + 1, commands), effects).is_ok());
    requests.applied(effects, *machine, now, at());
    requests.flush();
  }

  std::unique_ptr<StateMachine> machine = open_machine(std::make_shared<storage::MemoryEngine>());
  Requests requests{kSelf, {}};
  Sink sink;
  Instant now{1'000'000};
  uint64_t token = 0;
};

TEST_F(RequestsTest, AWriteIsAnsweredWhenItIsApplied) {
  const uint64_t call = write(put_request("/k", "v"));
  const auto commands = requests.take_proposals(now);
  ASSERT_EQ(commands.size(), 1u);
  requests.flush();
  EXPECT_TRUE(sink.replies.empty());
  commit(commands);
  ASSERT_EQ(sink.replies.size(), 1u);
  EXPECT_EQ(sink.replies[0].token, call);
  EXPECT_TRUE(sink.replies[0].final);
  EXPECT_EQ(std::get<v2::EventPtr>(sink.replies[0].body)->action, v2::Action::kSet);
  EXPECT_EQ(requests.writes_waiting(), 0u);
}

TEST_F(RequestsTest, BeforeTheRegistrationNothingIsProposed) {
  Requests fresh(kSelf, {});
  std::vector<Request> batch;
  batch.push_back(V2Write{{&sink, 1}, put_request("/k", "v")});
  fresh.take(std::move(batch), *machine, now, {}, at());
  EXPECT_TRUE(fresh.take_proposals(now).empty());
  fresh.set_incarnation(kIncarnation);
  EXPECT_EQ(fresh.take_proposals(now).size(), 1u);
}

TEST_F(RequestsTest, ProposedAgainAfterALeaderChangeItIsAppliedAndAnsweredOnce) {
  write(put_request("/k", "v"));
  const auto first = requests.take_proposals(now);
  requests.propose_again();
  const auto again = requests.take_proposals(now);
  ASSERT_EQ(again, first);
  commit(first);
  commit(again);
  EXPECT_EQ(sink.replies.size(), 1u);
}

TEST_F(RequestsTest, ALostProposalIsTriedAgainAfterAWhile) {
  write(put_request("/k", "v"));
  const auto first = requests.take_proposals(now);
  requests.tick(*machine, now + Duration::millis(900), at());
  EXPECT_TRUE(requests.take_proposals(now).empty());
  requests.tick(*machine, now + Duration::millis(1100), at());
  EXPECT_EQ(requests.take_proposals(now), first);
}

TEST_F(RequestsTest, ACallersOwnDeadlineEndsItsRequestJustBefore) {
  V3Write write;
  write.call = {&sink, 1};
  write.kind = V3WriteKind::kPut;
  write.timeout = Duration::millis(300);
  take(std::move(write));
  V3Read read;
  read.call = {&sink, 2};
  read.message = std::make_unique<etcdserverpb::RangeRequest>();
  read.timeout = Duration::millis(400);
  take(std::move(read));
  take(V3KeepAlive{{&sink, 3}, 7});  // as long as the node itself waits: 7 s
  requests.take_proposals(now);
  const auto ended_at = [&](int milliseconds) {
    requests.expire(now + Duration::millis(milliseconds), at());
    requests.flush();
    return sink.replies.size();
  };
  EXPECT_EQ(ended_at(239), 0u);
  EXPECT_EQ(ended_at(241), 1u);
  EXPECT_EQ(std::get<Status>(sink.replies[0].body).message(), "etcdserver: request timed out");
  EXPECT_EQ(std::get<Status>(sink.replies[0].body).code(), Code::kOutcomeUnknown) << "it was proposed";
  EXPECT_EQ(ended_at(319), 1u);
  EXPECT_EQ(ended_at(321), 2u);
  EXPECT_EQ(std::get<Status>(sink.replies[1].body).code(), Code::kUnavailable);
  EXPECT_EQ(ended_at(6999), 2u);
  EXPECT_EQ(ended_at(7001), 3u);
  EXPECT_EQ(requests.writes_waiting(), 0u);
}

TEST_F(RequestsTest, ALosingCompareIsConfirmedByAReadAndCostsNoEntry) {
  write(put_request("/k", "v"));
  commit(requests.take_proposals(now));
  v2::WriteRequest compare = put_request("/k", "w");
  compare.prev_value = "other";
  write(compare);
  EXPECT_TRUE(requests.take_proposals(now).empty());
  const uint64_t read = requests.take_read(now);
  ASSERT_NE(read, 0u);
  requests.read_confirmed(read, machine->applied().index);
  requests.serve_reads(*machine, now, {}, at());
  requests.flush();
  ASSERT_EQ(sink.replies.size(), 2u);
  EXPECT_EQ(std::get<v2::Error>(sink.replies[1].body).code, 101);
  EXPECT_TRUE(requests.take_proposals(now).empty());
}

TEST_F(RequestsTest, ACompareThatWouldWinByTheReadIndexIsProposed) {
  v2::WriteRequest compare = put_request("/k", "w");
  compare.prev_value = "v";
  write(compare);  // the key is not there yet on this member
  const uint64_t read = requests.take_read(now);
  requests.read_confirmed(read, machine->applied().index + 1);
  requests.serve_reads(*machine, now, {}, at());
  EXPECT_TRUE(requests.take_proposals(now).empty()) << "the read index has not been reached";
  Effects effects;
  ASSERT_TRUE(machine->apply(entry_at(2, {registration(NodeId(2), 5), write_command(NodeId(2), 2, 1, put_request("/k", "v"))}), effects).is_ok());
  requests.serve_reads(*machine, now, {}, at());
  const auto commands = requests.take_proposals(now);
  ASSERT_EQ(commands.size(), 1u);
  commit(commands);
  EXPECT_EQ(value_of(*machine, "/k"), "w");
}

TEST_F(RequestsTest, ReadsOfOneDrainShareARoundAndWaitForItsIndex) {
  for (uint64_t i = 1; i <= 3; ++i) take(V2Read{{&sink, i}, {"/none", false, false}, true});
  const uint64_t read = requests.take_read(now);
  EXPECT_EQ(requests.take_read(now), 0u);
  requests.read_confirmed(read, machine->applied().index + 1);
  requests.serve_reads(*machine, now, {}, at());
  requests.flush();
  EXPECT_TRUE(sink.replies.empty());
  commit({});
  requests.serve_reads(*machine, now, {}, at());
  requests.flush();
  EXPECT_EQ(sink.replies.size(), 3u);
  EXPECT_EQ(sink.batches, 1);
}

TEST_F(RequestsTest, AFailedRoundIsAskedAgainUnderANewId) {
  take(V2Read{{&sink, 1}, {"/none", false, false}, true});
  const uint64_t first = requests.take_read(now);
  requests.read_failed(first);
  const uint64_t second = requests.take_read(now);
  EXPECT_NE(second, 0u);
  EXPECT_NE(second, first);
  requests.read_confirmed(first, Index(1));  // late: belongs to nobody
  requests.serve_reads(*machine, now, {}, at());
  requests.flush();
  EXPECT_TRUE(sink.replies.empty());
}

TEST_F(RequestsTest, ALocalReadIsAnsweredAtOnce) {
  take(V2Read{{&sink, 1}, {"/none", false, false}, false});
  requests.flush();
  ASSERT_EQ(sink.replies.size(), 1u);
  EXPECT_EQ(std::get<v2::Error>(sink.replies[0].body).code, 100);
}

TEST_F(RequestsTest, TimeOutsSayWhetherTheWriteMayHaveBeenExecuted) {
  write(put_request("/proposed", "v"));
  (void)requests.take_proposals(now);
  write(put_request("/waiting", "v"));
  take(V2Read{{&sink, ++token}, {"/k", false, false}, true});
  requests.tick(*machine, now + Duration::seconds(26), at());
  requests.flush();
  ASSERT_EQ(sink.replies.size(), 3u);
  EXPECT_EQ(std::get<Status>(sink.replies[0].body).code(), Code::kOutcomeUnknown);
  EXPECT_EQ(std::get<Status>(sink.replies[1].body).code(), Code::kUnavailable);
  EXPECT_EQ(std::get<Status>(sink.replies[2].body).code(), Code::kUnavailable);
}

TEST_F(RequestsTest, AWatchIsRegisteredFirstAndEndsWithItsEvent) {
  take(V2Watch{{&sink, 1}, {"/k", false, false, 0}});
  take(V2Watch{{&sink, 2}, {"/k", false, false, 0}});
  requests.flush();
  ASSERT_EQ(sink.replies.size(), 2u);
  EXPECT_TRUE(sink.replies[0].registered);
  EXPECT_FALSE(sink.replies[0].final);
  write(put_request("/k", "v"));
  commit(requests.take_proposals(now));
  ASSERT_EQ(sink.replies.size(), 5u);
  EXPECT_EQ(requests.watchers(), 0u);
  EXPECT_FALSE(sink.replies[3].encoded.empty()) << "encoded once for both";
  EXPECT_EQ(sink.replies[3].encoded.data(), sink.replies[4].encoded.data());
}

TEST_F(RequestsTest, ACancelledWatchGetsNothing) {
  take(V2Watch{{&sink, 1}, {"/k", false, false, 0}});
  take(CancelWatch{{&sink, 1}});
  take(CancelWatch{{&sink, 42}});
  EXPECT_EQ(requests.watchers(), 0u);
}

TEST_F(RequestsTest, AnInstalledSnapshotEndsWatchesAndLeavesCoveredWritesUnknown) {
  take(V2Watch{{&sink, 1}, {"/k", false, false, 0}});
  write(put_request("/covered", "v"));
  const auto covered = requests.take_proposals(now);
  write(put_request("/open", "v"));
  (void)requests.take_proposals(now);
  Effects unseen;  // applied by others; here it comes with a snapshot
  ASSERT_TRUE(machine->apply(entry_at(2, covered), unseen).is_ok());
  requests.state_replaced(*machine, now, at());
  requests.flush();
  ASSERT_EQ(sink.replies.size(), 3u);
  EXPECT_EQ(std::get<v2::Error>(sink.replies[1].body).code, 400);
  EXPECT_EQ(std::get<Status>(sink.replies[2].body).code(), Code::kOutcomeUnknown);
  EXPECT_EQ(requests.writes_waiting(), 1u);
}

TEST(ClusterClock, CountsOnlyUnderALeaderAndCapsJumps) {
  ClusterClock clock;
  clock.advance(Instant{10'000'000}, false);
  clock.restart_from(Instant{100});
  clock.advance(Instant{10'001'000}, true);
  EXPECT_EQ(clock.now().us, 1100);
  clock.advance(Instant{10'101'000}, false);
  EXPECT_EQ(clock.now().us, 1100);
  clock.advance(Instant{20'000'000}, true);  // the process was stopped
  EXPECT_EQ(clock.now().us, 501'100);
  clock.at_least(Instant{50});
  EXPECT_EQ(clock.now().us, 501'100);
  clock.at_least(Instant{600'000});
  EXPECT_EQ(clock.now().us, 600'000);
}

}  // namespace
}  // namespace rallypoint::server
