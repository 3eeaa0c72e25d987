#include "tests/sim/engine.h"

#include <cstring>

#include "tests/sim/log_model.h"
#include "tests/sim/violation.h"

namespace rallypoint::sim {
namespace {

uint64_t mix(uint64_t hash, uint64_t number) {
  hash = (hash ^ number) * 0x9e3779b97f4a7c15ULL;
  return hash ^ (hash >> 32);
}

uint64_t hash_bytes(uint64_t hash, std::string_view bytes) {
  hash = mix(hash, bytes.size());
  while (!bytes.empty()) {
    uint64_t word = 0;
    const size_t n = bytes.size() < 8 ? bytes.size() : 8;
    std::memcpy(&word, bytes.data(), n);
    hash = mix(hash, word);
    bytes.remove_prefix(n);
  }
  return hash;
}

void put(std::string& out, uint64_t number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

uint64_t take(std::string_view& bytes) {
  uint64_t number = 0;
  SIM_REQUIRE(bytes.size() >= sizeof number, property::kSnapshot, "bytes left", bytes.size());
  std::memcpy(&number, bytes.data(), sizeof number);
  bytes.remove_prefix(sizeof number);
  return number;
}

}  // namespace

Bytes Command::encode(size_t padding) const {
  std::string out;
  put(out, id);
  put(out, value);
  put(out, key);
  out.append(padding, static_cast<char>('a' + id % 26));
  return Bytes(std::move(out));
}

Command Command::decode(std::string_view bytes) {
  Command command;
  command.id = take(bytes);
  command.value = take(bytes);
  command.key = static_cast<uint32_t>(take(bytes));
  return command;
}

uint64_t digest_after(uint64_t digest, const raft::Entry& entry) {
  digest = mix(mix(mix(digest, entry.term.value()), entry.index.value()), static_cast<uint64_t>(entry.kind));
  return hash_bytes(digest, entry.payload.view());
}

void EngineState::apply(const raft::Entry& entry) {
  SIM_REQUIRE(entry.index == at.index + 1, property::kStateMachine, "applies", entry.index, "after",
              at.index);
  at.term = entry.term;
  at.index = entry.index;
  digest = digest_after(digest, entry);
  if (entry.kind == raft::EntryKind::kMembership) {
    at.membership = parse_membership(entry.payload);
  } else if (entry.kind == raft::EntryKind::kCommand) {
    const Command command = Command::decode(entry.payload.view());
    registers[command.key % kRegisters] = command.value;
  }
}

std::string EngineState::serialize(size_t padding) const {
  std::string out;
  put(out, at.term.value());
  put(out, at.index.value());
  put(out, digest);
  for (const uint64_t value : registers) put(out, value);
  put(out, padding);
  for (size_t i = 0; i < padding; ++i) out.push_back(static_cast<char>(digest + i * 7));
  uint64_t sum = hash_bytes(0, out);
  put(out, sum);
  return out;
}

EngineState EngineState::parse(const raft::SnapshotMeta& meta, std::string_view bytes) {
  SIM_REQUIRE(bytes.size() >= 8, property::kSnapshot, "snapshot bytes", bytes.size(), "index", meta.index);
  std::string_view sum = bytes.substr(bytes.size() - 8);
  SIM_REQUIRE(take(sum) == hash_bytes(0, bytes.substr(0, bytes.size() - 8)), property::kSnapshot,
              "damaged bytes", bytes.size(), "index", meta.index);
  EngineState state;
  const Term term(take(bytes));
  const Index index(take(bytes));
  SIM_REQUIRE(term == meta.term && index == meta.index, property::kSnapshot, "inside", index, "meta",
              meta.index);
  state.at = meta;
  state.digest = take(bytes);
  for (uint64_t& value : state.registers) value = take(bytes);
  return state;
}

}  // namespace rallypoint::sim
