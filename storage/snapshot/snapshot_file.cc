#include "storage/snapshot/snapshot_file.h"

#include <algorithm>
#include <cstdio>

#include "raft/base/check.h"
#include "storage/snapshot/snapshot_format.h"

namespace rallypoint::storage {
namespace {

using namespace snapshot_format;  // NOLINT: private to this folder

constexpr std::string_view kSuffix = ".snap";
constexpr std::string_view kUnfinishedSuffix = ".part";
constexpr size_t kNameBytes = 16 + 1 + 16 + kSuffix.size();

Status at_path(const std::string& path, const Status& status) {
  return {status.code(), "snapshot " + path + ": " + status.message()};
}

/// Writes from front to back, in pieces of a block's size.
class Writer {
 public:
  explicit Writer(File& file) : file_(file) {}

  Status head(const SnapshotPoint& point) { return put(encode_head(point), {}); }

  Status row(std::string_view key, std::string_view value) {
    append_row(body_, key, value);
    ++block_rows_;
    ++foot_.rows;
    return body_.size() >= kBlockBytesTarget ? close_block() : Status::ok();
  }

  Status finish() {
    RALLY_RETURN_IF_ERROR(close_block());
    foot_.bytes = end_;
    RALLY_RETURN_IF_ERROR(put(encode_foot(foot_), {}));
    return file_.sync();
  }

 private:
  Status close_block() {
    if (body_.empty()) return Status::ok();
    const std::string head = encode_block_head(body_, block_rows_);
    foot_.total = add_to_total(foot_.total, decode_block_head(head).crc);
    RALLY_RETURN_IF_ERROR(put(head, body_));
    body_.clear();
    block_rows_ = 0;
    return Status::ok();
  }

  Status put(const std::string& first, std::string_view second) {
    RALLY_RETURN_IF_ERROR(file_.write_at(end_, {first, second}));
    end_ += first.size() + second.size();
    return Status::ok();
  }

