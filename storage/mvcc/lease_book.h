// What the keyspace must know of leases, and what it tells them. Implemented by the lessor (storage/lease).
#pragma once

#include <cstdint>
#include <string_view>

namespace rallypoint::mvcc {

class LeaseBook {
 public:
  virtual ~LeaseBook() = default;
  [[nodiscard]] virtual bool exists(int64_t lease) const = 0;
  /// A key has at most one lease; the keyspace detaches the old one first. `lease` exists.
  virtual void attach(int64_t lease, std::string_view key) = 0;
  virtual void detach(int64_t lease, std::string_view key) = 0;
};

}  // namespace rallypoint::mvcc
