// server/digest_desk.h: whole nodes on one thread of which one applies the log differently. What makes it differ is a
// limit that members must share: a transaction of two puts is too large for it.
#include "server/digest_desk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/etcd_api/rpc.pb.h"
#include "tests/server/node_loop_support.h"

namespace rallypoint::server {
namespace {

using testing::HasSubstr;

StateSettings narrow() {
  StateSettings settings;
  settings.v3.keyspace.txn_operations_max = 1;
  return settings;
}

uint64_t put_two(TestNode& node, const std::string& value) {
  etcdserverpb::TxnRequest txn;
  for (const char* key : {"a", "b"}) {
    auto* put = txn.add_success()->mutable_request_put();
    put->set_key(key);
    put->set_value(value);
  }
  V3Write write;
  write.kind = V3WriteKind::kTxn;
  write.message = Bytes(txn.SerializeAsString());
  write.timeout = Duration::seconds(5);
  return node.ask(std::move(write));
}

V3Read range_of(const std::string& key) {
  auto range = std::make_unique<etcdserverpb::RangeRequest>();
  range->set_key(key);
  V3Read read;
  read.message = std::move(range);
  read.timeout = Duration::seconds(5);
  return read;
}

class OneOfThree : public testing::TestWithParam<uint64_t> {};

TEST_P(OneOfThree, StopsWhenItsStateIsNotTheOthers) {
  const uint64_t odd = GetParam();
  TestNodes cluster({1, 2, 3}, [&](uint64_t id) { return id == odd ? narrow() : StateSettings(); });
  ASSERT_TRUE(cluster.settle());
  cluster.run(Duration::seconds(30));
  for (auto& node : cluster.nodes) EXPECT_TRUE(node->diverged.is_ok()) << "nothing differs yet";

  const uint64_t put = put_two(*cluster.leader(), "1");
  ASSERT_TRUE(cluster.run_until([&] { return cluster.leader()->answered(put) && !cluster.node(odd).diverged.is_ok(); }));
  EXPECT_EQ(cluster.node(odd).diverged.code(), Code::kDataLoss);
  EXPECT_THAT(cluster.node(odd).diverged.message(), HasSubstr("digest"));
  cluster.node(odd).stopped = true;

  ASSERT_TRUE(cluster.settle()) << "the other two go on";
  TestNode& node = *cluster.leader();
  const uint64_t read = node.ask(range_of("a"));
  ASSERT_TRUE(cluster.run_until([&] { return node.answered(read); }));
  EXPECT_TRUE(std::holds_alternative<Bytes>(node.answers.by_token[read].front().body));
  cluster.run(Duration::seconds(30));
  for (auto& other : cluster.nodes) {
    if (other->id != NodeId(odd)) {
      EXPECT_TRUE(other->diverged.is_ok());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(LeaderOrFollower, OneOfThree, testing::Values(1, 2, 3));

TEST(DigestDesk, TwoThatDifferRaiseTheAlarmAndServeNoDoubtfulData) {
  TestNodes cluster({1, 2}, [](uint64_t id) { return id == 1 ? narrow() : StateSettings(); });
  ASSERT_TRUE(cluster.settle());
  put_two(*cluster.leader(), "1");
  ASSERT_TRUE(cluster.run_until([&] { return !cluster.leader()->loop->view().alarms.empty(); }));
  EXPECT_EQ(cluster.leader()->loop->view().alarms.front().type, etcdserverpb::CORRUPT);
  const uint64_t read = cluster.leader()->ask(range_of("a"));
  ASSERT_TRUE(cluster.run_until([&] { return cluster.leader()->answered(read); }));
  EXPECT_EQ(std::get<Status>(cluster.leader()->answers.by_token[read].front().body).message(), "etcdserver: corrupt cluster");
}

TEST(DigestDesk, AnIdleClusterLogsNoMarks) {
  TestNodes cluster({1, 2, 3});
  ASSERT_TRUE(cluster.settle());
  put_two(*cluster.leader(), "1");
  cluster.run(Duration::seconds(25));
  const uint64_t applied = cluster.leader()->loop->view().applied_index;
  cluster.run(Duration::seconds(60));
  EXPECT_EQ(cluster.leader()->loop->view().applied_index, applied);
}

TEST(DigestDesk, AReportThatIsNoneIsDropped) {
  DigestDesk desk(NodeId(1));
  desk.on_report(NodeId(2), Bytes(std::string("\xff\xff\xff")));
  EXPECT_TRUE(desk.take_report().empty()) << "no mark, no report";
}

}  // namespace
}  // namespace rallypoint::server