  File& file_;
  uint64_t end_ = 0;
  std::string body_;
  uint32_t block_rows_ = 0;
  Foot foot_;
};

/// Exactly `count` bytes, or DataLoss.
Result<std::string> read_exactly(const File& file, uint64_t offset, size_t count, uint64_t file_bytes) {
  if (offset > file_bytes || count > file_bytes - offset) {
    return Status::data_loss("cut short at offset " + std::to_string(file_bytes));
  }
  auto bytes = file.read_at(offset, count);
  if (bytes.is_ok() && bytes->size() != count) return Status::data_loss("cut short while it was read");
  return bytes;
}

Status damaged_block(uint64_t offset, const char* what) {
  return Status::data_loss("the block at offset " + std::to_string(offset) + " is damaged: " + what);
}

Result<SnapshotInfo> read_file(const File& file, const std::string& path,
                               const std::function<Status(std::string_view, std::string_view)>& row_seen) {
  const auto size = file.size();
  if (!size.is_ok()) return size.status();
  auto fixed = read_exactly(file, 0, kHeadFixedBytes, *size);
  if (!fixed.is_ok()) return fixed.status();
  const auto head_size = head_bytes(*fixed);
  if (!head_size.is_ok()) return head_size.status();
  auto head = read_exactly(file, 0, *head_size, *size);
  if (!head.is_ok()) return head.status();
  auto point = decode_head(*head);
  if (!point.is_ok()) return point.status();

  SnapshotInfo info{path, std::move(point).value(), *size, 0};
  uint64_t at = *head_size;
  uint32_t total = 0;
  std::string last_key;
  while (true) {
    auto block_head = read_exactly(file, at, kBlockHeadBytes, *size);
    if (!block_head.is_ok()) return block_head.status();
    const BlockHead block = decode_block_head(*block_head);
    if (block.body_bytes == 0) break;
    if (block.body_bytes > kBlockBytesMax) return damaged_block(at, "its size is impossible");
    auto body = read_exactly(file, at + kBlockHeadBytes, block.body_bytes, *size);
    if (!body.is_ok()) return body.status();
    if (block_crc(block, *body) != block.crc) return damaged_block(at, "its checksum is wrong");
    std::string_view rest = *body;
    for (uint32_t i = 0; i < block.rows; ++i) {
      const auto row = take_row(rest);
      if (!row) return damaged_block(at, "a row runs over its end");
      if (info.rows > 0 && row->key <= last_key) return damaged_block(at, "its keys do not ascend");
      last_key = row->key;
      ++info.rows;
      RALLY_RETURN_IF_ERROR(row_seen(row->key, row->value));
    }
    if (!rest.empty()) return damaged_block(at, "bytes behind its last row");
    total = add_to_total(total, block.crc);
    at += kBlockHeadBytes + block.body_bytes;
  }

  auto foot_bytes = read_exactly(file, at, kFootBytes, *size);
  if (!foot_bytes.is_ok()) return foot_bytes.status();
  const auto foot = decode_foot(*foot_bytes);
  if (!foot.is_ok()) return foot.status();
  if (at + kFootBytes != *size) return Status::data_loss("bytes behind the foot");
  if (foot->rows != info.rows || foot->bytes != at || foot->total != total) {
    return Status::data_loss("the foot does not agree with the blocks: some are missing, doubled or moved");
  }
  return info;
}

bool is_finished_name(std::string_view name) {
  return name.size() == kNameBytes && name.ends_with(kSuffix);
}

}  // namespace

std::string snapshot_path(const std::string& directory, Index index, Term term) {
  char name[kNameBytes + 1];
  std::snprintf(name, sizeof name, "%016llx-%016llx%s", static_cast<unsigned long long>(index.value()),
                static_cast<unsigned long long>(term.value()), kSuffix.data());
  return directory + "/" + name;
}

Result<SnapshotInfo> write_snapshot(FileSystem& file_system, const std::string& directory,
                                    const SnapshotPoint& point, const EngineView& view) {
  RALLY_RETURN_IF_ERROR(file_system.create_directories(directory));
  const std::string final_path = snapshot_path(directory, point.index, point.term);
  const std::string path = final_path + std::string(kUnfinishedSuffix);
  auto file = file_system.open(path, FileSystem::Mode::kCreateOrOpen);
  if (!file.is_ok()) return file.status();
  RALLY_RETURN_IF_ERROR((*file)->truncate(0));

  Writer writer(**file);
  RALLY_RETURN_IF_ERROR(writer.head(point));
  Status written;
  const Status scanned = view.scan("", "", [&](std::string_view key, std::string_view value) {
    written = writer.row(key, value);
    return written.is_ok();
  });
  RALLY_RETURN_IF_ERROR(written);
  RALLY_RETURN_IF_ERROR(scanned);
  RALLY_RETURN_IF_ERROR(writer.finish());

  auto info = verify_snapshot(file_system, path);
  if (!info.is_ok()) return info;
  RALLY_RETURN_IF_ERROR(file_system.rename(path, final_path));
  RALLY_RETURN_IF_ERROR(file_system.sync_directory(directory));
  info->path = final_path;
  return info;
}

Result<SnapshotInfo> read_snapshot(
    FileSystem& file_system, const std::string& path,
    const std::function<Status(std::string_view key, std::string_view value)>& row) {
  auto file = file_system.open(path, FileSystem::Mode::kRead);
  if (!file.is_ok()) return file.status();
  auto info = read_file(**file, path, row);
  return info.is_ok() ? info : at_path(path, info.status());
}

Result<SnapshotInfo> verify_snapshot(FileSystem& file_system, const std::string& path) {
  return read_snapshot(file_system, path, [](std::string_view, std::string_view) { return Status::ok(); });
}

Result<SnapshotInfo> load_snapshot(FileSystem& file_system, const std::string& path, Engine& engine,
                                   size_t batch_bytes) {
  WriteBatch batch;
  size_t gathered = 0;
  const auto write_out = [&] {
    Status status = engine.write(batch);
    batch.clear();
    gathered = 0;
    return status;
  };
  auto info = read_snapshot(file_system, path, [&](std::string_view key, std::string_view value) {
    batch.put(std::string(key), std::string(value));
    gathered += key.size() + value.size();
    return gathered >= batch_bytes ? write_out() : Status::ok();
  });
  if (!info.is_ok()) return info;
  if (!batch.empty()) RALLY_RETURN_IF_ERROR(write_out());
  RALLY_RETURN_IF_ERROR(engine.flush());
  return info;
}

Result<std::vector<std::string>> list_snapshots(FileSystem& file_system, const std::string& directory) {
  std::vector<std::string> paths;
  auto present = file_system.exists(directory);
  if (!present.is_ok()) return present.status();
  if (!*present) return paths;
  auto names = file_system.list(directory);
  if (!names.is_ok()) return names.status();
  for (const std::string& name : *names) {
    if (is_finished_name(name)) {
      paths.push_back(directory + "/" + name);
    }
  }
  std::reverse(paths.begin(), paths.end());
  return paths;
}

Status remove_old_snapshots(FileSystem& file_system, const std::string& directory, size_t keep) {
  auto paths = list_snapshots(file_system, directory);
  if (!paths.is_ok()) return paths.status();
  for (size_t i = keep; i < paths->size(); ++i) RALLY_RETURN_IF_ERROR(file_system.remove((*paths)[i]));
  return Status::ok();
}

Status remove_unfinished_snapshots(FileSystem& file_system, const std::string& directory) {
  auto present = file_system.exists(directory);
  if (!present.is_ok()) return present.status();
  if (!*present) return Status::ok();
  auto names = file_system.list(directory);
  if (!names.is_ok()) return names.status();
  for (const std::string& name : *names) {
    if (!name.ends_with(kUnfinishedSuffix)) continue;
    RALLY_RETURN_IF_ERROR(file_system.remove(directory + "/" + name));
  }
  return Status::ok();
}

}  // namespace rallypoint::storage
