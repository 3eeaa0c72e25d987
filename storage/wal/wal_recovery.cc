// Wal's beginnings: create(), and open() with the replay of all segments.
//
// Which segments there may be, oldest first: some full ones, each durable to its end before the next got a
// byte; the last with frames, whose end may be torn; behind it prepared ones, which are zeros or hold a first
// frame that no sync confirmed. Numbers have no hole, as segments are removed from the front, one at a time.
#include <algorithm>
#include <memory>

#include "raft/base/check.h"
#include "storage/wal/wal.h"

namespace rallypoint::storage {
namespace {

struct FoundSegment {
  uint64_t number = 0;
  std::string path;
  std::unique_ptr<File> file;
  ScannedSegment scan;
};

Result<std::vector<uint64_t>> segment_numbers(FileSystem& file_system, const std::string& directory) {
  auto names = file_system.list(directory);
  if (!names.is_ok()) return names.status();
  std::vector<uint64_t> numbers;
  for (const std::string& name : *names) {
    if (const auto number = parse_segment_name(name)) numbers.push_back(*number);
  }
  for (size_t i = 1; i < numbers.size(); ++i) {
    if (numbers[i] != numbers[i - 1] + 1) {
      return Status::data_loss("log segment " + segment_path(directory, numbers[i - 1] + 1) +
                               " is missing, but " + segment_name(numbers[i]) + " is there; " +
                               kDamagedLogAdvice);
    }
  }
  return numbers;
}

Result<FoundSegment> find_segment(FileSystem& file_system, const std::string& directory, DirectoryId id,
                                  uint64_t number) {
  FoundSegment segment;
  segment.number = number;
  segment.path = segment_path(directory, number);
  auto file = file_system.open(segment.path, FileSystem::Mode::kReadWrite);
  if (!file.is_ok()) return file.status();
  segment.file = std::move(file).value();
  auto scan = scan_segment(*segment.file, segment.path, id, number);
  if (!scan.is_ok()) return scan.status();
  segment.scan = std::move(scan).value();
  return segment;
}

/// Overwrites whatever lies behind the end with zeros, durably.
Status clean_tail(FoundSegment& segment) {
  const std::string zeros(64 << 10, '\0');
  for (uint64_t at = segment.scan.end; at < segment.scan.dirty_end;) {
    const uint64_t count = std::min<uint64_t>(zeros.size(), segment.scan.dirty_end - at);
    RALLY_RETURN_IF_ERROR(segment.file->write_at(at, std::string_view(zeros).substr(0, count)));
    at += count;
  }
  return segment.file->sync();
}

/// Takes records in order and holds what they amount to.
class Replay {
 public:
  Replay(std::string directory, DirectoryId id) : directory_(std::move(directory)), id_(id) {}

  Status take(const FoundSegment& segment) {
    highest_ = Index();
    for (size_t i = 0; i < segment.scan.frames.size(); ++i) {
      const auto& frame = segment.scan.frames[i];
      std::string_view body = segment.scan.data.view().substr(frame.body_offset, frame.body_bytes);
      for (bool first = i == 0; first || !body.empty(); first = false) {
        auto record = decode_record(body);
        if (!record.is_ok()) return damaged(segment, frame.body_offset, record.status());
        if (std::holds_alternative<SegmentRecord>(*record) != first) {
          return damaged(segment, frame.body_offset,
                         Status::data_loss("a segment record is first, and only there"));
        }
        Status status = std::visit([&](auto& part) { return take(segment, part); }, *record);
        if (status.code() == Code::kFailedPrecondition) return status;
        if (!status.is_ok()) return damaged(segment, frame.body_offset, status);
      }
    }
    previous_end_ = segment.scan.end;
    previous_chain_ = segment.scan.chain;
    return Status::ok();
  }

  Status finish() {
    if (image_.unseen() > image_.start().index) {
      return Status::data_loss(
          "the log in " + directory_ + " starts after index " + std::to_string(image_.start().index.value()) +
          ", but its first segment begins behind " + std::to_string(image_.unseen().value()) +
          ": older segments are missing; " + kDamagedLogAdvice);
    }
    const auto kept = std::find_if(entries_.begin(), entries_.end(), [&](const raft::Entry& entry) {
      return entry.index > image_.start().index;
    });
    entries_.erase(entries_.begin(), kept);
    const Index first = image_.start().index + 1;
    RALLY_CHECK(entries_.size() == image_.last().index + 1 - first, "entries", entries_.size(), "first",
                first, "last", image_.last().index);
    RALLY_CHECK(entries_.empty() || entries_.front().index == first, "front", entries_.front().index, "first",
                first);
    return Status::ok();
  }

