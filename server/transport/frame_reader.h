// FrameReader: received bytes -> frames, without copying them: bodies are slices of the block that was read into,
// and keep it alive. Pure; used by its connection only, on the peer loop.
//
// Blocks are filled from front to end and then left to those who hold slices of them; so a held entry keeps little
// alive but its neighbours. Only the first bytes of a frame that did not fit into the rest of a block are moved.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "raft/base/status.h"
#include "server/transport/frame.h"

namespace rallypoint::server {

class FrameReader {
 public:
  explicit FrameReader(size_t body_bytes_max) : body_bytes_max_(body_bytes_max) {}

  /// Larger bodies end the connection; a new limit holds from the next frame on.
  void set_body_bytes_max(size_t bytes) { body_bytes_max_ = bytes; }

  /// Where to read into; never empty. Only after next() has returned nothing.
  std::span<char> space();
  void received(size_t bytes) { end_ += bytes; }
  /// The next whole frame, nothing if more bytes are needed, or what is wrong with the stream: then it is over.
  Result<std::optional<Frame>> next();
  /// To be called when the frames of a read are decoded and before anything decoded goes to another thread: a block
  /// of which nothing was kept will be filled again.
  void settle();

 private:
  void move_to_new_block(size_t capacity);

  size_t body_bytes_max_;
  std::shared_ptr<char[]> block_;
  size_t capacity_ = 0;
  size_t begin_ = 0;     ///< first byte not handed out as part of a frame
  size_t end_ = 0;       ///< first byte not received yet
  size_t wanted_ = 0;    ///< size of the frame at begin_ as far as known, head included
  bool kept_ = false;    ///< somebody holds, or may have held on another thread, a slice of block_
};

}  // namespace rallypoint::server
