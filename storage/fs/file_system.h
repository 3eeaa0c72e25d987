// FileSystem: all that the log and the snapshots ask of the operating system, so that tests can lose unsynced data,
// tear writes, fill the disk or fail a sync. PosixFileSystem is the real one; MemoryFileSystem the liar.
//
// Paths are plain strings. A file's data is durable after sync(); a created, renamed or removed name is durable after
// sync_directory() of its directory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "raft/base/status.h"

namespace rallypoint::storage {

/// An open file. Positions are absolute; closing happens in the destructor and makes nothing durable.
class File {
 public:
  virtual ~File() = default;
  /// Writes all of `data` at `offset`, growing the file if need be. ResourceExhausted = the disk is full.
  virtual Status write_at(uint64_t offset, std::string_view data) = 0;
  /// Writes the pieces one behind the other with as few system calls as possible.
  virtual Status write_at(uint64_t offset, const std::vector<std::string_view>& pieces) = 0;
  /// Reads up to `count` bytes; fewer only at the end of the file.
  virtual Result<std::string> read_at(uint64_t offset, size_t count) const = 0;
  /// Data (and the size needed to reach it) is durable when this returns OK. A failed sync must stop the node: the
  /// kernel may have dropped the pages, so trying again proves nothing.
  virtual Status sync() = 0;
  virtual Status truncate(uint64_t size) = 0;
  virtual Result<uint64_t> size() const = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  enum class Mode { kRead, kReadWrite, kCreate /* must not exist */, kCreateOrOpen };
  virtual Result<std::unique_ptr<File>> open(const std::string& path, Mode mode) = 0;
  virtual Status create_directories(const std::string& path) = 0;
  /// Names (not paths) in the directory, sorted.
  virtual Result<std::vector<std::string>> list(const std::string& directory) = 0;
  virtual Result<bool> exists(const std::string& path) = 0;
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  virtual Status remove(const std::string& path) = 0;
  /// Removes a directory and all in it; fine if it is not there.
  virtual Status remove_all(const std::string& path) = 0;
  virtual Status sync_directory(const std::string& path) = 0;
};

}  // namespace rallypoint::storage
