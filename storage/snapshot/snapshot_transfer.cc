#include "storage/snapshot/snapshot_transfer.h"

#include "storage/snapshot/snapshot_format.h"

namespace rallypoint::storage {
namespace {

std::string incoming_path(const std::string& directory) {
  return directory + "/incoming.part";
}

}  // namespace

Result<std::unique_ptr<SnapshotReader>> SnapshotReader::open(FileSystem& file_system,
                                                             const std::string& path) {
  auto file = file_system.open(path, FileSystem::Mode::kRead);
  if (!file.is_ok()) return file.status();
  const auto size = (*file)->size();
  if (!size.is_ok()) return size.status();
  auto fixed = (*file)->read_at(0, snapshot_format::kHeadFixedBytes);
  if (!fixed.is_ok()) return fixed.status();
  const auto head_bytes = snapshot_format::head_bytes(*fixed);
  if (!head_bytes.is_ok()) return head_bytes.status();
  auto head = (*file)->read_at(0, *head_bytes);
  if (!head.is_ok()) return head.status();
  auto point = snapshot_format::decode_head(*head);
  if (!point.is_ok()) return point.status();
  return std::unique_ptr<SnapshotReader>(
      new SnapshotReader(std::move(file).value(), SnapshotInfo{path, std::move(point).value(), *size, 0}));
}

Result<SnapshotReader::Piece> SnapshotReader::read(uint64_t offset, size_t count) const {
  if (offset >= info_.bytes) {
    return Status(Code::kOutOfRange, "snapshot " + info_.path + " has " + std::to_string(info_.bytes) +
                                         " bytes, asked for those from " + std::to_string(offset));
  }
  auto bytes = file_->read_at(offset, count);
  if (!bytes.is_ok()) return bytes.status();
  Piece piece;
  piece.last = offset + bytes->size() >= info_.bytes;
  piece.data = Bytes(std::move(bytes).value());
  return piece;
}

Result<std::unique_ptr<SnapshotReceiver>> SnapshotReceiver::begin(FileSystem& file_system,
                                                                  std::string directory,
                                                                  SnapshotPoint point) {
  RALLY_RETURN_IF_ERROR(file_system.create_directories(directory));
  auto file = file_system.open(incoming_path(directory), FileSystem::Mode::kCreateOrOpen);
  if (!file.is_ok()) return file.status();
  RALLY_RETURN_IF_ERROR((*file)->truncate(0));
  return std::unique_ptr<SnapshotReceiver>(
      new SnapshotReceiver(file_system, std::move(directory), std::move(point), std::move(file).value()));
}

Status SnapshotReceiver::append(uint64_t offset, std::string_view data) {
  if (offset > received_) {
    return {Code::kOutOfRange, "a piece at offset " + std::to_string(offset) + ", but only " +
                                   std::to_string(received_) + " bytes are here; go on from there"};
  }
  if (offset + data.size() <= received_) return Status::ok();
  data.remove_prefix(received_ - offset);
  RALLY_RETURN_IF_ERROR(file_->write_at(received_, data));
  received_ += data.size();
  return Status::ok();
}

Result<SnapshotInfo> SnapshotReceiver::finish() {
  const std::string path = incoming_path(directory_);
  const auto give_up = [&](Status status) {
    received_ = 0;
    const Status truncated = file_->truncate(0);
    return status.is_ok() ? truncated : status;
  };
  if (Status status = file_->sync(); !status.is_ok()) return give_up(std::move(status));
  auto info = verify_snapshot(file_system_, path);
  if (!info.is_ok()) return give_up(info.status());
  if (info->point != point_) {
    return give_up(Status::data_loss("received a snapshot at index " +
                                     std::to_string(info->point.index.value()) + ", promised was one at " +
                                     std::to_string(point_.index.value())));
  }
  info->path = snapshot_path(directory_, point_.index, point_.term);
  RALLY_RETURN_IF_ERROR(file_system_.rename(path, info->path));
  RALLY_RETURN_IF_ERROR(file_system_.sync_directory(directory_));
  return info;
}

}  // namespace rallypoint::storage
