#include "storage/fs/posix_file_system.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace rallypoint::storage {
namespace {

Status error_status(int error, const char* call, const std::string& path) {
  std::string what = std::string(call) + " " + path + ": " + std::generic_category().message(error);
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return Status::resource_exhausted(what + "; free space on this disk, then start the node again");
    case EIO:
      return Status::data_loss(what + "; the disk fails, look into the kernel log and replace it");
    case ENOENT:
      return Status::not_found(what);
    case EEXIST:
      return Status::already_exists(what);
    case EACCES:
    case EPERM:
    case EROFS:
      return {Code::kPermissionDenied, what + "; the node's user must own this path and be able to write it"};
    case EMFILE:
    case ENFILE:
      return Status::resource_exhausted(what + "; raise the limit of open files (ulimit -n)");
    default:
      return Status::internal(what);
  }
}

/// A system call again for as long as signals interrupt it.
template <class Call>
auto retrying(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

class PosixFile final : public File {
 public:
  PosixFile(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
  ~PosixFile() override { ::close(descriptor_); }

  Status write_at(uint64_t offset, std::string_view data) override {
    while (!data.empty()) {
      const ssize_t written = retrying(
          [&] { return ::pwrite(descriptor_, data.data(), data.size(), static_cast<off_t>(offset)); });
      if (written < 0) return error_status(errno, "write", path_);
      if (written == 0) return error_status(ENOSPC, "write", path_);
      data.remove_prefix(static_cast<size_t>(written));
      offset += static_cast<uint64_t>(written);
    }
    return Status::ok();
  }

  Status write_at(uint64_t offset, const std::vector<std::string_view>& pieces) override {
    vectors_.clear();
    for (const std::string_view piece : pieces) {
      if (!piece.empty()) vectors_.push_back({const_cast<char*>(piece.data()), piece.size()});
    }
    for (size_t next = 0; next < vectors_.size();) {
      const auto count = static_cast<int>(std::min<size_t>(vectors_.size() - next, IOV_MAX));
      const ssize_t result = retrying(
          [&] { return ::pwritev(descriptor_, &vectors_[next], count, static_cast<off_t>(offset)); });
      if (result < 0) return error_status(errno, "write", path_);
      if (result == 0) return error_status(ENOSPC, "write", path_);
      auto written = static_cast<size_t>(result);
      offset += written;
      while (next < vectors_.size() && written >= vectors_[next].iov_len) written -= vectors_[next++].iov_len;
      if (written > 0) {  // stopped within a piece
        vectors_[next].iov_base = static_cast<char*>(vectors_[next].iov_base) + written;
        vectors_[next].iov_len -= written;
      }
    }
    return Status::ok();
  }

  Result<std::string> read_at(uint64_t offset, size_t count) const override {
    std::string data(count, '\0');
    size_t filled = 0;
    while (filled < count) {
      const ssize_t result = retrying([&] {
        return ::pread(descriptor_, data.data() + filled, count - filled,
                       static_cast<off_t>(offset + filled));
      });
      if (result < 0) return error_status(errno, "read", path_);
      if (result == 0) break;
      filled += static_cast<size_t>(result);
    }
    data.resize(filled);
    return data;
  }

  Status sync() override {
    if (retrying([&] { return ::fdatasync(descriptor_); }) < 0)
      return error_status(errno, "fdatasync", path_);
    return Status::ok();
  }

  Status truncate(uint64_t size) override {
    if (retrying([&] { return ::ftruncate(descriptor_, static_cast<off_t>(size)); }) < 0) {
      return error_status(errno, "ftruncate", path_);
    }
    return Status::ok();
  }

  Result<uint64_t> size() const override {
    struct stat status {};
    if (::fstat(descriptor_, &status) < 0) return error_status(errno, "fstat", path_);
    return static_cast<uint64_t>(status.st_size);
  }

 private:
  int descriptor_;
  std::string path_;
  std::vector<iovec> vectors_;  // kept for its memory
};

}  // namespace

Result<std::unique_ptr<File>> PosixFileSystem::open(const std::string& path, Mode mode) {
  int flags = O_CLOEXEC;
  switch (mode) {
    case Mode::kRead:
      flags |= O_RDONLY;
      break;
    case Mode::kReadWrite:
      flags |= O_RDWR;
      break;
    case Mode::kCreate:
      flags |= O_RDWR | O_CREAT | O_EXCL;
      break;
    case Mode::kCreateOrOpen:
      flags |= O_RDWR | O_CREAT;
      break;
  }
  const int descriptor = retrying([&] { return ::open(path.c_str(), flags, 0640); });
  if (descriptor < 0) return error_status(errno, "open", path);
  return std::unique_ptr<File>(std::make_unique<PosixFile>(descriptor, path));
}

Status PosixFileSystem::create_directories(const std::string& path) {
  if (path.empty()) return Status::ok();
  if (::mkdir(path.c_str(), 0750) == 0)
    return sync_directory(std::filesystem::path(path).parent_path().string());
  if (errno == EEXIST) {
    struct stat status {};
    if (::stat(path.c_str(), &status) < 0) return error_status(errno, "stat", path);
    return S_ISDIR(status.st_mode) ? Status::ok() : error_status(EEXIST, "mkdir", path);
  }
  if (errno != ENOENT) return error_status(errno, "mkdir", path);
  std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (parent.empty() || parent.string() == path) return error_status(ENOENT, "mkdir", path);
  RALLY_RETURN_IF_ERROR(create_directories(parent.string()));
  // "a/b/" has the parent "a/b", which by now exists.
  if (::mkdir(path.c_str(), 0750) < 0 && errno != EEXIST) return error_status(errno, "mkdir", path);
  return sync_directory(parent.string());
}

Result<std::vector<std::string>> PosixFileSystem::list(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator at(directory, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  if (error) return error_status(error.value(), "list", directory);
  std::sort(names.begin(), names.end());
  return names;
}

Result<bool> PosixFileSystem::exists(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return error_status(errno, "stat", path);
}

Status PosixFileSystem::rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) < 0) return error_status(errno, "rename", from + " -> " + to);
  return Status::ok();
}

Status PosixFileSystem::remove(const std::string& path) {
  if (::unlink(path.c_str()) < 0) return error_status(errno, "unlink", path);
  return Status::ok();
}

Status PosixFileSystem::remove_all(const std::string& path) {
  std::error_code error;
  if (std::filesystem::remove_all(path, error); error) return error_status(error.value(), "remove", path);
  const std::string parent = std::filesystem::path(path).parent_path().string();
  Status synced = sync_directory(parent);
  return synced.code() == Code::kNotFound ? Status::ok() : synced;
}

Status PosixFileSystem::sync_directory(const std::string& path) {
  const std::string name = path.empty() ? "." : path;
  const int descriptor = retrying([&] { return ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (descriptor < 0) return error_status(errno, "open", name);
  const int result = retrying([&] { return ::fsync(descriptor); });
  const int error = errno;
  ::close(descriptor);
  return result < 0 ? error_status(error, "fsync", name) : Status::ok();
}

}  // namespace rallypoint::storage
