#include "storage/wal/segment.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "raft/base/check.h"
#include "raft/base/crc32c.h"

namespace rallypoint::storage {
namespace {

constexpr std::string_view kSuffix = ".log";
constexpr size_t kDigits = 16;
constexpr size_t kReadBytes = 1 << 20;

const std::string& zeros() {
  static const std::string zeros(256 << 10, '\0');
  return zeros;
}

bool all_zero(std::string_view bytes) {
  return bytes.empty() ||
         (bytes[0] == 0 && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

/// The file up to its last byte that is not zero. Most of a young segment is zeros, which are not kept.
Result<std::string> read_used_part(const File& file, uint64_t file_bytes) {
  std::string data;
  uint64_t zeros_pending = 0;
  for (uint64_t at = 0; at < file_bytes;) {
    auto chunk = file.read_at(at, std::min<uint64_t>(kReadBytes, file_bytes - at));
    if (!chunk.is_ok()) return chunk.status();
    if (chunk->empty()) break;
    at += chunk->size();
    if (all_zero(*chunk)) {
      zeros_pending += chunk->size();
      continue;
    }
    data.append(zeros_pending, '\0');
    zeros_pending = 0;
    data += *chunk;
  }
  while (data.size() >= 4096 && all_zero({data.data() + data.size() - 4096, 4096}))
    data.resize(data.size() - 4096);
  while (!data.empty() && data.back() == 0) data.pop_back();
  return data;
}

}  // namespace

const char* const kDamagedLogAdvice =
    "move the data directory away and start again; the node then rejoins under a new id";

std::string segment_name(uint64_t number) {
  char name[kDigits + kSuffix.size() + 1];
  std::snprintf(name, sizeof name, "%016llx%s", static_cast<unsigned long long>(number), kSuffix.data());
  return name;
}

std::string segment_path(const std::string& directory, uint64_t number) {
  return directory + "/" + segment_name(number);
}

std::optional<uint64_t> parse_segment_name(std::string_view name) {
  if (name.size() != kDigits + kSuffix.size() || !name.ends_with(kSuffix)) return std::nullopt;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + kDigits, number, 16);
  if (error != std::errc() || end != name.data() + kDigits || segment_name(number) != name)
    return std::nullopt;
  return number;
}

// ---- SegmentPreparer --------------------------------------------------------------------------------------

SegmentPreparer::SegmentPreparer(FileSystem& file_system, std::string directory, uint64_t number,
                                 uint64_t bytes)
    : file_system_(file_system), directory_(std::move(directory)), number_(number), bytes_(bytes) {}

Status SegmentPreparer::open() {
  if (file_) return Status::ok();
  auto file = file_system_.open(segment_path(directory_, number_), FileSystem::Mode::kCreateOrOpen);
  if (!file.is_ok()) return file.status();
  file_ = std::move(file).value();
  const auto size = file_->size();
  if (!size.is_ok()) return size.status();
  written_ = *size;
  return Status::ok();
}

Status SegmentPreparer::write_zeros(uint64_t count) {
  while (count > 0) {
    const uint64_t step = std::min<uint64_t>(count, zeros().size());
    RALLY_RETURN_IF_ERROR(file_->write_at(written_, std::string_view(zeros()).substr(0, step)));
    written_ += step;
    count -= step;
  }
  return Status::ok();
}

Result<bool> SegmentPreparer::step(uint64_t step_bytes) {
  if (finished_) return false;
  RALLY_RETURN_IF_ERROR(open());
  if (written_ < bytes_) {
    RALLY_RETURN_IF_ERROR(write_zeros(std::min(step_bytes, bytes_ - written_)));
    // Synced bit by bit, so that no large flush is in the way of the log's own.
    RALLY_RETURN_IF_ERROR(file_->sync());
    return true;
  }
  RALLY_RETURN_IF_ERROR(finish(0));
  return false;
}

Status SegmentPreparer::finish(uint64_t bytes_min) {
  if (finished_) return Status::ok();
  RALLY_RETURN_IF_ERROR(open());
  if (written_ < bytes_min) RALLY_RETURN_IF_ERROR(write_zeros(bytes_min - written_));
  RALLY_RETURN_IF_ERROR(file_->sync());
  RALLY_RETURN_IF_ERROR(file_system_.sync_directory(directory_));
  finished_ = true;
  return Status::ok();
}

// ---- SegmentWriter ----------------------------------------------------------------------------------------

SegmentWriter::SegmentWriter(std::unique_ptr<File> file, DirectoryId id, uint64_t number, uint64_t bytes)
    : SegmentWriter(std::move(file), id, number, bytes, 0, 0) {}

SegmentWriter::SegmentWriter(std::unique_ptr<File> file, DirectoryId id, uint64_t number, uint64_t bytes,
                             uint64_t end, uint32_t chain)
    : file_(std::move(file)),
      salt_(segment_salt(id, number)),
      number_(number),
      bytes_(bytes),
      end_(end),
      durable_(end),
      chain_(chain) {}

Status SegmentWriter::write_frame(const std::vector<std::string_view>& body) {
  FrameHead head;
  uint64_t body_bytes = 0;
  head.body_crc = chain_;
  for (const std::string_view piece : body) {
    head.body_crc = crc32c(head.body_crc, piece);
    body_bytes += piece.size();
  }
  RALLY_CHECK(body_bytes % 8 == 0, "body_bytes", body_bytes);
  RALLY_CHECK(end_ + kFrameHeadBytes + body_bytes <= UINT32_MAX, "end", end_, "body_bytes", body_bytes);
  head.body_bytes = static_cast<uint32_t>(body_bytes);
  head.offset = static_cast<uint32_t>(end_);
  head.durable = static_cast<uint32_t>(durable_);
  char encoded[kFrameHeadBytes];
  encode_frame_head(head, end_ == 0 ? 0 : salt_, encoded);
  pieces_.clear();
  pieces_.emplace_back(encoded, sizeof encoded);
  pieces_.insert(pieces_.end(), body.begin(), body.end());
  RALLY_RETURN_IF_ERROR(file_->write_at(end_, pieces_));
  end_ += kFrameHeadBytes + body_bytes;
  chain_ = head.body_crc;
  return Status::ok();
}

Status SegmentWriter::sync() {
  const uint64_t end = end_;
  RALLY_RETURN_IF_ERROR(file_->sync());
  durable_ = end;
  return Status::ok();
}

// ---- scan_segment -----------------------------------------------------------------------------------------

namespace {

Status unknown_version(const std::string& path, char digit) {
  return Status::failed_precondition("log segment " + path + " has format version '" + std::string(1, digit) +
                                     "', this build knows version '" + std::string(1, kFrameMagic[3]) +
                                     "'; start the release that wrote it");
}

std::string hex(uint32_t number) {
  char text[16];
  std::snprintf(text, sizeof text, "%08x", number);
  return text;
}

/// What is wrong with the frame at `at`, or empty; then `head` is set.
std::string judge_frame(std::string_view data, uint64_t file_bytes, uint64_t at, uint32_t salt,
                        uint32_t chain, FrameHead& head) {
  const auto decoded = decode_frame_head(data.substr(at), salt, at);
  if (!decoded) {
    return all_zero(data.substr(at, kFrameHeadBytes)) ? "no frame, but bytes other than zero behind it"
                                                      : "no valid frame head";
  }
  if (decoded->body_bytes > file_bytes - at - kFrameHeadBytes) return "the frame is longer than the file";
  const uint32_t crc = crc32c(chain, data.substr(at + kFrameHeadBytes, decoded->body_bytes));
  if (crc != decoded->body_crc) {
    return "the frame's checksum is " + hex(crc) + ", its head says " + hex(decoded->body_crc);
  }
  head = *decoded;
  return "";
}

}  // namespace

Result<ScannedSegment> scan_segment(const File& file, const std::string& path, DirectoryId id,
                                    uint64_t number) {
  ScannedSegment scanned;
  const auto size = file.size();
  if (!size.is_ok()) return size.status();
  scanned.file_bytes = *size;
  auto read = read_used_part(file, *size);
  if (!read.is_ok()) return read.status();
  std::string data = std::move(read).value();
  scanned.dirty_end = data.size();
  if (data.size() >= 4 && std::memcmp(data.data(), kFrameMagic, 3) == 0 && data[3] != kFrameMagic[3]) {
    return unknown_version(path, data[3]);
  }

  const uint32_t salt = segment_salt(id, number);
  const auto salt_at = [&](uint64_t at) { return at == 0 ? 0 : salt; };
  while (scanned.end < scanned.dirty_end) {
    const uint64_t at = scanned.end;
    // A body may end in zeros, which the reading left out: give it what its head asks for, as far as the file
    // goes.
    uint64_t wanted = std::min(at + kFrameHeadBytes, scanned.file_bytes);
    if (data.size() < wanted) data.resize(wanted);
    if (const auto head = decode_frame_head(std::string_view(data).substr(at), salt_at(at), at)) {
      wanted = std::min(at + kFrameHeadBytes + head->body_bytes, scanned.file_bytes);
      if (data.size() < wanted) data.resize(wanted);
    }
    FrameHead head;
    scanned.damage = judge_frame(data, scanned.file_bytes, at, salt_at(at), scanned.chain, head);
    if (!scanned.damage.empty()) break;
    scanned.frames.push_back({at + kFrameHeadBytes, head.body_bytes});
    scanned.durable = std::max<uint64_t>(scanned.durable, head.durable);
    scanned.chain = head.body_crc;
    scanned.end = at + kFrameHeadBytes + head.body_bytes;
  }

  if (!scanned.damage.empty()) {
    // Likewise a head ends in zeros more often than not.
    data.resize(
        std::max<uint64_t>(data.size(), std::min(scanned.dirty_end + kFrameHeadBytes, scanned.file_bytes)));
    for (uint64_t at = scanned.end; at + kFrameHeadBytes <= data.size(); at += 8) {
      if (data[at] != kFrameMagic[0]) continue;
      if (const auto head = decode_frame_head(std::string_view(data).substr(at), salt_at(at), at)) {
        scanned.durable = std::max<uint64_t>(scanned.durable, head->durable);
      }
    }
    if (scanned.end < scanned.durable) {
      return Status::data_loss("log segment " + path + " is damaged at offset " +
                               std::to_string(scanned.end) + ": " + scanned.damage +
                               "; everything before offset " + std::to_string(scanned.durable) +
                               " was durable; " + kDamagedLogAdvice);
    }
  }
  data.shrink_to_fit();
  scanned.data = Bytes(std::move(data));
  return scanned;
}

}  // namespace rallypoint::storage
