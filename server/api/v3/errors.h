// The errors of etcd's v3 API: code and text. Clients look the text up in tables of their own, so each must match byte for
// byte; the list is contracts/etcd.md A.5, in its order. Only what this folder itself says is here: what the state
// machine finds comes from there with code and text.
#pragma once

#include <string>
#include <string_view>

#include "raft/base/status.h"

namespace rallypoint::server::v3 {

/// An error that always reads the same.
struct FixedError {
  Code code;
  std::string_view text;
  operator Status() const { return {code, std::string(text)}; }  // NOLINT: a constant that is a Status wherever one is asked for
};

inline constexpr FixedError kEmptyKey{Code::kInvalidArgument, "etcdserver: key is not provided"};
inline constexpr FixedError kKeyNotFound{Code::kInvalidArgument, "etcdserver: key not found"};  // also of an empty RequestOp
inline constexpr FixedError kValueProvided{Code::kInvalidArgument, "etcdserver: value is provided"};
inline constexpr FixedError kLeaseProvided{Code::kInvalidArgument, "etcdserver: lease is provided"};
inline constexpr FixedError kTooManyOps{Code::kInvalidArgument, "etcdserver: too many operations in txn request"};
inline constexpr FixedError kDuplicateKey{Code::kInvalidArgument, "etcdserver: duplicate key given in txn request"};
inline constexpr FixedError kInvalidSortOption{Code::kInvalidArgument, "etcdserver: invalid sort option"};
inline constexpr FixedError kMemberBadUrls{Code::kInvalidArgument, "etcdserver: given member URLs are invalid"};
inline constexpr FixedError kRequestTooLarge{Code::kInvalidArgument, "etcdserver: request is too large"};
inline constexpr FixedError kWrongDowngradeFormat{Code::kInvalidArgument, "etcdserver: wrong downgrade target version format"};
inline constexpr FixedError kInvalidDowngradeTarget{Code::kInvalidArgument, "etcdserver: invalid downgrade target version"};
inline constexpr FixedError kLeaseTtlTooLarge{Code::kOutOfRange, "etcdserver: too large lease TTL"};
inline constexpr FixedError kTooManyRequests{Code::kResourceExhausted, "etcdserver: too many requests"};
inline constexpr FixedError kLeaseNotFound{Code::kNotFound, "etcdserver: requested lease not found"};
inline constexpr FixedError kMemberNotFound{Code::kNotFound, "etcdserver: member not found"};
inline constexpr FixedError kMemberExists{Code::kFailedPrecondition, "etcdserver: member ID already exist"};
inline constexpr FixedError kPeerUrlExists{Code::kFailedPrecondition, "etcdserver: Peer URLs already exists"};
inline constexpr FixedError kAuthNotEnabled{Code::kFailedPrecondition, "etcdserver: authentication is not enabled"};
inline constexpr FixedError kNotLeader{Code::kFailedPrecondition, "etcdserver: not leader"};
inline constexpr FixedError kBadTransferee{Code::kFailedPrecondition, "etcdserver: bad leader transferee"};
inline constexpr FixedError kNoDowngrade{Code::kFailedPrecondition, "etcdserver: no inflight downgrade job"};
inline constexpr FixedError kNoLeader{Code::kUnavailable, "etcdserver: no leader"};
inline constexpr FixedError kTimeout{Code::kUnavailable, "etcdserver: request timed out"};
inline constexpr FixedError kWatchCanceled{Code::kCancelled, "etcdserver: watch canceled"};

// Without a code of their own in etcd, hence Unknown: its clients know the texts.
inline constexpr FixedError kElectionNoLeader{Code::kUnknown, "election: no leader"};
inline constexpr FixedError kElectionNotLeader{Code::kUnknown, "election: not leader"};
inline constexpr FixedError kMissingLeaderKey{Code::kUnknown, "\"leader\" field must be provided"};
inline constexpr FixedError kSessionExpired{Code::kUnknown, "mutex: session is expired"};
inline constexpr FixedError kElectionSessionExpired{Code::kUnknown, "election: session is expired"};

// Ours: etcd has no such request, or no check.
inline constexpr FixedError kKeyOfIdempotencyTooLong{Code::kInvalidArgument, "rallypoint-idempotency-key: at most 128 bytes"};
inline constexpr FixedError kUnknownAlarm{Code::kInvalidArgument, "etcdserver: unknown alarm type or action"};
inline constexpr FixedError kUnknownDowngradeAction{Code::kInvalidArgument, "etcdserver: unknown downgrade action"};
inline constexpr FixedError kStreamSortUnsupported{Code::kUnimplemented, "etcdserver: RangeStream has no sort order but the keys' own"};
inline constexpr FixedError kStreamFilterUnsupported{Code::kUnimplemented, "etcdserver: RangeStream has no revision bounds"};

}  // namespace rallypoint::server::v3
