#include "server/state/entry.h"

#include <cstring>
#include <string>

namespace rallypoint::server {
namespace {

constexpr uint8_t kVersion = 1;
constexpr size_t kHeadBytes = 1 + 8 + 8;

template <class T>
void append_number(std::string& out, T number) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &number, sizeof(T));
  out.append(bytes, sizeof(T));
}

template <class T>
T number_at(std::string_view bytes, size_t offset) {
  T number;
  std::memcpy(&number, bytes.data() + offset, sizeof(T));
  return number;
}

void append_commands(std::string& out, const std::vector<Bytes>& commands) {
  for (const Bytes& command : commands) {
    append_number(out, static_cast<uint32_t>(command.size()));
    out.append(command.view());
  }
}

size_t total_bytes(const std::vector<Bytes>& commands) {
  size_t total = 0;
  for (const Bytes& command : commands) total += 4 + command.size();
  return total;
}

/// Calls `take(offset, size)` for each command; false if the lengths do not add up.
template <class Take>
bool split(std::string_view bytes, size_t offset, const Take& take) {
  while (offset < bytes.size()) {
    if (bytes.size() - offset < 4) return false;
    const size_t size = number_at<uint32_t>(bytes, offset);
    offset += 4;
    if (bytes.size() - offset < size) return false;
    take(offset, size);
    offset += size;
  }
  return true;
}

}  // namespace

Bytes encode_entry(const EntryTime& time, const std::vector<Bytes>& commands) {
  std::string out;
  out.reserve(kHeadBytes + total_bytes(commands));
  append_number(out, kVersion);
  append_number(out, time.cluster_time.us);
  append_number(out, time.wall_unix_ns);
  append_commands(out, commands);
  return Bytes(std::move(out));
}

Result<DecodedEntry> decode_entry(const Bytes& payload) {
  const std::string_view bytes = payload.view();
  if (bytes.size() < kHeadBytes) return Status::data_loss("log entry of " + std::to_string(bytes.size()) + " bytes has no head");
  const auto version = static_cast<uint8_t>(bytes[0]);
  if (version != kVersion)
    return Status::data_loss("log entry has format " + std::to_string(version) + "; this build knows 1: use the release that wrote it");
  DecodedEntry entry;
  entry.time.cluster_time.us = number_at<int64_t>(bytes, 1);
  entry.time.wall_unix_ns = number_at<int64_t>(bytes, 9);
  if (!split(bytes, kHeadBytes, [&](size_t at, size_t size) { entry.commands.push_back(bytes.substr(at, size)); }))
    return Status::data_loss("log entry's commands do not add up to its " + std::to_string(bytes.size()) + " bytes");
  return entry;
}

Bytes encode_commands(const std::vector<Bytes>& commands) {
  std::string out;
  out.reserve(total_bytes(commands));
  append_commands(out, commands);
  return Bytes(std::move(out));
}

Result<std::vector<Bytes>> decode_commands(const Bytes& payload) {
  std::vector<Bytes> commands;
  if (!split(payload.view(), 0, [&](size_t at, size_t size) { commands.push_back(payload.slice(at, size)); }))
    return Status::invalid_argument("forwarded commands do not add up to their " + std::to_string(payload.size()) + " bytes");
  return commands;
}

}  // namespace rallypoint::server
