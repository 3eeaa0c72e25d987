#include "server/transport/frame_reader.h"

#include <algorithm>
#include <cstring>

#include "raft/base/crc32c.h"

namespace rallypoint::server {
namespace {
constexpr size_t kBlockBytes = 64 << 10;
/// Less room than this at the end of a block is not worth a system call.
constexpr size_t kSpaceBytesMin = 4 << 10;
}  // namespace

void FrameReader::move_to_new_block(size_t capacity) {
  auto block = std::make_shared_for_overwrite<char[]>(capacity);
  const size_t pending = end_ - begin_;
  if (pending > 0) std::memcpy(block.get(), block_.get() + begin_, pending);
  block_ = std::move(block);
  capacity_ = capacity;
  begin_ = 0;
  end_ = pending;
  kept_ = false;
}

std::span<char> FrameReader::space() {
  const size_t pending = end_ - begin_;
  if (!kept_ && begin_ > 0 && pending < kSpaceBytesMin) {
    std::memmove(block_.get(), block_.get() + begin_, pending);
    begin_ = 0;
    end_ = pending;
  }
  const size_t needed = std::max(wanted_, kFrameHeadBytes);
  if (capacity_ - begin_ < needed || (capacity_ - end_ < kSpaceBytesMin && wanted_ == 0)) {
    move_to_new_block(std::max(kBlockBytes, needed));
  }
  return {block_.get() + end_, capacity_ - end_};
}

Result<std::optional<Frame>> FrameReader::next() {
  wanted_ = 0;
  if (end_ - begin_ < kFrameHeadBytes) return std::optional<Frame>();
  const char* at = block_.get() + begin_;
  Result<FrameHead> head = get_frame_head({at, kFrameHeadBytes}, body_bytes_max_);
  if (!head.is_ok()) return head.status();
  const size_t total = kFrameHeadBytes + head->length;
  if (end_ - begin_ < total) {
    wanted_ = total;
    return std::optional<Frame>();
  }
  const std::string_view body(at + kFrameHeadBytes, head->length);
  if (crc32c(frame_crc_seed(head->type, head->length), body) != head->crc) {
    return Status::invalid_argument("a frame of " + std::to_string(head->length) +
                                    " bytes whose checksum does not match");
  }
  begin_ += total;
  return std::optional<Frame>(Frame{head->type, body.empty() ? Bytes() : Bytes::sharing(block_, body)});
}

void FrameReader::settle() {
  if (block_.use_count() > 1) kept_ = true;
}

}  // namespace rallypoint::server
