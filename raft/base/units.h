// Strong types for the numbers that every layer shares, so that a term can never be passed for an index.
//
// Pure values: no I/O, no clock. `Instant` is a point on whatever monotonic clock the caller owns; cores only
// ever see instants that were handed to them.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <ostream>

namespace rallypoint {

/// An unsigned 64-bit number that only mixes with its own kind. Arithmetic with plain integers counts steps.
template <class Tag>
class StrongNumber {
 public:
  constexpr StrongNumber() = default;
  constexpr explicit StrongNumber(uint64_t value) : value_(value) {}

  [[nodiscard]] constexpr uint64_t value() const { return value_; }
  [[nodiscard]] constexpr bool is_zero() const { return value_ == 0; }

  constexpr auto operator<=>(const StrongNumber&) const = default;
  constexpr StrongNumber& operator++() { return ++value_, *this; }
  constexpr StrongNumber& operator+=(uint64_t steps) { return value_ += steps, *this; }
  constexpr StrongNumber operator+(uint64_t steps) const { return StrongNumber(value_ + steps); }
  constexpr StrongNumber operator-(uint64_t steps) const { return StrongNumber(value_ - steps); }
  /// Distance in steps; the caller guarantees that `other` is not larger.
  constexpr uint64_t operator-(StrongNumber other) const { return value_ - other.value_; }

  friend std::ostream& operator<<(std::ostream& out, StrongNumber number) { return out << number.value_; }

 private:
  uint64_t value_ = 0;
};

/// Raft's logical time: at most one leader each (paper, section 5.1). 0 = before the first election.
using Term = StrongNumber<struct TermTag>;
/// Position in the replicated log, from 1. 0 = before the first entry.
using Index = StrongNumber<struct IndexTag>;
/// A member of the cluster; the same number on every node. 0 = none.
using NodeId = StrongNumber<struct NodeIdTag>;
/// Random identity of one data directory: what a vote or an ack really belongs to. 0 = not known yet.
using DirectoryId = StrongNumber<struct DirectoryIdTag>;

/// A count of the driver's regular ticks; how long one lasts is the driver's business.
using Ticks = uint32_t;

/// A length of time in microseconds.
struct Duration {
  int64_t us = 0;
  constexpr auto operator<=>(const Duration&) const = default;
  static constexpr Duration micros(int64_t n) { return {n}; }
  static constexpr Duration millis(int64_t n) { return {n * 1000}; }
  static constexpr Duration seconds(int64_t n) { return {n * 1'000'000}; }
};

/// A point in time in microseconds on a clock that its owner names (process-monotonic or cluster time).
struct Instant {
  int64_t us = 0;
  constexpr auto operator<=>(const Instant&) const = default;
  constexpr Instant operator+(Duration d) const { return {us + d.us}; }
  constexpr Instant operator-(Duration d) const { return {us - d.us}; }
  constexpr Duration operator-(Instant other) const { return {us - other.us}; }
};

inline std::ostream& operator<<(std::ostream& out, Duration d) { return out << d.us << "us"; }
inline std::ostream& operator<<(std::ostream& out, Instant t) { return out << "@" << t.us << "us"; }

}  // namespace rallypoint

template <class Tag>
struct std::hash<rallypoint::StrongNumber<Tag>> {
  size_t operator()(rallypoint::StrongNumber<Tag> number) const noexcept {
    return std::hash<uint64_t>{}(number.value());
  }
};
