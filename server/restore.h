// Restore: a data directory from a saved snapshot (Maintenance.Snapshot, `etcdctl snapshot save`), for the day when a
// majority of the disks is gone for good.
//
// What comes out is a cluster of one, with a new identity: the keyspace with its revisions, history and leases, the v2
// tree, and the answers kept for idempotency keys are those of the snapshot; members, their sessions and alarms are not.
// Further members are added as to any cluster and are given the data by it. Not several at once from the same file, as
// etcd has it: whoever is restored alone cannot meet a twin that was restored from another file.
#pragma once

#include <cstdint>
#include <string>

#include "raft/base/status.h"
#include "raft/base/units.h"
#include "server/options.h"
#include "storage/fs/file_system.h"

namespace rallypoint::server {

struct Restored {
  uint64_t cluster_id = 0;
  NodeId member;
  Index index;        ///< of the log, where the snapshot was taken and the new member goes on
  uint64_t rows = 0;  ///< of the snapshot
};

/// Fills `options.data_dir`; a node started with the same options then serves it. Of the options it reads data_dir, name,
/// initial_cluster (this node alone) and initial_cluster_token. The whole file is checked before the directory counts
/// as a member's, so one that failed half-way can be tried again.
/// InvalidArgument: several members in initial_cluster. FailedPrecondition: the directory is a member's already, is in use,
/// or the file can't be read. DataLoss: the file is not a snapshot, is cut, or differs from its checksums.
Result<Restored> restore_snapshot(const Options& options, storage::FileSystem& file_system, const std::string& snapshot);

}  // namespace rallypoint::server
