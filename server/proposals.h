// Proposals: the writes of this node's clients, from the moment they are taken until they have been applied here. They
// are proposed, proposed again when they seem lost or the leader changes, and applied once however often that happens
// (server/state/sessions.h).
//
// Owned by the node loop, single-threaded. Knows neither Raft nor what a write means.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "server/api/api.h"

namespace rallypoint::server {

class Proposals {
 public:
  enum class Kind : uint8_t { kV2, kV3, kInternal };  ///< who waits; kInternal: nobody
  explicit Proposals(NodeId self) : self_(self) {}

  /// Called once per process, when the registration has been applied: from now on writes can be proposed.
  void set_incarnation(uint64_t incarnation) { incarnation_ = incarnation; }
  [[nodiscard]] uint64_t incarnation() const { return incarnation_; }

  /// `body`: an encoded pb::Command that has its body and no origin. Returns the write's sequence.
  uint64_t add(Call call, Kind kind, std::string body, Instant deadline);

  /// Commands to hand to the leader now. Empty before the registration.
  std::vector<Bytes> take(Instant now);
  /// Proposes everything outstanding again (the leader changed).
  void again();
  /// What has not been applied within `retry_after` is proposed again.
  void retry(Instant now, Duration retry_after);

  struct Waiter { Call call; Kind kind = Kind::kInternal; };
  /// It was applied; whom to tell. nullopt: not ours any more.
  std::optional<Waiter> finish(uint64_t sequence);
  /// Ends those whose deadline has passed; cheap when there are none. `proposed` = it may still be executed.
  void expire(Instant now, const std::function<void(const Waiter&, bool proposed)>& ended);
  /// Ends those for which `is_applied` says so: applied by way of a snapshot, so that the answer is lost.
  void finish_if(const std::function<bool(uint64_t sequence)>& is_applied, const std::function<void(const Waiter&)>& ended);

  [[nodiscard]] size_t waiting() const { return waiting_; }

 private:
  struct Write {
    Waiter waiter;
    Bytes command;  ///< without its origin until it is first proposed
    Instant deadline;
    Instant proposed;
    bool encoded = false;
    bool done = false;
  };
  static constexpr Instant kNever{std::numeric_limits<int64_t>::max()};
  [[nodiscard]] Write* find(uint64_t sequence);
  void end(Write& write);

  NodeId self_;
  uint64_t incarnation_ = 0;
  Instant earliest_ = kNever;     ///< no deadline of the window is before it
  std::deque<Write> window_;      ///< by sequence; the first one is not done, so it is the low water
  uint64_t first_sequence_ = 1;   ///< of window_.front()
  size_t waiting_ = 0;
  std::vector<uint64_t> to_propose_;
};

}  // namespace rallypoint::server
