// Text forms of messages and trace events, for golden traces and failure messages. One line each.
#pragma once

#include <string>

#include "raft/message.h"
#include "raft/observer.h"

namespace rallypoint::raft::test {

[[nodiscard]] std::string describe(const Membership& membership);
[[nodiscard]] std::string describe(const Message& message);
[[nodiscard]] std::string describe(const TraceEvent& event);

}  // namespace rallypoint::raft::test
