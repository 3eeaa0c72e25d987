// Any bytes through raft/wire.h: decode() is total, and what it takes can be written and read again, equal.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "raft/base/check.h"
#include "raft/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rallypoint;
  const auto message = raft::decode(Bytes::copy_of({reinterpret_cast<const char*>(data), size}));
  if (!message.is_ok()) return 0;
  std::string bytes;
  std::vector<Bytes> payloads;
  raft::encode(message.value(), bytes, payloads);
  for (const Bytes& payload : payloads) bytes.append(payload.view());
  const auto again = raft::decode(Bytes(std::move(bytes)));
  RALLY_CHECK(again.is_ok(), "status", again.status());
  RALLY_CHECK(again.value() == message.value());
  return 0;
}
