#include "server/transport/frame_queue.h"

#include "raft/base/check.h"
#include "raft/base/crc32c.h"

namespace rallypoint::server {
namespace {
/// A buffer of heads is closed at this size, so that growing it never moves much.
constexpr size_t kOwnBytesMax = 64 << 10;
}  // namespace

std::string& FrameQueue::own_tail() {
  if (pieces_.empty() || !pieces_.back().shared.empty() || pieces_.back().own.size() >= kOwnBytesMax) {
    pieces_.emplace_back();
  }
  return pieces_.back().own;
}

bool FrameQueue::append(FrameType type, std::string_view head, std::span<const Bytes> payloads) {
  size_t length = head.size();
  for (const Bytes& payload : payloads) length += payload.size();
  const size_t total = kFrameHeadBytes + length;
  if (!empty() && (frames() >= frames_max_ || total > bytes_max_ - std::min(bytes_, bytes_max_))) return false;
  RALLY_CHECK(length <= UINT32_MAX, "length", length);

  uint32_t crc = crc32c(frame_crc_seed(type, static_cast<uint32_t>(length)), head);
  for (const Bytes& payload : payloads) crc = crc32c(crc, payload.view());

  std::string& own = own_tail();
  put_frame_head({static_cast<uint32_t>(length), crc, type}, own);
  own.append(head);
  for (const Bytes& payload : payloads) {
    if (payload.size() < kReferenceBytesMin) {
      own_tail().append(payload.view());
    } else {
      pieces_.push_back({{}, payload});
    }
  }
  bytes_ += total;
  frame_ends_.push_back(written_ + bytes_);
  return true;
}

size_t FrameQueue::gather(iovec* out, size_t count) const {
  size_t used = 0;
  size_t skip = front_written_;
  for (const Piece& piece : pieces_) {
    if (used == count) break;
    std::string_view view = piece.view().substr(skip);
    skip = 0;
    if (view.empty()) continue;
    out[used++] = {const_cast<char*>(view.data()), view.size()};
  }
  return used;
}

void FrameQueue::consume(size_t bytes) {
  RALLY_CHECK(bytes <= bytes_, "bytes", bytes, "waiting", bytes_);
  bytes_ -= bytes;
  written_ += bytes;
  while (!frame_ends_.empty() && frame_ends_.front() <= written_) frame_ends_.pop_front();
  front_written_ += bytes;
  while (!pieces_.empty() && front_written_ >= pieces_.front().view().size()) {
    front_written_ -= pieces_.front().view().size();
    if (pieces_.size() == 1 && pieces_.front().shared.empty()) {
      pieces_.front().own.clear();  // the usual end of a write: keep its memory for the next
      break;
    }
    pieces_.pop_front();
  }
}

}  // namespace rallypoint::server
