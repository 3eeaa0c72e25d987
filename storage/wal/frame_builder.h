// FrameBuilder: gathers the records of one frame for one gathered write. Small payloads are copied next to
// their heads (a copy of 300 bytes costs less than one more piece in the system call), large ones stay where
// they are; their Bytes are kept until clear(). Owned by Wal; reused, so that a busy log allocates nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "raft/base/bytes.h"
#include "raft/types.h"
#include "storage/wal/record.h"

namespace rallypoint::storage {

class FrameBuilder {
 public:
  explicit FrameBuilder(uint64_t gather_bytes) : gather_bytes_(gather_bytes) {}

  void add(std::string_view record) { copy(record); }

  void add_entry(const raft::Entry& entry) {
    const size_t before = copied_.size();
    encode_entry_head(entry, copied_);
    grow_copied(copied_.size() - before);
    const std::string_view payload = entry.payload.view();
    if (payload.size() < gather_bytes_) {
      copy(payload);
    } else {
      parts_.push_back({payload.data(), 0, payload.size()});
      held_.push_back(entry.payload);
      bytes_ += payload.size();
    }
    constexpr std::string_view kZeros("\0\0\0\0\0\0\0", 7);
    copy(kZeros.substr(0, padded(payload.size()) - payload.size()));
  }

  [[nodiscard]] bool empty() const { return bytes_ == 0; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

  /// The body, piece by piece; valid until the next add or clear.
  const std::vector<std::string_view>& pieces() {
    pieces_.clear();
    for (const Part& part : parts_) {
      pieces_.emplace_back(part.outside != nullptr ? part.outside : copied_.data() + part.offset, part.size);
    }
    return pieces_;
  }

  void clear() {
    constexpr size_t kKeptBytes = 4 << 20;  // what a burst needed is given back
    copied_.clear();
    if (copied_.capacity() > kKeptBytes) copied_.shrink_to_fit();
    parts_.clear();
    pieces_.clear();
    held_.clear();
    bytes_ = 0;
  }

 private:
  struct Part {
    const char* outside;  // null: in copied_, which may still move
    size_t offset;
    size_t size;
  };
  void copy(std::string_view bytes) {
    copied_ += bytes;
    grow_copied(bytes.size());
  }
  void grow_copied(size_t count) {
    if (count == 0) return;
    bytes_ += count;
    if (!parts_.empty() && parts_.back().outside == nullptr) {
      parts_.back().size += count;
    } else {
      parts_.push_back({nullptr, copied_.size() - count, count});
    }
  }

  uint64_t gather_bytes_;
  std::string copied_;
  std::vector<Part> parts_;
  std::vector<std::string_view> pieces_;
  std::vector<Bytes> held_;
  uint64_t bytes_ = 0;
};

}  // namespace rallypoint::storage
