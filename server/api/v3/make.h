// The factories that the service table (services.cc) names: one for each method, or group of methods that differ in
// nothing but a kind. Their files: kv, watch, lease, cluster, maintenance, auth, health, lock, election.
#pragma once

#include <memory>

#include "server/api/v3/services.h"
#include "server/rpc/rpc.h"

namespace rallypoint::server::v3 {

using Made = std::unique_ptr<RpcHandler>;

Made make_range(Rpc& rpc, const V3Settings& settings);
Made make_range_stream(Rpc& rpc, const V3Settings& settings);
Made make_put(Rpc& rpc, const V3Settings& settings);
Made make_delete_range(Rpc& rpc, const V3Settings& settings);
Made make_txn(Rpc& rpc, const V3Settings& settings);
Made make_compact(Rpc& rpc, const V3Settings& settings);

Made make_watch(Rpc& rpc, const V3Settings& settings);

Made make_lease_grant(Rpc& rpc, const V3Settings& settings);
Made make_lease_revoke(Rpc& rpc, const V3Settings& settings);
Made make_lease_keep_alive(Rpc& rpc, const V3Settings& settings);
Made make_lease_time_to_live(Rpc& rpc, const V3Settings& settings);
Made make_lease_leases(Rpc& rpc, const V3Settings& settings);

Made make_member_list(Rpc& rpc, const V3Settings& settings);
Made make_member_add(Rpc& rpc, const V3Settings& settings);
Made make_member_remove(Rpc& rpc, const V3Settings& settings);
Made make_member_update(Rpc& rpc, const V3Settings& settings);
Made make_member_promote(Rpc& rpc, const V3Settings& settings);

Made make_alarm(Rpc& rpc, const V3Settings& settings);
Made make_status(Rpc& rpc, const V3Settings& settings);
Made make_defragment(Rpc& rpc, const V3Settings& settings);
Made make_hash(Rpc& rpc, const V3Settings& settings);
Made make_hash_kv(Rpc& rpc, const V3Settings& settings);
Made make_snapshot(Rpc& rpc, const V3Settings& settings);
Made make_move_leader(Rpc& rpc, const V3Settings& settings);
Made make_downgrade(Rpc& rpc, const V3Settings& settings);

Made make_auth_status(Rpc& rpc, const V3Settings& settings);
/// Any other method of the auth service, while there is no auth.
Made make_auth_not_enabled(Rpc& rpc, const V3Settings& settings);

Made make_lock(Rpc& rpc, const V3Settings& settings);
Made make_unlock(Rpc& rpc, const V3Settings& settings);
Made make_campaign(Rpc& rpc, const V3Settings& settings);
Made make_proclaim(Rpc& rpc, const V3Settings& settings);
Made make_leader(Rpc& rpc, const V3Settings& settings);
Made make_observe(Rpc& rpc, const V3Settings& settings);
Made make_resign(Rpc& rpc, const V3Settings& settings);

Made make_health_check(Rpc& rpc, const V3Settings& settings, const RpcTable& table);
Made make_health_watch(Rpc& rpc, const V3Settings& settings, const RpcTable& table);

}  // namespace rallypoint::server::v3
