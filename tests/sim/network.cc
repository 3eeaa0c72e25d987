#include "tests/sim/network.h"

#include <string>
#include <utility>
#include <vector>

#include "raft/wire.h"
#include "tests/sim/violation.h"

namespace rallypoint::sim {
namespace {

/// Through the wire's form and back; must give the same message.
raft::Message round_trip(const raft::Message& message) {
  std::string body;
  std::vector<Bytes> payloads;
  raft::encode(message, body, payloads);
  for (const Bytes& payload : payloads) body.append(payload.view());
  auto decoded = raft::decode(Bytes(std::move(body)));
  SIM_REQUIRE(decoded.is_ok(), property::kCoreCheck, "wire", decoded.status());
  SIM_REQUIRE(decoded.value() == message, property::kCoreCheck, "wire changed", raft::message_name(message));
  return std::move(decoded).value();
}

}  // namespace

void Network::send(raft::Message message) {
  if (profile_.wire_percent > 0 && random_.chance(profile_.wire_percent, 100)) {
    coverage_.add(Counter::kWireRoundTrips);
    message = round_trip(message);
  }
  if (is_cut(message.from, message.to) || (!calm_ && random_.chance(profile_.drop_permille, 1000))) {
    coverage_.add(Counter::kDroppedMessages);
    return;
  }
  if (!calm_ && random_.chance(profile_.duplicate_permille, 1000)) {
    coverage_.add(Counter::kDuplicates);
    carry(message);
  }
  carry(std::move(message));
}

void Network::carry(raft::Message message) {
  Link& way = link(message.from, message.to);
  const Duration jitter = calm_ ? Duration::micros(50) : around(random_, profile_.jitter);
  Instant arrival = scheduler_.now() + profile_.latency + jitter + way.extra;
  if (arrival < way.last_arrival) {
    if (profile_.ordered)
      arrival = way.last_arrival;
    else
      coverage_.add(Counter::kReordered);
  }
  if (arrival > way.last_arrival) way.last_arrival = arrival;
  scheduler_.after(arrival - scheduler_.now(),
                   [this, message = std::move(message)]() mutable { deliver_(std::move(message)); });
}

void Network::mend() {
  for (auto& row : links_) {
    for (Link& way : row) {
      way.cut = false;
      way.extra = {};
    }
  }
}

}  // namespace rallypoint::sim
