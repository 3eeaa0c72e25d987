// FrameQueue: frames on their way out of one connection, as pieces to be gathered into one write. Pure; used by its
// connection only, on the peer loop.
//
// Heads and small payloads share one buffer; larger payloads stay where they are and are referenced: below
// kReferenceBytesMin copying costs less than one more piece in the kernel's list and a reference count.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <string_view>

#include "raft/base/bytes.h"
#include "server/transport/frame.h"

namespace rallypoint::server {

class FrameQueue {
 public:
  static constexpr size_t kReferenceBytesMin = 512;

  /// Takes no more frames than that, nor more bytes; but an empty queue takes any frame.
  FrameQueue(size_t bytes_max, size_t frames_max) : bytes_max_(bytes_max), frames_max_(frames_max) {}

  /// Appends one frame whose body is `head` followed by `payloads`. False: no room, nothing is changed.
  bool append(FrameType type, std::string_view head, std::span<const Bytes> payloads);

  /// The first pieces that wait, at most `count`. Valid until the next call of anything else.
  size_t gather(iovec* out, size_t count) const;
  /// `bytes` of what waits have been written.
  void consume(size_t bytes);

  [[nodiscard]] bool empty() const { return bytes_ == 0; }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  /// Frames not wholly written.
  [[nodiscard]] size_t frames() const { return frame_ends_.size(); }

 private:
  struct Piece {
    std::string own;  ///< used if `shared` is empty
    Bytes shared;
    [[nodiscard]] std::string_view view() const { return shared.empty() ? std::string_view(own) : shared.view(); }
  };
  std::string& own_tail();

  size_t bytes_max_;
  size_t frames_max_;
  std::deque<Piece> pieces_;
  size_t front_written_ = 0;          ///< bytes of pieces_.front() that are gone
  size_t bytes_ = 0;                  ///< not yet written
  uint64_t written_ = 0;              ///< in all
  std::deque<uint64_t> frame_ends_;   ///< in terms of written_
};

}  // namespace rallypoint::server
