#include "server/api/v3/services.h"

#include <memory>
#include <vector>

#include "server/api/v3/make.h"
#include "storage/etcd_api/election.pb.h"
#include "storage/etcd_api/health.pb.h"
#include "storage/etcd_api/lock.pb.h"
#include "storage/etcd_api/rpc.pb.h"

namespace rallypoint::server {
namespace {

namespace etcd = etcdserverpb;
using v3::Made;
using enum Permission;

enum class Streams { kNone, kServer, kBoth };

class Table {
 public:
  Table(RpcTable& table, const V3Settings& settings) : table_(table), settings_(std::make_shared<const V3Settings>(settings)) {}

  template <class Request, class Response>
  void add(std::string_view path, Streams streams, Permission permission, std::vector<std::string_view> gateway_paths,
           Made (*make)(Rpc&, const V3Settings&)) {
    add<Request, Response>(path, streams, permission, std::move(gateway_paths),
                           [make, settings = settings_](Rpc& rpc) { return make(rpc, *settings); });
  }
  /// Health needs to know which services there are.
  template <class Request, class Response>
  void add_health(std::string_view path, Streams streams, Made (*make)(Rpc&, const V3Settings&, const RpcTable&)) {
    add<Request, Response>(path, streams, kOpen, {},
                           [make, settings = settings_, &table = table_](Rpc& rpc) { return make(rpc, *settings, table); });
  }

 private:
  template <class Request, class Response>
  void add(std::string_view path, Streams streams, Permission permission, std::vector<std::string_view> gateway_paths,
           std::function<Made(Rpc&)> make) {
    RpcMethod method;
    method.path = path;
    method.client_streams = streams == Streams::kBoth;
    method.server_streams = streams != Streams::kNone;
    method.permission = permission;
    method.gateway_paths = std::move(gateway_paths);
    method.request = Request::descriptor();
    method.response = Response::descriptor();
    method.make = std::move(make);
    table_.add(std::move(method));
  }

