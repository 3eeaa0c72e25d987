#include "storage/wal/record.h"

#include <bit>
#include <cstring>

#include "raft/base/check.h"
#include "raft/base/crc32c.h"
#include "raft/membership.h"

namespace rallypoint::storage {
namespace {

static_assert(std::endian::native == std::endian::little, "the log is read and written in place");

enum class RecordType : uint8_t { kSegment = 1, kEntry = 2, kHardState = 3, kCompacted = 4, kRestarted = 5 };

template <class Number>
void put(std::string& out, Number number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

/// Takes numbers from the front of a content; ok() turns false at the first that is not there.
class Taker {
 public:
  explicit Taker(std::string_view content) : rest_(content) {}
  template <class Number>
  void take(Number& number) {
    if (rest_.size() < sizeof number) {
      ok_ = false;
      return;
    }
    std::memcpy(&number, rest_.data(), sizeof number);
    rest_.remove_prefix(sizeof number);
  }
  template <class Tag>
  void take(StrongNumber<Tag>& number) {
    uint64_t value = 0;
    take(value);
    number = StrongNumber<Tag>(value);
  }
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

void put_record_head(std::string& out, RecordType type, uint8_t kind, size_t length) {
  RALLY_CHECK(length <= UINT32_MAX, "length", length);
  put(out, static_cast<uint8_t>(type));
  put(out, kind);
  put(out, uint16_t{0});
  put(out, static_cast<uint32_t>(length));
}

void put_record(std::string& out, RecordType type, std::string_view content) {
  put_record_head(out, type, 0, content.size());
  out += content;
  out.append(padded(content.size()) - content.size(), '\0');
}

void put_hard_state(std::string& out, const raft::HardState& state) {
  put(out, state.term.value());
  put(out, state.vote.value());
  put(out, state.commit.value());
}

void put_start(std::string& out, const raft::SnapshotMeta& start) {
  put(out, start.term.value());
  put(out, start.index.value());
  out += raft::encode_membership(start.membership).view();
}

void take_hard_state(Taker& taker, raft::HardState& state) {
  taker.take(state.term);
  taker.take(state.vote);
  taker.take(state.commit);
}

/// A start ends its record: the membership is all that is left.
Status take_start(Taker& taker, raft::SnapshotMeta& start) {
  taker.take(start.term);
  taker.take(start.index);
  if (!taker.ok()) return Status::data_loss("the record is too short for its type");
  auto membership = raft::decode_membership(Bytes::copy_of(taker.rest()));
  if (!membership.is_ok()) return Status::data_loss("bad membership: " + membership.status().message());
  start.membership = std::move(membership).value();
  return Status::ok();
}

Status too_short() {
  return Status::data_loss("the record is too short for its type");
}

}  // namespace

uint32_t segment_salt(DirectoryId id, uint64_t segment_number) {
  std::string salt;
  put(salt, id.value());
  put(salt, segment_number);
  return crc32c(0, salt);
}

void encode_frame_head(const FrameHead& head, uint32_t salt, char* out) {
  std::memcpy(out + 8, &head.body_bytes, 4);
  std::memcpy(out + 12, &head.body_crc, 4);
  std::memcpy(out + 16, &head.offset, 4);
  std::memcpy(out + 20, &head.durable, 4);
  const uint32_t crc = crc32c(salt, {out + 8, 16});
  std::memcpy(out, kFrameMagic, 4);
  std::memcpy(out + 4, &crc, 4);
}

std::optional<FrameHead> decode_frame_head(std::string_view bytes, uint32_t salt, uint64_t offset) {
  if (bytes.size() < kFrameHeadBytes || std::memcmp(bytes.data(), kFrameMagic, 4) != 0) return std::nullopt;
  FrameHead head;
  uint32_t crc = 0;
  std::memcpy(&crc, bytes.data() + 4, 4);
  std::memcpy(&head.body_bytes, bytes.data() + 8, 4);
  std::memcpy(&head.body_crc, bytes.data() + 12, 4);
  std::memcpy(&head.offset, bytes.data() + 16, 4);
  std::memcpy(&head.durable, bytes.data() + 20, 4);
  if (head.offset != offset || head.durable > offset || head.body_bytes % 8 != 0) return std::nullopt;
  if (crc32c(salt, bytes.substr(8, 16)) != crc) return std::nullopt;
  return head;
}

void encode_record(const SegmentRecord& record, std::string& out) {
  std::string content;
  put(content, record.version);
  put(content, uint32_t{0});
  put(content, record.directory.value());
  put(content, record.number);
  put(content, record.previous_end);
  put(content, record.previous_chain);
  put(content, record.last.term.value());
  put(content, record.last.index.value());
  put_hard_state(content, record.hard_state);
  put_start(content, record.start);
  put_record(out, RecordType::kSegment, content);
}

void encode_record(const StartRecord& record, std::string& out) {
  std::string content;
  put_start(content, record.start);
  put_record(out, record.keep_entries ? RecordType::kCompacted : RecordType::kRestarted, content);
}

void encode_record(const raft::HardState& record, std::string& out) {
  put_record_head(out, RecordType::kHardState, 0, 24);
  put_hard_state(out, record);
}

void encode_entry_head(const raft::Entry& entry, std::string& out) {
  // In one piece: a busy log does this a few hundred thousand times a second.
  char head[kEntryHeadBytes] = {static_cast<char>(RecordType::kEntry), static_cast<char>(entry.kind)};
  const size_t length = 16 + entry.payload.size();
  RALLY_CHECK(length <= UINT32_MAX, "length", length);
  const auto length32 = static_cast<uint32_t>(length);
  const uint64_t term = entry.term.value();
  const uint64_t index = entry.index.value();
  std::memcpy(head + 4, &length32, 4);
  std::memcpy(head + 8, &term, 8);
  std::memcpy(head + 16, &index, 8);
  out.append(head, sizeof head);
}

Result<Record> decode_record(std::string_view& body) {
  if (body.size() < kRecordHeadBytes) return Status::data_loss("bytes behind the last record");
  const auto type = static_cast<RecordType>(body[0]);
  const auto kind = static_cast<uint8_t>(body[1]);
  uint16_t zero = 0;
  uint32_t length = 0;
  std::memcpy(&zero, body.data() + 2, 2);
  std::memcpy(&length, body.data() + 4, 4);
  if (zero != 0) return Status::data_loss("a reserved field is not zero");
  if (padded(length) > body.size() - kRecordHeadBytes)
    return Status::data_loss("the record is longer than its frame");
  Taker taker(body.substr(kRecordHeadBytes, length));
  body.remove_prefix(kRecordHeadBytes + padded(length));

  switch (type) {
    case RecordType::kSegment: {
      SegmentRecord record;
      uint32_t reserved = 0;
      taker.take(record.version);
      taker.take(reserved);
      taker.take(record.directory);
      taker.take(record.number);
      taker.take(record.previous_end);
      taker.take(record.previous_chain);
      taker.take(record.last.term);
      taker.take(record.last.index);
      take_hard_state(taker, record.hard_state);
      RALLY_RETURN_IF_ERROR(take_start(taker, record.start));
      return Record(std::move(record));
    }
    case RecordType::kEntry: {
      EntryRecord record;
      taker.take(record.id.term);
      taker.take(record.id.index);
      if (!taker.ok()) return too_short();
      if (kind > static_cast<uint8_t>(raft::EntryKind::kMembership)) {
        return Status::data_loss("unknown entry kind " + std::to_string(kind));
      }
      record.kind = static_cast<raft::EntryKind>(kind);
      record.payload = taker.rest();
      return Record(record);
    }
    case RecordType::kHardState: {
      raft::HardState state;
      take_hard_state(taker, state);
      if (!taker.ok() || !taker.rest().empty()) return Status::data_loss("a hard state record has 24 bytes");
      return Record(state);
    }
    case RecordType::kCompacted:
    case RecordType::kRestarted: {
      StartRecord record;
      record.keep_entries = type == RecordType::kCompacted;
      RALLY_RETURN_IF_ERROR(take_start(taker, record.start));
      return Record(std::move(record));
    }
  }
  return Status::data_loss("unknown record type " + std::to_string(static_cast<int>(type)));
}

}  // namespace rallypoint::storage
