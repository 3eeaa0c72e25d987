// What the tests of the replicated state share: entries as a leader would write them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/state/command.pb.h"
#include "server/state/state_machine.h"
#include "server/state/v2_command.h"
#include "storage/engine/memory_engine.h"

namespace rallypoint::server {

inline Bytes registration(NodeId node, uint64_t nonce, const std::string& name = "n") {
  pb::Command command;
  command.set_node(node.value());
  command.mutable_register_node()->set_nonce(nonce);
  command.mutable_register_node()->set_name(name);
  command.mutable_register_node()->add_client_urls("http://" + name + ":2379");
  return Bytes(command.SerializeAsString());
}

inline v2::WriteRequest put_request(const std::string& path, const std::string& value, std::optional<int64_t> ttl_s = {}) {
  v2::WriteRequest request;
  request.path = path;
  request.value = Bytes::copy_of(value);
  request.ttl_s = ttl_s;
  return request;
}

inline Bytes write_command(NodeId node, uint64_t incarnation, uint64_t sequence, const v2::WriteRequest& request) {
  pb::Command command;
  command.set_node(node.value());
  command.set_incarnation(incarnation);
  command.set_sequence(sequence);
  command.set_low_water(1);
  to_proto(request, *command.mutable_v2_write());
  return Bytes(command.SerializeAsString());
}

inline raft::Entry entry_at(uint64_t index, const std::vector<Bytes>& commands, int64_t cluster_time_us = 1) {
  return {Term(1), Index(index), raft::EntryKind::kCommand,
          encode_entry({Instant{cluster_time_us}, 1'700'000'000'000'000'000}, commands)};
}

inline std::unique_ptr<StateMachine> open_machine(std::shared_ptr<storage::Engine> engine) {
  auto machine = StateMachine::open(std::move(engine), {});
  EXPECT_TRUE(machine.is_ok()) << machine.status();
  return std::move(*machine);
}

/// The value of a key, or the error code as text.
inline std::string value_of(StateMachine& machine, const std::string& path) {
  const v2::Outcome outcome = machine.tree().read({path, false, false}, {machine.cluster_time(), 0});
  if (const auto* error = std::get_if<v2::Error>(&outcome)) return "e" + std::to_string(error->code);
  return std::get<v2::EventPtr>(outcome)->node.value->to_string();
}

}  // namespace rallypoint::server
