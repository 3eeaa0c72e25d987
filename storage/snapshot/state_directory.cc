#include "storage/snapshot/state_directory.h"

#include "raft/base/check.h"
#include "storage/snapshot/snapshot_format.h"

namespace rallypoint::storage {
namespace {

constexpr const char* kPointerName = "/CURRENT_STATE";
constexpr std::string_view kStatePrefix = "state-";

}  // namespace

// CURRENT_STATE holds a snapshot's head (version, term, index, membership, checksum): the name follows from
// it.
std::string StateDirectory::path_of(const SnapshotPoint& point) const {
  return root_ + "/" + std::string(kStatePrefix) + std::to_string(point.index.value()) + "-" +
         std::to_string(point.term.value());
}

Result<StateDirectory> StateDirectory::open(FileSystem& file_system, std::string root) {
  RALLY_RETURN_IF_ERROR(file_system.create_directories(root));
  StateDirectory directory(file_system, std::move(root));
  const std::string pointer = directory.root_ + kPointerName;
  auto present = file_system.exists(pointer);
  if (!present.is_ok()) return present.status();
  if (!*present) {
    // Never begun, or a crash before the first pointer was durable: then nothing in state-0-0 counts yet
    // either.
    const SnapshotPoint first;
    auto path = directory.prepare(first);
    if (!path.is_ok()) return path.status();
    RALLY_RETURN_IF_ERROR(directory.switch_to(first));
  } else {
    auto file = file_system.open(pointer, FileSystem::Mode::kRead);
    if (!file.is_ok()) return file.status();
    const auto size = (*file)->size();
    if (!size.is_ok()) return size.status();
    auto bytes = (*file)->read_at(0, *size);
    if (!bytes.is_ok()) return bytes.status();
    auto point = snapshot_format::decode_head(*bytes);
    if (!point.is_ok()) return Status(point.status().code(), pointer + ": " + point.status().message());
    directory.current_ = {directory.path_of(*point), *point};
    auto there = file_system.exists(directory.current_.path);
    if (!there.is_ok()) return there.status();
    if (!*there) {
      return Status::data_loss(pointer + " names " + directory.current_.path +
                               ", which is missing; move the data directory away and start again");
    }
  }
  RALLY_RETURN_IF_ERROR(directory.remove_others());
  RALLY_RETURN_IF_ERROR(remove_unfinished_snapshots(file_system, directory.snapshots()));
  return directory;
}

Result<std::string> StateDirectory::prepare(const SnapshotPoint& point) {
  std::string path = path_of(point);
  if (path == current_.path) return Status::already_exists(path + " is the state in use");
  RALLY_RETURN_IF_ERROR(file_system_->remove_all(path));
  RALLY_RETURN_IF_ERROR(file_system_->create_directories(path));
  return path;
}

Status StateDirectory::switch_to(const SnapshotPoint& point) {
  const std::string pointer = root_ + kPointerName;
  const std::string unfinished = pointer + ".part";
  {
    auto file = file_system_->open(unfinished, FileSystem::Mode::kCreateOrOpen);
    if (!file.is_ok()) return file.status();
    RALLY_RETURN_IF_ERROR((*file)->truncate(0));
    RALLY_RETURN_IF_ERROR((*file)->write_at(0, snapshot_format::encode_head(point)));
    RALLY_RETURN_IF_ERROR((*file)->sync());
  }
  RALLY_RETURN_IF_ERROR(file_system_->rename(unfinished, pointer));
  RALLY_RETURN_IF_ERROR(file_system_->sync_directory(root_));
  current_ = {path_of(point), point};
  return Status::ok();
}

Status StateDirectory::remove_others() {
  auto names = file_system_->list(root_);
  if (!names.is_ok()) return names.status();
  for (const std::string& name : *names) {
    const std::string path = root_ + "/" + name;
    if (name.starts_with(kStatePrefix) && path != current_.path)
      RALLY_RETURN_IF_ERROR(file_system_->remove_all(path));
  }
  return Status::ok();
}

}  // namespace rallypoint::storage
