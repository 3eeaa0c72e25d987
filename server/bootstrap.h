// Bootstrap: from options and a data directory to everything that a node starts with. Checks that they belong
// together, and refuses with a message that says what contradicts what and what to do.
//
//   <data-dir>/LOCK        held while a process runs on the directory
//   <data-dir>/identity    who this directory belongs to; written once, last, so that it proves a finished first start
//   <data-dir>/wal/        the log
//   <data-dir>/DIVERGED, diverged-<n>/  see server/quarantine.h
//   <data-dir>/state/      the state machine and snapshots (storage/snapshot/state_directory.h)
#pragma once

#include <memory>
#include <string>

#include "raft/core.h"
#include "server/join.h"
#include "server/options.h"
#include "server/state/state_machine.h"
#include "storage/fs/file_system.h"
#include "storage/snapshot/state_directory.h"
#include "storage/wal/wal.h"

namespace rallypoint::server {

struct Identity {
  uint64_t cluster_id = 0;
  NodeId member;
  DirectoryId directory;
  std::string name;
};

/// Keeps the directory's lock; released by the kernel when the process ends, however it ends.
class DirectoryLock {
 public:
  /// FailedPrecondition if another process holds it.
  static Result<std::unique_ptr<DirectoryLock>> acquire(const std::string& directory);
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}
  int fd_;
};

struct Bootstrapped {
  std::unique_ptr<DirectoryLock> lock;
  Identity identity;
  raft::RestoredState restored;
  std::unique_ptr<storage::Wal> wal;
  std::unique_ptr<storage::StateDirectory> state_directory;
  std::unique_ptr<StateMachine> machine;
  bool fresh = false;  ///< the directory was empty
};

/// The member's id: the same on every node that is given the same initial-cluster (etcd: from URLs and token).
NodeId member_id_of(const InitialMember& member, const std::string& token);
/// Constant for the cluster's life; in every answer of the keys API.
uint64_t cluster_id_of(const Options& options);
/// Of a new cluster: all members as voters whose directories are not known yet, names and URLs in the context.
raft::Membership bootstrap_membership(const Options& options);

/// Never 0.
DirectoryId random_directory_id();
/// Makes the directory the member's, durably; goes last.
Status write_identity(storage::FileSystem& file_system, const std::string& data_dir, const Identity& identity);

Result<Bootstrapped> bootstrap(const Options& options, storage::FileSystem& file_system,
                               const JoinTools& join_tools = real_join_tools());

}  // namespace rallypoint::server
