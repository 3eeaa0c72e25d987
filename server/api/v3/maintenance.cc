// etcdserverpb.Maintenance: alarms, status, hashes, snapshots, moving the leader.
//
// Status never waits for anybody: it is what an operator asks when there is no quorum. Defragment acts on this member
// alone and blocks nobody. No downgrade is possible: the state is our own and has one version.

#include <string>

#include "server/api/v3/handler.h"
#include "server/api/v3/make.h"
#include "server/api/v3/validate.h"
#include "server/options.h"

namespace rallypoint::server::v3 {
namespace {

namespace pb = etcdserverpb;

class AlarmHandler final : public UnaryHandler {
 public:
  using UnaryHandler::UnaryHandler;

 private:
  void handle(std::string_view message) override {
    auto request = std::make_unique<pb::AlarmRequest>();
    if (!parse(message, *request)) return;
    if (Status status = validate(*request); !status.is_ok()) return fail(std::move(status));
    if (request->action() == pb::AlarmRequest::GET) return submit_read(V3Read::Kind::kAlarms, std::move(request), true);
    submit_write(V3WriteKind::kAlarm, message);
  }
};

class StatusHandler final : public UnaryHandler {
 public:
  using UnaryHandler::UnaryHandler;

  void on_reply(Reply&& reply) override {
    const auto* header = std::get_if<Bytes>(&reply.body);
    if (header == nullptr) return UnaryHandler::on_reply(std::move(reply));
    const ClusterView view = rpc_.backend().cluster_view();
    pb::StatusResponse response;
    response.mutable_header()->ParseFromArray(header->data(), static_cast<int>(header->size()));
    response.set_version(kEtcdVersion);
    response.set_storageversion(kEtcdClusterVersion);
    response.set_dbsize(static_cast<int64_t>(view.db_bytes));
    response.set_dbsizeinuse(static_cast<int64_t>(view.db_bytes_in_use));
    response.set_dbsizequota(view.quota_bytes);
    response.set_leader(view.leader_id);
    response.set_raftindex(view.commit_index);
    response.set_raftterm(view.raft_term);
    response.set_raftappliedindex(view.applied_index);
    response.set_islearner(view.role == ViewRole::kLearner);
    response.mutable_downgradeinfo();
    if (!view.has_leader()) response.add_errors(std::string(kNoLeader.text));
    if (!view.unhealthy_reason.empty()) response.add_errors(view.unhealthy_reason);
    for (const ClusterView::Alarm& alarm : view.alarms) response.add_errors(text_of(alarm));
    answer(response);
  }

 private:
  void handle(std::string_view message) override {
    auto request = std::make_unique<pb::StatusRequest>();
    if (parse(message, *request)) submit_read(V3Read::Kind::kStatus, std::move(request), false);
  }
  /// As Go prints the message.
  static std::string text_of(const ClusterView::Alarm& alarm) {
    std::string text;
    if (alarm.member_id != 0) text += "memberID:" + std::to_string(alarm.member_id) + " ";
    if (alarm.type != 0) text += "alarm:" + pb::AlarmType_Name(static_cast<pb::AlarmType>(alarm.type)) + " ";
    return text;
  }
};

/// Of this member's own state: a hash is for comparing members with each other.
template <class Request, V3Read::Kind kind>
class HashHandler final : public UnaryHandler {
 public:
  using UnaryHandler::UnaryHandler;

 private:
  void handle(std::string_view message) override {
    auto request = std::make_unique<Request>();
    if (parse(message, *request)) submit_read(kind, std::move(request), false);
  }
};

class DefragmentHandler final : public UnaryHandler {
 public:
  using UnaryHandler::UnaryHandler;

 private:
  void handle(std::string_view message) override {
    pb::DefragmentRequest request;
    if (parse(message, request)) submit(V3Defragment{rpc_.call()});
  }
};

class SnapshotHandler final : public PartsHandler {
 public:
  using PartsHandler::PartsHandler;

 private:
  void handle(std::string_view message) override {
    pb::SnapshotRequest request;
    if (parse(message, request)) submit(V3Snapshot{rpc_.call()});
  }
};

class MoveLeaderHandler final : public UnaryHandler {
 public:
  using UnaryHandler::UnaryHandler;

 private:
  void handle(std::string_view message) override {
    pb::MoveLeaderRequest request;
    if (!parse(message, request)) return;
    const ClusterView view = rpc_.backend().cluster_view();
    if (!view.is_leader()) return fail(kNotLeader);
    const Member* target = view.find(request.targetid());
    if (target == nullptr || target->is_learner) return fail(kBadTransferee);
    submit(V3MoveLeader{rpc_.call(), request.targetid(), rpc_.time_left()});
  }
};

class DowngradeHandler final : public UnaryHandler {
 public:
  using UnaryHandler::UnaryHandler;

 private:
  void handle(std::string_view message) override {
    pb::DowngradeRequest request;
    if (!parse(message, request)) return;
    if (Status status = validate(request); !status.is_ok()) return fail(std::move(status));
    if (request.action() == pb::DowngradeRequest::CANCEL) return fail(kNoDowngrade);
    fail(kInvalidDowngradeTarget);  // whichever it is
  }
};

}  // namespace

Made make_alarm(Rpc& rpc, const V3Settings& settings) { return std::make_unique<AlarmHandler>(rpc, settings); }
Made make_status(Rpc& rpc, const V3Settings& settings) { return std::make_unique<StatusHandler>(rpc, settings); }
Made make_defragment(Rpc& rpc, const V3Settings& settings) { return std::make_unique<DefragmentHandler>(rpc, settings); }
Made make_hash(Rpc& rpc, const V3Settings& settings) {
  return std::make_unique<HashHandler<pb::HashRequest, V3Read::Kind::kHash>>(rpc, settings);
}
Made make_hash_kv(Rpc& rpc, const V3Settings& settings) {
  return std::make_unique<HashHandler<pb::HashKVRequest, V3Read::Kind::kHashKv>>(rpc, settings);
}
Made make_snapshot(Rpc& rpc, const V3Settings& settings) { return std::make_unique<SnapshotHandler>(rpc, settings); }
Made make_move_leader(Rpc& rpc, const V3Settings& settings) { return std::make_unique<MoveLeaderHandler>(rpc, settings); }
Made make_downgrade(Rpc& rpc, const V3Settings& settings) { return std::make_unique<DowngradeHandler>(rpc, settings); }

}  // namespace rallypoint::server::v3
