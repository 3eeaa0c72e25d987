// What a v3 write in the log is. The numbers are on disk: never change one.
#pragma once

#include <cstdint>

namespace rallypoint::server {

enum class V3WriteKind : uint8_t {
  kPut = 0,          ///< etcdserverpb.PutRequest
  kDeleteRange = 1,  ///< DeleteRangeRequest
  kTxn = 2,          ///< TxnRequest
  kCompact = 3,      ///< CompactionRequest
  kLeaseGrant = 4,   ///< LeaseGrantRequest, its ID chosen
  kLeaseRevoke = 5,  ///< LeaseRevokeRequest
  kAlarm = 6,        ///< AlarmRequest, ACTIVATE or DEACTIVATE
};

}  // namespace rallypoint::server
