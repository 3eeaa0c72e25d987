#include "storage/wal/wal.h"

#include <algorithm>

#include "raft/base/check.h"
#include "storage/wal/record.h"

namespace rallypoint::storage {

Status WalOptions::validate() const {
  const auto within = [](const char* field, uint64_t value, uint64_t low, uint64_t high) {
    if (value >= low && value <= high) return Status::ok();
    return Status::invalid_argument(std::string(field) + " is " + std::to_string(value) + ", allowed is " +
                                    std::to_string(low) + " to " + std::to_string(high));
  };
  RALLY_RETURN_IF_ERROR(within("segment_bytes", segment_bytes, 4 << 10, 1 << 30));
  RALLY_RETURN_IF_ERROR(within("hasty_segment_bytes", hasty_segment_bytes, 1 << 10, segment_bytes));
  return within("prepare_step_bytes", prepare_step_bytes, 1 << 10, 1 << 30);
}

Wal::Wal(FileSystem& file_system, std::string directory, DirectoryId id, WalOptions options)
    : file_system_(file_system),
      directory_(std::move(directory)),
      id_(id),
      options_(options),
      frame_(options.gather_payload_bytes) {}

Wal::~Wal() = default;

Status Wal::fail(Status status) {
  if (failure_.is_ok()) {
    failure_ =
        Status(status.code(), "the log in " + directory_ + " can't be written any more: " + status.message());
  }
  return failure_;
}

// ---- appending --------------------------------------------------------------------------------------------

// Tried on a copy first, so that a refused call has written nothing.
Status Wal::check(std::span<const raft::Write> writes) const {
  LogImage image = image_;
  for (const raft::Write& write : writes) {
    if (write.hard_state) {
      const raft::HardState& before = image.hard_state();
      const raft::HardState& after = *write.hard_state;
      if (after.term < before.term) {
        return Status::invalid_argument("term " + std::to_string(after.term.value()) +
                                        " is before the present term " + std::to_string(before.term.value()));
      }
      if (after.term == before.term && !before.vote.is_zero() && after.vote != before.vote) {
        return Status::invalid_argument("a second vote in term " + std::to_string(after.term.value()));
      }
      image.set_hard_state(after);
    }
    for (size_t i = 0; i < write.entries.size(); ++i) {
      const raft::Entry& entry = write.entries[i];
      if (entry.index != write.entries[0].index + i) return Status::invalid_argument("entries with a gap");
      if (entry.payload.size() > kEntryPayloadBytesMax) {
        return Status::invalid_argument("a payload of " + std::to_string(entry.payload.size()) +
                                        " bytes, allowed are " + std::to_string(kEntryPayloadBytesMax));
      }
      RALLY_RETURN_IF_ERROR(image.append({entry.term, entry.index}));
    }
    if (write.compact_to) RALLY_RETURN_IF_ERROR(image.set_start(*write.compact_to, /*keep_entries=*/true));
  }
  return Status::ok();
}

Status Wal::append(std::span<const raft::Write> writes) {
  RALLY_RETURN_IF_ERROR(failure_);
  RALLY_RETURN_IF_ERROR(check(writes));
  Status status = append_checked(writes);
  if (status.is_ok() && !frame_.empty()) status = write_frame();
  return status.is_ok() ? status : fail(std::move(status));
}

Status Wal::append_checked(std::span<const raft::Write> writes) {
  for (const raft::Write& write : writes) {
    if (write.hard_state) RALLY_RETURN_IF_ERROR(add_hard_state(*write.hard_state));
    for (const raft::Entry& entry : write.entries) RALLY_RETURN_IF_ERROR(add_entry(entry));
    if (write.compact_to && write.compact_to->index > image_.start().index) {
      RALLY_RETURN_IF_ERROR(add_start(*write.compact_to, /*keep_entries=*/true));
    }
  }
  return Status::ok();
}

Status Wal::add_entry(const raft::Entry& entry) {
  RALLY_RETURN_IF_ERROR(make_room(entry_record_bytes(entry.payload.size())));
  frame_.add_entry(entry);
  current_highest_ = std::max(current_highest_, entry.index);
  return image_.append({entry.term, entry.index});
}

Status Wal::add_hard_state(const raft::HardState& state) {
  std::string record;
  encode_record(state, record);
  RALLY_RETURN_IF_ERROR(make_room(record.size()));
  frame_.add(record);
  image_.set_hard_state(state);
  return Status::ok();
}

Status Wal::add_start(const raft::SnapshotMeta& start, bool keep_entries) {
  std::string record;
  encode_record(StartRecord{start, keep_entries}, record);
  RALLY_RETURN_IF_ERROR(make_room(record.size()));
  frame_.add(record);
  return image_.set_start(start, keep_entries);
}

Status Wal::make_room(uint64_t record_bytes) {
  if (current_.fits(frame_.bytes() + record_bytes)) return Status::ok();
  // What is in the frame belongs to this segment: the next one's first record repeats the state up to there.
  if (!frame_.empty()) RALLY_RETURN_IF_ERROR(write_frame());
  return roll(record_bytes);
}

Status Wal::write_frame() {
  const uint64_t durable = current_.durable();
  RALLY_RETURN_IF_ERROR(current_.write_frame(frame_.pieces()));
  frame_.clear();
  records_end_ = current_.end();
  noted_durable_ = durable;
  return Status::ok();
}

// A record larger than a prepared segment simply runs over its pre-written end: slower to sync, but right.
Status Wal::roll(uint64_t body_bytes_min) {
  if (current_.end() > current_.durable()) RALLY_RETURN_IF_ERROR(current_.sync());
  if (!next_) {
    next_ = std::make_unique<SegmentPreparer>(file_system_, directory_, current_.number() + 1,
                                              options_.segment_bytes);
  }
  constexpr uint64_t kFirstFrameBytes = 4 << 10;  // a guess; only the size of a hasty segment depends on it
  const uint64_t wanted = 2 * kFrameHeadBytes + body_bytes_min + kFirstFrameBytes;
  RALLY_RETURN_IF_ERROR(next_->finish(std::max(options_.hasty_segment_bytes, wanted)));
  const uint64_t previous_end = current_.end();
  const uint32_t previous_chain = current_.chain();
  older_.push_back({current_.number(), current_highest_});
  current_ = SegmentWriter(next_->take_file(), id_, next_->number(), next_->bytes());
  next_.reset();
  return begin_segment(previous_end, previous_chain);
}

Status Wal::begin_segment(uint64_t previous_end, uint32_t previous_chain) {
  SegmentRecord record;
  record.directory = id_;
  record.number = current_.number();
  record.previous_end = static_cast<uint32_t>(previous_end);
  record.previous_chain = previous_chain;
  record.last = image_.last();
  record.hard_state = image_.hard_state();
  record.start = image_.start();
  std::string encoded;
  encode_record(record, encoded);
  RALLY_RETURN_IF_ERROR(current_.write_frame({encoded}));
  current_highest_ = Index();
  records_end_ = current_.end();
  noted_durable_ = 0;
  return Status::ok();
}

Status Wal::sync() {
  RALLY_RETURN_IF_ERROR(failure_);
  if (unsynced_bytes() > 0) {
    if (Status status = current_.sync(); !status.is_ok()) return fail(std::move(status));
  }
  durable_start_ = image_.start();
  return Status::ok();
}

Status Wal::restart_at(const raft::SnapshotMeta& meta) {
  RALLY_RETURN_IF_ERROR(failure_);
  if (meta.index <= image_.start().index) return Status::ok();
  Status status = add_start(meta, image_.term_at(meta.index) == meta.term);
  if (status.is_ok()) status = write_frame();
  return status.is_ok() ? sync() : fail(std::move(status));
}

// ---- idle work --------------------------------------------------------------------------------------------

Status Wal::release(Index index) {
  RALLY_RETURN_IF_ERROR(failure_);
  const Index bound = std::min(index, durable_start_.index);
  // Without a durable byte in the current segment, the last of the older ones is still the end of the log.
  const size_t keep = current_.durable() > 0 ? 0 : 1;
  while (older_.size() > keep && older_.front().highest <= bound) {
    RALLY_RETURN_IF_ERROR(file_system_.remove(segment_path(directory_, older_.front().number)));
    older_.pop_front();
    // One by one, or a crash might leave a hole.
    RALLY_RETURN_IF_ERROR(file_system_.sync_directory(directory_));
  }
  return Status::ok();
}

Result<bool> Wal::prepare_next() {
  RALLY_RETURN_IF_ERROR(failure_);
  if (!next_) {
    next_ = std::make_unique<SegmentPreparer>(file_system_, directory_, current_.number() + 1,
                                              options_.segment_bytes);
  }
  auto more = next_->step(options_.prepare_step_bytes);
  // A full disk is no reason to stop yet: the present segment may have room, and space may be freed.
  if (!more.is_ok() && more.status().code() != Code::kResourceExhausted) return fail(more.status());
  return more;
}

Status Wal::mark() {
  RALLY_RETURN_IF_ERROR(failure_);
  const bool all_durable = current_.durable() >= records_end_;
  if (!all_durable || noted_durable_ >= records_end_ || !current_.fits(0)) return Status::ok();
  const uint64_t durable = current_.durable();
  if (Status status = current_.write_frame({}); !status.is_ok()) return fail(std::move(status));
  noted_durable_ = durable;
  return Status::ok();
}

}  // namespace rallypoint::storage
