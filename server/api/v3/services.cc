#include "server/api/v3/services.h"

#include <memory>
#include <vector>

#include "server/api/v3/make.h"
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
    RpcMethod method;
    method.path = path;
    method.client_streams = streams == Streams::kBoth;
    method.server_streams = streams != Streams::kNone;
    method.permission = permission;
    method.gateway_paths = std::move(gateway_paths);
    method.request = Request::descriptor();
    method.response = Response::descriptor();
    method.make = [make, settings = settings_](Rpc& rpc) { return make(rpc, *settings); };
    table_.add(std::move(method));
  }

 private:
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
}

}  // namespace rallypoint::server