  RpcTable& table_;
  const std::shared_ptr<const V3Settings> settings_;  // shared with every method: as long-lived as the table
};

}  // namespace

void register_v3_services(RpcTable& table, const V3Settings& settings) {
  using enum Streams;
  Table t(table, settings);

  t.add<etcd::RangeRequest, etcd::RangeResponse>("/etcdserverpb.KV/Range", kNone, kKeys, {"/kv/range"}, v3::make_range);
  t.add<etcd::RangeRequest, etcd::RangeStreamResponse>("/etcdserverpb.KV/RangeStream", kServer, kKeys, {}, v3::make_range_stream);
  t.add<etcd::PutRequest, etcd::PutResponse>("/etcdserverpb.KV/Put", kNone, kKeys, {"/kv/put"}, v3::make_put);
  t.add<etcd::DeleteRangeRequest, etcd::DeleteRangeResponse>("/etcdserverpb.KV/DeleteRange", kNone, kKeys, {"/kv/deleterange"}, v3::make_delete_range);
  t.add<etcd::TxnRequest, etcd::TxnResponse>("/etcdserverpb.KV/Txn", kNone, kKeys, {"/kv/txn"}, v3::make_txn);
  t.add<etcd::CompactionRequest, etcd::CompactionResponse>("/etcdserverpb.KV/Compact", kNone, kRoot, {"/kv/compaction"}, v3::make_compact);

  t.add<etcd::WatchRequest, etcd::WatchResponse>("/etcdserverpb.Watch/Watch", kBoth, kKeys, {"/watch"}, v3::make_watch);

  t.add<etcd::LeaseGrantRequest, etcd::LeaseGrantResponse>("/etcdserverpb.Lease/LeaseGrant", kNone, kAuthenticated, {"/lease/grant"}, v3::make_lease_grant);
  t.add<etcd::LeaseRevokeRequest, etcd::LeaseRevokeResponse>("/etcdserverpb.Lease/LeaseRevoke", kNone, kKeys, {"/lease/revoke", "/kv/lease/revoke"}, v3::make_lease_revoke);
  t.add<etcd::LeaseKeepAliveRequest, etcd::LeaseKeepAliveResponse>("/etcdserverpb.Lease/LeaseKeepAlive", kBoth, kKeys, {"/lease/keepalive"}, v3::make_lease_keep_alive);
  t.add<etcd::LeaseTimeToLiveRequest, etcd::LeaseTimeToLiveResponse>("/etcdserverpb.Lease/LeaseTimeToLive", kNone, kKeys, {"/lease/timetolive", "/kv/lease/timetolive"}, v3::make_lease_time_to_live);
  t.add<etcd::LeaseLeasesRequest, etcd::LeaseLeasesResponse>("/etcdserverpb.Lease/LeaseLeases", kNone, kAuthenticated, {"/lease/leases", "/kv/lease/leases"}, v3::make_lease_leases);

  t.add<etcd::MemberListRequest, etcd::MemberListResponse>("/etcdserverpb.Cluster/MemberList", kNone, kAuthenticated, {"/cluster/member/list"}, v3::make_member_list);
  t.add<etcd::MemberAddRequest, etcd::MemberAddResponse>("/etcdserverpb.Cluster/MemberAdd", kNone, kRoot, {"/cluster/member/add"}, v3::make_member_add);
  t.add<etcd::MemberRemoveRequest, etcd::MemberRemoveResponse>("/etcdserverpb.Cluster/MemberRemove", kNone, kRoot, {"/cluster/member/remove"}, v3::make_member_remove);
  t.add<etcd::MemberUpdateRequest, etcd::MemberUpdateResponse>("/etcdserverpb.Cluster/MemberUpdate", kNone, kRoot, {"/cluster/member/update"}, v3::make_member_update);
  t.add<etcd::MemberPromoteRequest, etcd::MemberPromoteResponse>("/etcdserverpb.Cluster/MemberPromote", kNone, kRoot, {"/cluster/member/promote"}, v3::make_member_promote);

  t.add<etcd::AlarmRequest, etcd::AlarmResponse>("/etcdserverpb.Maintenance/Alarm", kNone, kRoot, {"/maintenance/alarm"}, v3::make_alarm);
  t.add<etcd::StatusRequest, etcd::StatusResponse>("/etcdserverpb.Maintenance/Status", kNone, kAuthenticated, {"/maintenance/status"}, v3::make_status);
  t.add<etcd::DefragmentRequest, etcd::DefragmentResponse>("/etcdserverpb.Maintenance/Defragment", kNone, kRoot, {"/maintenance/defragment"}, v3::make_defragment);
  t.add<etcd::HashRequest, etcd::HashResponse>("/etcdserverpb.Maintenance/Hash", kNone, kRoot, {"/maintenance/hash"}, v3::make_hash);
  t.add<etcd::HashKVRequest, etcd::HashKVResponse>("/etcdserverpb.Maintenance/HashKV", kNone, kRoot, {"/maintenance/hashkv"}, v3::make_hash_kv);
  t.add<etcd::SnapshotRequest, etcd::SnapshotResponse>("/etcdserverpb.Maintenance/Snapshot", kServer, kRoot, {"/maintenance/snapshot"}, v3::make_snapshot);
  t.add<etcd::MoveLeaderRequest, etcd::MoveLeaderResponse>("/etcdserverpb.Maintenance/MoveLeader", kNone, kRoot, {"/maintenance/transfer-leadership"}, v3::make_move_leader);
  t.add<etcd::DowngradeRequest, etcd::DowngradeResponse>("/etcdserverpb.Maintenance/Downgrade", kNone, kRoot, {"/maintenance/downgrade"}, v3::make_downgrade);

  t.add<etcd::AuthEnableRequest, etcd::AuthEnableResponse>("/etcdserverpb.Auth/AuthEnable", kNone, kRoot, {"/auth/enable"}, v3::make_auth_not_enabled);
  t.add<etcd::AuthDisableRequest, etcd::AuthDisableResponse>("/etcdserverpb.Auth/AuthDisable", kNone, kRoot, {"/auth/disable"}, v3::make_auth_not_enabled);
  t.add<etcd::AuthStatusRequest, etcd::AuthStatusResponse>("/etcdserverpb.Auth/AuthStatus", kNone, kOpen, {"/auth/status"}, v3::make_auth_status);
  t.add<etcd::AuthenticateRequest, etcd::AuthenticateResponse>("/etcdserverpb.Auth/Authenticate", kNone, kOpen, {"/auth/authenticate"}, v3::make_auth_not_enabled);
  t.add<etcd::AuthUserAddRequest, etcd::AuthUserAddResponse>("/etcdserverpb.Auth/UserAdd", kNone, kRoot, {"/auth/user/add"}, v3::make_auth_not_enabled);
  t.add<etcd::AuthUserGetRequest, etcd::AuthUserGetResponse>("/etcdserverpb.Auth/UserGet", kNone, kAuthenticated, {"/auth/user/get"}, v3::make_auth_not_enabled);
  t.add<etcd::AuthUserListRequest, etcd::AuthUserListResponse>("/etcdserverpb.Auth/UserList", kNone, kRoot, {"/auth/user/list"}, v3::make_auth_not_enabled);
  t.add<etcd::AuthUserDeleteRequest, etcd::AuthUserDeleteResponse>("/etcdserverpb.Auth/UserDelete", kNone, kRoot, {"/auth/user/delete"}, v3::make_auth_not_enabled);
  t.add<etcd::AuthUserChangePasswordRequest, etcd::AuthUserChangePasswordResponse>("/etcdserverpb.Auth/UserChangePassword", kNone, kRoot, {"/auth/user/changepw"}, v3::make_auth_not_enabled);
  t.add<etcd::AuthUserGrantRoleRequest, etcd::AuthUserGrantRoleResponse>("/etcdserverpb.Auth/UserGrantRole", kNone, kRoot, {"/auth/user/grant"}, v3::make_auth_not_enabled);
  t.add<etcd::AuthUserRevokeRoleRequest, etcd::AuthUserRevokeRoleResponse>("/etcdserverpb.Auth/UserRevokeRole", kNone, kRoot, {"/auth/user/revoke"}, v3::make_auth_not_enabled);
  t.add<etcd::AuthRoleAddRequest, etcd::AuthRoleAddResponse>("/etcdserverpb.Auth/RoleAdd", kNone, kRoot, {"/auth/role/add"}, v3::make_auth_not_enabled);
  t.add<etcd::AuthRoleGetRequest, etcd::AuthRoleGetResponse>("/etcdserverpb.Auth/RoleGet", kNone, kAuthenticated, {"/auth/role/get"}, v3::make_auth_not_enabled);
  t.add<etcd::AuthRoleListRequest, etcd::AuthRoleListResponse>("/etcdserverpb.Auth/RoleList", kNone, kRoot, {"/auth/role/list"}, v3::make_auth_not_enabled);
  t.add<etcd::AuthRoleDeleteRequest, etcd::AuthRoleDeleteResponse>("/etcdserverpb.Auth/RoleDelete", kNone, kRoot, {"/auth/role/delete"}, v3::make_auth_not_enabled);
  t.add<etcd::AuthRoleGrantPermissionRequest, etcd::AuthRoleGrantPermissionResponse>("/etcdserverpb.Auth/RoleGrantPermission", kNone, kRoot, {"/auth/role/grant"}, v3::make_auth_not_enabled);
  t.add<etcd::AuthRoleRevokePermissionRequest, etcd::AuthRoleRevokePermissionResponse>("/etcdserverpb.Auth/RoleRevokePermission", kNone, kRoot, {"/auth/role/revoke"}, v3::make_auth_not_enabled);

  t.add<v3lockpb::LockRequest, v3lockpb::LockResponse>("/v3lockpb.Lock/Lock", kNone, kKeys, {"/lock/lock"}, v3::make_lock);
  t.add<v3lockpb::UnlockRequest, v3lockpb::UnlockResponse>("/v3lockpb.Lock/Unlock", kNone, kKeys, {"/lock/unlock"}, v3::make_unlock);

  namespace elect = v3electionpb;
  t.add<elect::CampaignRequest, elect::CampaignResponse>("/v3electionpb.Election/Campaign", kNone, kKeys, {"/election/campaign"}, v3::make_campaign);
  t.add<elect::ProclaimRequest, elect::ProclaimResponse>("/v3electionpb.Election/Proclaim", kNone, kKeys, {"/election/proclaim"}, v3::make_proclaim);
  t.add<elect::LeaderRequest, elect::LeaderResponse>("/v3electionpb.Election/Leader", kNone, kKeys, {"/election/leader"}, v3::make_leader);
  t.add<elect::LeaderRequest, elect::LeaderResponse>("/v3electionpb.Election/Observe", kServer, kKeys, {"/election/observe"}, v3::make_observe);
  t.add<elect::ResignRequest, elect::ResignResponse>("/v3electionpb.Election/Resign", kNone, kKeys, {"/election/resign"}, v3::make_resign);

  t.add_health<grpc::health::v1::HealthCheckRequest, grpc::health::v1::HealthCheckResponse>("/grpc.health.v1.Health/Check", kNone, v3::make_health_check);
  t.add_health<grpc::health::v1::HealthCheckRequest, grpc::health::v1::HealthCheckResponse>("/grpc.health.v1.Health/Watch", kServer, v3::make_health_watch);
}

}  // namespace rallypoint::server
