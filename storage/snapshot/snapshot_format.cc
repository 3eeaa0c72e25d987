#include "storage/snapshot/snapshot_format.h"

#include <bit>
#include <cstring>

#include "raft/base/check.h"
#include "raft/base/crc32c.h"

namespace rallypoint::storage::snapshot_format {
namespace {

static_assert(std::endian::native == std::endian::little, "snapshots are read and written in place");

constexpr std::string_view kHeadMagic = "RALLYSNP";
constexpr std::string_view kFootMagic = "RALLYEND";

template <class Number>
void put(std::string& out, Number number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

template <class Number>
Number number_at(std::string_view bytes, size_t offset) {
  Number number;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

}  // namespace

std::string encode_head(const SnapshotPoint& point) {
  RALLY_CHECK(point.membership.size() <= kMembershipBytesMax, "membership_bytes", point.membership.size());
  std::string head(kHeadMagic);
  put(head, kSnapshotVersion);
  put(head, static_cast<uint32_t>(point.membership.size()));
  put(head, point.term.value());
  put(head, point.index.value());
  head += point.membership;
  put(head, crc32c(0, head));
  return head;
}

Result<size_t> head_bytes(std::string_view fixed) {
  if (fixed.size() < kHeadFixedBytes || !fixed.starts_with(kHeadMagic)) {
    return Status::data_loss("this is not the beginning of a snapshot");
  }
  const auto version = number_at<uint32_t>(fixed, 8);
  if (version != kSnapshotVersion) {
    return Status::failed_precondition("snapshot format version " + std::to_string(version) +
                                       ", this build knows version " + std::to_string(kSnapshotVersion));
  }
  const auto membership_bytes = number_at<uint32_t>(fixed, 12);
  if (membership_bytes > kMembershipBytesMax)
    return Status::data_loss("the head's membership is impossibly large");
  return kHeadFixedBytes + membership_bytes + 4;
}

Result<SnapshotPoint> decode_head(std::string_view head) {
  const auto expected = head_bytes(head);
  if (!expected.is_ok()) return expected.status();
  if (head.size() != *expected) return Status::data_loss("the head is cut short");
  const size_t summed = head.size() - 4;
  if (crc32c(0, head.substr(0, summed)) != number_at<uint32_t>(head, summed)) {
    return Status::data_loss("the head's checksum is wrong");
  }
  SnapshotPoint point;
  point.term = Term(number_at<uint64_t>(head, 16));
  point.index = Index(number_at<uint64_t>(head, 24));
  point.membership = std::string(head.substr(kHeadFixedBytes, summed - kHeadFixedBytes));
  return point;
}

uint32_t block_crc(const BlockHead& head, std::string_view body) {
  std::string counts;
  put(counts, head.body_bytes);
  put(counts, head.rows);
  return crc32c(crc32c(0, counts), body);
}

std::string encode_block_head(std::string_view body, uint32_t rows) {
  RALLY_CHECK(!body.empty() && body.size() <= kBlockBytesMax, "body_bytes", body.size());
  const BlockHead head{static_cast<uint32_t>(body.size()), rows, 0};
  std::string out;
  put(out, head.body_bytes);
  put(out, head.rows);
  put(out, block_crc(head, body));
  return out;
}

BlockHead decode_block_head(std::string_view bytes) {
  return {number_at<uint32_t>(bytes, 0), number_at<uint32_t>(bytes, 4), number_at<uint32_t>(bytes, 8)};
}

uint32_t add_to_total(uint32_t total, uint32_t crc) {
  std::string bytes;
  put(bytes, crc);
  return crc32c(total, bytes);
}

void append_row(std::string& body, std::string_view key, std::string_view value) {
  put(body, static_cast<uint32_t>(key.size()));
  put(body, static_cast<uint32_t>(value.size()));
  body += key;
  body += value;
}

std::optional<Row> take_row(std::string_view& body) {
  if (body.size() < 8) return std::nullopt;
  const auto key_bytes = number_at<uint32_t>(body, 0);
  const auto value_bytes = number_at<uint32_t>(body, 4);
  if (uint64_t{key_bytes} + value_bytes > body.size() - 8) return std::nullopt;
  const Row row{body.substr(8, key_bytes), body.substr(8 + size_t{key_bytes}, value_bytes)};
  body.remove_prefix(8 + size_t{key_bytes} + value_bytes);
  return row;
}

std::string encode_foot(const Foot& foot) {
  std::string out;
  put(out, uint32_t{0});
  put(out, foot.rows);
  put(out, foot.bytes);
  put(out, foot.total);
  put(out, crc32c(0, out));
  out += kFootMagic;
  return out;
}

Result<Foot> decode_foot(std::string_view bytes) {
  if (bytes.size() != kFootBytes || !bytes.ends_with(kFootMagic)) {
    return Status::data_loss("the end is missing: the snapshot is cut short");
  }
  if (number_at<uint32_t>(bytes, 0) != 0 ||
      crc32c(0, bytes.substr(0, 24)) != number_at<uint32_t>(bytes, 24)) {
    return Status::data_loss("the foot's checksum is wrong");
  }
  return Foot{number_at<uint64_t>(bytes, 4), number_at<uint64_t>(bytes, 12), number_at<uint32_t>(bytes, 20)};
}

}  // namespace rallypoint::storage::snapshot_format