  [[nodiscard]] const LogImage& image() const { return image_; }
  [[nodiscard]] Index highest() const { return highest_; }  ///< of the segment taken last
  std::vector<raft::Entry> take_entries() { return std::move(entries_); }

 private:
  static Status damaged(const FoundSegment& segment, uint64_t offset, const Status& why) {
    return Status::data_loss(
        "log segment " + segment.path + ", frame with body at offset " + std::to_string(offset) +
        ": the checksum is right but the content is not: " + why.message() + "; " + kDamagedLogAdvice);
  }

  Status take(const FoundSegment& segment, const SegmentRecord& record) {
    if (record.version != kWalVersion) {
      return Status::failed_precondition("log segment " + segment.path + " has format version " +
                                         std::to_string(record.version) + ", this build knows version " +
                                         std::to_string(kWalVersion) + "; start the release that wrote it");
    }
    if (record.directory != id_) {
      return Status::failed_precondition("log segment " + segment.path + " belongs to directory id " +
                                         std::to_string(record.directory.value()) + ", this node's is " +
                                         std::to_string(id_.value()) + "; files of two nodes were mixed up");
    }
    if (record.number != segment.number) {
      return Status::data_loss("it says that it is segment " + std::to_string(record.number));
    }
    if (record.last.index < record.start.index) return Status::data_loss("the log ends before it starts");
    if (!begun_) {
      begun_ = true;
      image_ = LogImage(record.hard_state, record.start, record.last);
      return Status::ok();
    }
    if (record.previous_end != previous_end_ || record.previous_chain != previous_chain_) {
      return Status::data_loss("the segment before it ends at offset " + std::to_string(previous_end_) +
                               ", but this one follows one that ended at " +
                               std::to_string(record.previous_end));
    }
    if (record.hard_state != image_.hard_state() || record.start != image_.start() ||
        record.last != image_.last()) {
      return Status::data_loss("its copy of the state differs from what the segments before it say");
    }
    return Status::ok();
  }

  Status take(const FoundSegment& segment, const EntryRecord& record) {
    RALLY_RETURN_IF_ERROR(image_.append(record.id));
    while (!entries_.empty() && entries_.back().index >= record.id.index) entries_.pop_back();
    highest_ = std::max(highest_, record.id.index);
    const Bytes& data = segment.scan.data;
    entries_.push_back(
        {record.id.term, record.id.index, record.kind,
         data.slice(static_cast<size_t>(record.payload.data() - data.data()), record.payload.size())});
    return Status::ok();
  }

  Status take(const FoundSegment&, const raft::HardState& state) {
    image_.set_hard_state(state);
    return Status::ok();
  }

  Status take(const FoundSegment&, const StartRecord& record) {
    if (!record.keep_entries) entries_.clear();
    return image_.set_start(record.start, record.keep_entries);
  }

