// Bytes: a shared, immutable, sliceable run of bytes; the only way payloads travel. Copying it costs one
// reference count, slicing it nothing more; the bytes never move, so views into it live as long as any copy.
#pragma once

#include <cstddef>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "raft/base/check.h"

namespace rallypoint {

class Bytes {
 public:
  Bytes() = default;
  /// Takes the string over; no copy of its bytes.
  explicit Bytes(std::string&& owned) {
    if (owned.empty()) return;
    auto holder = std::make_shared<const std::string>(std::move(owned));
    data_ = holder->data();
    size_ = holder->size();
    owner_ = std::move(holder);
  }
  /// Copies the bytes of `view`.
  static Bytes copy_of(std::string_view view) { return Bytes(std::string(view)); }
  /// A view into memory that `owner` keeps alive.
  static Bytes sharing(std::shared_ptr<const void> owner, std::string_view view) {
    Bytes bytes;
    bytes.owner_ = std::move(owner);
    bytes.data_ = view.data();
    bytes.size_ = view.size();
    return bytes;
  }

  [[nodiscard]] std::string_view view() const { return {data_, size_}; }
  [[nodiscard]] const char* data() const { return data_; }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::string to_string() const { return std::string(view()); }

  /// The part [offset, offset + count), sharing the same memory. The range must lie inside.
  [[nodiscard]] Bytes slice(size_t offset, size_t count) const {
    RALLY_CHECK(offset <= size_ && count <= size_ - offset, "offset", offset, "count", count, "size", size_);
    Bytes part = *this;
    part.data_ += offset;
    part.size_ = count;
    return part;
  }

  friend bool operator==(const Bytes& a, const Bytes& b) { return a.view() == b.view(); }
  friend std::ostream& operator<<(std::ostream& out, const Bytes& bytes) {
    return out << '[' << bytes.size_ << " bytes]";
  }

 private:
  std::shared_ptr<const void> owner_;
  const char* data_ = "";
  size_t size_ = 0;
};

}  // namespace rallypoint
