// Trace: what happened in a run. Always a hash over every step (two runs of one seed must agree), on demand a
// story for humans, one fact a line.
#pragma once

#include <cstdint>
#include <cstdio>
#include <sstream>
#include <string>

#include "raft/base/units.h"
#include "tests/sim/scheduler.h"

namespace rallypoint::sim {

class Trace {
 public:
  Trace(const Scheduler& scheduler, bool story, bool messages)
      : scheduler_(scheduler), story_(story), messages_(messages) {}

  template <class... Numbers>
  void mix(Numbers... numbers) {
    (mix_one(static_cast<uint64_t>(numbers)), ...);
  }
  [[nodiscard]] uint64_t hash() const { return hash_; }
  /// The story also tells of each message.
  [[nodiscard]] bool messages() const { return messages_; }

  /// One line of the story: "time  node  text"; the parts are streamed one after the other.
  template <class... Parts>
  void say(NodeId node, const Parts&... parts) {
    if (!story_) return;
    std::ostringstream out;
    (out << ... << parts);
    const int64_t us = scheduler_.now().us;
    std::printf("%4lld.%06lld  %s%-3s %s\n", static_cast<long long>(us / 1'000'000),
                static_cast<long long>(us % 1'000'000), node.is_zero() ? " " : "n",
                node.is_zero() ? "*" : std::to_string(node.value()).c_str(), out.str().c_str());
  }

 private:
  void mix_one(uint64_t number) {
    hash_ = (hash_ ^ number) * 0x9e3779b97f4a7c15ULL;
    hash_ ^= hash_ >> 29;
  }

  const Scheduler& scheduler_;
  uint64_t hash_ = 0x243f6a8885a308d3ULL;
  bool story_;
  bool messages_;
};

}  // namespace rallypoint::sim
