// The transport's log lines (loop_context.h); here alone, because spdlog's headers are heavy.
#include <spdlog/spdlog.h>

#include "server/transport/loop_context.h"

namespace rallypoint::server {

void log_info(const std::string& line) { spdlog::info("transport: {}", line); }
void log_warning(const std::string& line) { spdlog::warn("transport: {}", line); }

}  // namespace rallypoint::server