  std::string directory_;
  DirectoryId id_;
  LogImage image_;
  std::vector<raft::Entry> entries_;
  Index highest_;
  bool begun_ = false;
  uint64_t previous_end_ = 0;
  uint32_t previous_chain_ = 0;
};

}  // namespace

Result<bool> Wal::exists(FileSystem& file_system, const std::string& directory) {
  auto present = file_system.exists(directory);
  if (!present.is_ok() || !*present) return present;
  auto numbers = segment_numbers(file_system, directory);
  if (!numbers.is_ok()) return numbers.status();
  for (const uint64_t number : *numbers) {
    auto file = file_system.open(segment_path(directory, number), FileSystem::Mode::kRead);
    if (!file.is_ok()) return file.status();
    auto head = (*file)->read_at(0, kFrameHeadBytes);
    if (!head.is_ok()) return head.status();
    if (decode_frame_head(*head, /*salt=*/0, /*offset=*/0)) return true;
  }
  return false;
}

Result<Wal::Recovered> Wal::create(FileSystem& file_system, std::string directory, DirectoryId id,
                                   WalOptions options, raft::Membership bootstrap) {
  RALLY_RETURN_IF_ERROR(options.validate());
  RALLY_RETURN_IF_ERROR(file_system.create_directories(directory));
  auto present = exists(file_system, directory);
  if (!present.is_ok()) return present.status();
  if (*present) return Status::already_exists("there is a log in " + directory);
  auto numbers = segment_numbers(file_system, directory);
  if (!numbers.is_ok()) return numbers.status();
  for (const uint64_t number : *numbers)
    RALLY_RETURN_IF_ERROR(file_system.remove(segment_path(directory, number)));
  RALLY_RETURN_IF_ERROR(file_system.sync_directory(directory));

  std::unique_ptr<Wal> wal(new Wal(file_system, std::move(directory), id, options));
  raft::SnapshotMeta start;
  start.membership = std::move(bootstrap);
  wal->image_ = LogImage({}, std::move(start), {});
  SegmentPreparer first(file_system, wal->directory_, 1, options.hasty_segment_bytes);
  RALLY_RETURN_IF_ERROR(first.finish(options.hasty_segment_bytes));
  wal->current_ = SegmentWriter(first.take_file(), id, 1, first.bytes());
  RALLY_RETURN_IF_ERROR(wal->begin_segment(0, 0));
  RALLY_RETURN_IF_ERROR(wal->sync());
  Recovered recovered;
  recovered.start = wal->image_.start();
  recovered.wal = std::move(wal);
  return recovered;
}

Result<Wal::Recovered> Wal::open(FileSystem& file_system, std::string directory, DirectoryId id,
                                 WalOptions options) {
  RALLY_RETURN_IF_ERROR(options.validate());
  auto numbers = segment_numbers(file_system, directory);
  if (!numbers.is_ok()) return numbers.status();

  std::vector<FoundSegment> segments;
  size_t begun = 0;  // how many of them, from the front, have frames
  for (const uint64_t number : *numbers) {
    auto segment = find_segment(file_system, directory, id, number);
    if (!segment.is_ok()) return segment.status();
    segments.push_back(std::move(segment).value());
    if (!segments.back().scan.frames.empty()) begun = segments.size();
  }
  if (begun == 0) {
    return Status::data_loss("no log segment in " + directory + " has a sound beginning; " +
                             kDamagedLogAdvice);
  }

  std::unique_ptr<Wal> wal(new Wal(file_system, directory, id, options));
  Recovered recovered;
  Replay replay(directory, id);
  for (size_t i = 0; i < begun; ++i) {
    FoundSegment& segment = segments[i];
    const bool last = i + 1 == begun;
    if (!last && (segment.scan.frames.empty() || !segment.scan.damage.empty())) {
      return Status::data_loss("log segment " + segment.path + " is damaged at offset " +
                               std::to_string(segment.scan.end) + ": " + segment.scan.damage +
                               "; it was durable as a whole before the next segment began; " +
                               kDamagedLogAdvice);
    }
    RALLY_RETURN_IF_ERROR(replay.take(segment));
    if (!last) wal->older_.push_back({segment.number, replay.highest()});
  }
  RALLY_RETURN_IF_ERROR(replay.finish());

  // Nothing is changed on the disk before all of it was understood.
  FoundSegment& last = segments[begun - 1];
  recovered.torn_tail_repaired = !last.scan.damage.empty();
  RALLY_RETURN_IF_ERROR(clean_tail(last));
  for (size_t i = segments.size(); i-- > begun + 1;) {
    RALLY_RETURN_IF_ERROR(file_system.remove(segments[i].path));
    RALLY_RETURN_IF_ERROR(file_system.sync_directory(directory));
  }
  if (begun < segments.size()) {
    FoundSegment& prepared = segments[begun];
    if (prepared.scan.dirty_end > 0) {
      RALLY_RETURN_IF_ERROR(clean_tail(prepared));
      recovered.torn_tail_repaired = true;
    }
    wal->next_ =
        std::make_unique<SegmentPreparer>(file_system, directory, prepared.number, options.segment_bytes);
  }

  wal->image_ = replay.image();
  wal->durable_start_ = wal->image_.start();
  wal->current_highest_ = replay.highest();
  wal->current_ = SegmentWriter(std::move(last.file), id, last.number, last.scan.file_bytes, last.scan.end,
                                last.scan.chain);
  wal->records_end_ = last.scan.end;
  wal->noted_durable_ = last.scan.durable;
  recovered.hard_state = wal->image_.hard_state();
  recovered.start = wal->image_.start();
  recovered.entries = replay.take_entries();
  recovered.wal = std::move(wal);
  return recovered;
}

}  // namespace rallypoint::storage
