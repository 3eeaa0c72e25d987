// MemoryFileSystem: the liar. Files in memory that behave as badly as a disk may, at a moment the test
// chooses:
//
//   crash(seed)          what no sync covered is lost in part: of each unsynced sector any version since the
//                        last sync may be found (so the last write is torn), the file's size is that of any
//                        moment since, and each name created, renamed or removed since sync_directory() is so
//                        or is not, independently
//   halt_at(n)           the n-th operation from now takes place without being made durable, and from then on
//                        everything fails as Unavailable until crash(): power lost at exactly that step
//   fail_operation(n, s) the n-th operation from now does nothing and returns `s`
//   fail_syncs(s)        syncs return `s` and forget what was waiting: as the kernel does, a later sync that
//                        succeeds does not bring it back
//   set_capacity(bytes)  the disk is full beyond that; a write that does not fit is done in part
//
// Operations are counted: open for creation, write, truncate, sync, rename, remove, create and sync of
// directories; reads are not. Pure: no threads, no clock, all chance comes from the seed. A created directory
// is durable at once (PosixFileSystem syncs the parent itself). Handles that were open across a crash are
// dead.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "raft/base/random.h"
#include "storage/fs/file_system.h"

namespace rallypoint::storage {

class MemoryFileSystem final : public FileSystem {
 public:
  /// What persists or not as one: 512 bytes as disks do, or 4096 as the page cache does.
  explicit MemoryFileSystem(size_t sector_bytes = 512) : sector_bytes_(sector_bytes) {}

  Result<std::unique_ptr<File>> open(const std::string& path, Mode mode) override;
  Status create_directories(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& directory) override;
  Result<bool> exists(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Status remove_all(const std::string& path) override;
  Status sync_directory(const std::string& path) override;

  /// Power is lost and comes back. All faults but the capacity are lifted.
  void crash(uint64_t seed);
  /// The process dies but the machine lives: handles are dead, all data is as written.
  void kill_process();

  void halt_at(uint64_t operation) { halt_at_ = operations_ + operation; }
  [[nodiscard]] bool halted() const { return halted_; }
  void fail_operation(uint64_t operation, Status status) {
    fail_at_ = operations_ + operation;
    fail_status_ = std::move(status);
  }
  void fail_syncs(Status status) { sync_failure_ = std::move(status); }  ///< OK = no longer
  void set_capacity(std::optional<uint64_t> bytes) { capacity_ = bytes; }

  [[nodiscard]] uint64_t operations() const { return operations_; }
  [[nodiscard]] uint64_t syncs() const { return syncs_; }
  [[nodiscard]] uint64_t used_bytes() const;

  /// The file as it is, past all rules; for tests that look at or damage single bytes. It must exist.
  [[nodiscard]] const std::string& contents(const std::string& path) const;
  /// Replaces it, durably.
  void set_contents(const std::string& path, std::string data);

 private:
  friend class MemoryFile;
  struct Change {  // of a file, not yet durable
    bool truncate = false;
    uint64_t offset = 0;  // truncate: the new size
    std::string data;
  };
  struct Node {
    std::string data;     // what reads see
    std::string durable;  // what the last sync left
    std::vector<Change> pending;
  };
  using NodePtr = std::shared_ptr<Node>;
  struct NameChange {  // of a directory entry, not yet durable; node null = removed
    std::string from;  // rename: this name goes
    std::string path;
    NodePtr node;
  };
  enum class Verdict { kGo, kHalt, kFail };

  /// Counts an operation and says what becomes of it; `status` is set unless kGo.
  Verdict count(Status& status);
  static void apply(const Change& change, std::string& data);
  static void apply(const NameChange& change, std::map<std::string, NodePtr>& names);
  void lose(Node& node, Random& random) const;
  Status change_names(NameChange change);

  size_t sector_bytes_;
  std::map<std::string, NodePtr> names_;
  std::map<std::string, NodePtr> durable_names_;
  std::vector<NameChange> pending_names_;
  std::map<std::string, bool> directories_;
  uint64_t life_ = 0;  // handles of another life are dead
  uint64_t operations_ = 0;
  uint64_t syncs_ = 0;
  uint64_t halt_at_ = 0;
  uint64_t fail_at_ = 0;
  Status fail_status_;
  Status sync_failure_;
  bool halted_ = false;
  std::optional<uint64_t> capacity_;
};

}  // namespace rallypoint::storage
