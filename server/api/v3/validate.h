// What can be said about a v3 request without the state: each with etcd's code and text. The keyspace checks again when a
// request is applied; here it is checked so that nothing wrong travels through the log, and so that the error is etcd's.
//
// Pure. Bounded: nesting is at most as deep as the operations allowed per transaction, and the work is O(n log n) in the
// number of operations, however they overlap.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "raft/base/status.h"
#include "storage/etcd_api/rpc.pb.h"

namespace rallypoint::server::v3 {

inline constexpr int64_t kLeaseTtlMax = 9'000'000'000;  ///< seconds

Status validate(const etcdserverpb::RangeRequest& request);
Status validate(const etcdserverpb::PutRequest& request);
Status validate(const etcdserverpb::DeleteRangeRequest& request);
/// `operations_max`: of each list (compare, success, failure); what a transaction's longest list takes is not left for
/// those nested in it. Within a branch a key may be put once, and not put and deleted.
Status validate(const etcdserverpb::TxnRequest& request, size_t operations_max);
Status validate(const etcdserverpb::LeaseGrantRequest& request);
Status validate(const etcdserverpb::AlarmRequest& request);
Status validate(const etcdserverpb::DowngradeRequest& request);
/// What a RangeStream can't do; a client falls back to Range then.
Status validate_stream(const etcdserverpb::RangeRequest& request);

/// Whether the transaction writes nothing, whichever branch is taken. It must have been validated.
bool reads_only(const etcdserverpb::TxnRequest& request);
/// Whether this member may answer from its own state: all its ranges allow that. One of compares alone does not say so.
bool is_serializable(const etcdserverpb::TxnRequest& request);

}  // namespace rallypoint::server::v3
