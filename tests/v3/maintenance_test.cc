#include "server/options.h"
#include "tests/v3/fake_rpc.h"

namespace rallypoint::server {
namespace {

using namespace etcdserverpb;

class V3Maintenance : public V3Test {
 protected:
  StatusResponse status() {
    open("/etcdserverpb.Maintenance/Status", StatusRequest());
    auto read = take<V3Read>();
    EXPECT_EQ(read.kind, V3Read::Kind::kStatus);
    EXPECT_FALSE(read.linearizable) << "it is asked when there is no quorum";
    ResponseHeader header;
    header.set_revision(42);
    reply(read, header);
    expect_ended(Status::ok());
    return sent<StatusResponse>();
  }
};

TEST_F(V3Maintenance, StatusSaysHowThisMemberIs) {
  ClusterView& view = rpc.node.view;
  view.commit_index = 11;
  view.applied_index = 10;
  view.db_bytes = 1000;
  view.db_bytes_in_use = 600;
  view.quota_bytes = 2000;
  const StatusResponse response = status();
  EXPECT_EQ(response.header().revision(), 42);
  EXPECT_EQ(response.version(), kEtcdVersion);
  EXPECT_EQ(response.leader(), view.leader_id);
  EXPECT_EQ(response.raftindex(), 11u);
  EXPECT_EQ(response.raftappliedindex(), 10u);
  EXPECT_EQ(response.raftterm(), 2u);
  EXPECT_EQ(response.dbsize(), 1000);
  EXPECT_EQ(response.dbsizeinuse(), 600);
  EXPECT_EQ(response.dbsizequota(), 2000);
  EXPECT_FALSE(response.islearner());
  EXPECT_EQ(response.errors_size(), 0);
}

TEST_F(V3Maintenance, StatusNamesWhatIsWrong) {
  ClusterView& view = rpc.node.view;
  view.leader_id = 0;
  view.role = ViewRole::kLearner;
  view.alarms = {{0, 1}, {5, 1}, {5, 2}};
  const StatusResponse response = status();
  EXPECT_TRUE(response.islearner());
  EXPECT_THAT(response.errors(), ::testing::ElementsAre("etcdserver: no leader", "alarm:NOSPACE ", "memberID:5 alarm:NOSPACE ",
                                                        "memberID:5 alarm:CORRUPT "));
}

TEST_F(V3Maintenance, AlarmsAreReadAndWritten) {
  open("/etcdserverpb.Maintenance/Alarm", AlarmRequest());
  auto read = take<V3Read>();
  EXPECT_EQ(read.kind, V3Read::Kind::kAlarms);
  EXPECT_TRUE(read.linearizable);
  AlarmRequest off;
  off.set_action(AlarmRequest::DEACTIVATE);
  off.set_alarm(NOSPACE);
  open("/etcdserverpb.Maintenance/Alarm", off);
  auto write = take<V3Write>();
  EXPECT_EQ(write.kind, V3WriteKind::kAlarm);
  EXPECT_EQ(write.message.to_string(), off.SerializeAsString());
  off.set_alarm(static_cast<AlarmType>(9));
  open("/etcdserverpb.Maintenance/Alarm", off);
  ASSERT_TRUE(rpc.finished);
  EXPECT_EQ(rpc.finished->code(), Code::kInvalidArgument);
}

TEST_F(V3Maintenance, HashesAreOfThisMembersOwnState) {
  HashKVRequest request;
  request.set_revision(5);
  open("/etcdserverpb.Maintenance/HashKV", request);
  auto read = take<V3Read>();
  EXPECT_EQ(read.kind, V3Read::Kind::kHashKv);
  EXPECT_FALSE(read.linearizable);
  open("/etcdserverpb.Maintenance/Hash", HashRequest());
  EXPECT_EQ(take<V3Read>().kind, V3Read::Kind::kHash);
}

TEST_F(V3Maintenance, DefragmentIsTheNodes) {
  open("/etcdserverpb.Maintenance/Defragment", DefragmentRequest());
  reply(take<V3Defragment>(), DefragmentResponse());
  expect_ended(Status::ok());
}

TEST_F(V3Maintenance, ASnapshotComesInParts) {
  open("/etcdserverpb.Maintenance/Snapshot", SnapshotRequest());
  auto snapshot = take<V3Snapshot>();
  reply(snapshot, Bytes::copy_of("part"), false);
  take<V3More>();
  reply(snapshot, Bytes::copy_of("sum"), true);
  EXPECT_EQ(rpc.sent, (std::vector<std::string>{"part", "sum"}));
  expect_ended(Status::ok());
}

TEST_F(V3Maintenance, TheLeaderIsMovedByItself) {
  rpc.deadline = Duration::seconds(2);
  MoveLeaderRequest request;
  request.set_targetid(rpc.node.view.members[1].id);
  open("/etcdserverpb.Maintenance/MoveLeader", request);
  auto move = take<V3MoveLeader>();
  EXPECT_EQ(move.target, request.targetid());
  EXPECT_EQ(move.timeout, Duration::seconds(2));
  reply(move, MoveLeaderResponse());
  expect_ended(Status::ok());
}

TEST_F(V3Maintenance, TheLeaderIsMovedToAVoterOnly) {
  for (const bool learner : {false, true}) {
    rpc.finished.reset();
    rpc.node.view.members[1].is_learner = learner;
    MoveLeaderRequest request;
    request.set_targetid(learner ? rpc.node.view.members[1].id : 99);
    open("/etcdserverpb.Maintenance/MoveLeader", request);
    expect_ended(Status::failed_precondition("etcdserver: bad leader transferee"));
  }
}

TEST_F(V3Maintenance, AFollowerDoesNotMoveTheLeader) {
  rpc.node.view.leader_id = rpc.node.view.members[1].id;
  open("/etcdserverpb.Maintenance/MoveLeader", MoveLeaderRequest());
  expect_ended(Status::failed_precondition("etcdserver: not leader"));
}

TEST_F(V3Maintenance, NoDowngradeIsPossible) {
  struct Case { DowngradeRequest::DowngradeAction action; const char* version; Status status; };
  for (const Case& c : std::vector<Case>{
           {DowngradeRequest::VALIDATE, "3.5.0", Status::invalid_argument("etcdserver: invalid downgrade target version")},
           {DowngradeRequest::ENABLE, "3.5", Status::invalid_argument("etcdserver: invalid downgrade target version")},
           {DowngradeRequest::ENABLE, "x", Status::invalid_argument("etcdserver: wrong downgrade target version format")},
           {DowngradeRequest::CANCEL, "", Status::failed_precondition("etcdserver: no inflight downgrade job")}}) {
    rpc.finished.reset();
    DowngradeRequest request;
    request.set_action(c.action);
    request.set_version(c.version);
    open("/etcdserverpb.Maintenance/Downgrade", request);
    expect_ended(c.status);
  }
}

}  // namespace
}  // namespace rallypoint::server
