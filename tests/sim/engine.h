// EngineState: the state machine of a simulated node - registers, and a digest over every entry that it ever
// applied - small enough to be copied as a flush and sent as a snapshot. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "raft/types.h"

namespace rallypoint::sim {

inline constexpr size_t kRegisters = 8;

/// A client's command: set a register. The id names the proposal for ever.
struct Command {
  uint64_t id = 0;
  uint64_t value = 0;
  uint32_t key = 0;
  [[nodiscard]] Bytes encode(size_t padding) const;
  static Command decode(std::string_view bytes);
};

/// The digest after `entry`, from that before it; covers every field.
uint64_t digest_after(uint64_t digest, const raft::Entry& entry);

struct EngineState {
  raft::SnapshotMeta at;  ///< the last entry applied, and the membership in force there
  uint64_t digest = 0;
  std::array<uint64_t, kRegisters> registers{};

  void apply(const raft::Entry& entry);
  /// The bytes of a snapshot. The membership travels in SnapshotMeta and is not among them.
  [[nodiscard]] std::string serialize(size_t padding) const;
  /// A Violation if the bytes are not whole.
  static EngineState parse(const raft::SnapshotMeta& meta, std::string_view bytes);
};

}  // namespace rallypoint::sim
