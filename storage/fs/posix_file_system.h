// PosixFileSystem: the real files. Thread safe in itself (it holds no state); a File belongs to one thread at
// a time.
//
// Errors name the call, the path and what to do. ENOSPC and EDQUOT are ResourceExhausted, EIO is DataLoss, a
// missing file NotFound, no permission PermissionDenied; the rest Internal. Interrupted and short writes are
// carried on. create_directories() and remove_all() make their names durable themselves; for files
// sync_directory() does it.
#pragma once

#include "storage/fs/file_system.h"

namespace rallypoint::storage {

class PosixFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<File>> open(const std::string& path, Mode mode) override;
  Status create_directories(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& directory) override;
  Result<bool> exists(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Status remove_all(const std::string& path) override;
  Status sync_directory(const std::string& path) override;
};

}  // namespace rallypoint::storage
