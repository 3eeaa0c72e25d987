#include "server/obs/logging.h"

#include <fcntl.h>
#include <spdlog/async.h>
#include <spdlog/async_logger.h>
#include <unistd.h>

#include <atomic>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>

#include "server/obs/log_sink.h"

namespace rallypoint::server {
namespace {

constexpr size_t kQueueLines = 8192;
constexpr int kShutdownMs = 50;

// What logs. Never destroyed: spdlog's thread would be joined then, and it may sit in a write. So each one keeps hold
// of the one before it (there are several only in tests).
struct Logging {
  Logging* before = nullptr;
  std::shared_ptr<spdlog::details::thread_pool> pool;
  std::shared_ptr<spdlog::async_logger> logger;
  std::vector<std::shared_ptr<DescriptorSink>> sinks;
  std::string node;
};

std::atomic<Logging*> g_logging{nullptr};
Logging* g_last_logging = nullptr;  // by init_logging() alone
std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::atomic<uint64_t> g_term{0};

const char* level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return "debug";
    case LogLevel::kInfo: return "info ";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kError: return "error";
  }
  return "?";
}

bool parse_level(std::string_view text, LogLevel& level) {
  if (text == "debug") return level = LogLevel::kDebug, true;
  if (text == "info") return level = LogLevel::kInfo, true;
  if (text == "warn" || text == "warning") return level = LogLevel::kWarning, true;
  if (text == "error" || text == "panic" || text == "fatal" || text == "dpanic")
    return level = LogLevel::kError, true;
  return false;
}

// Plain words stay bare; everything else is quoted, control characters escaped: a line stays a line.
void append_value(std::string& out, std::string_view value) {
  const bool plain = !value.empty() && std::string_view::npos == value.find_first_of(" \"=\\\n\r\t") &&
                     std::all_of(value.begin(), value.end(), [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
  if (plain) {
    out += value;
    return;
  }
  out += '"';
  for (const unsigned char c : value) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c < 0x20 || c == 0x7f) {
      out += '?';
    } else {
      out += static_cast<char>(c);
    }
  }
  out += '"';
}

void append_time(std::string& out) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  std::tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  char text[48];
  size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  size += static_cast<size_t>(std::snprintf(text + size, sizeof text - size, ".%03ldZ ", now.tv_nsec / 1'000'000));
  out.append(text, size);
}

}  // namespace

Status init_logging(std::string_view level, const std::vector<std::string>& outputs, std::string_view node) {
  LogLevel wanted{};
  if (!parse_level(level, wanted))
    return Status::invalid_argument("--log-level: \"" + std::string(level) + "\" is not one of debug, info, warn, error");
  auto logging = std::make_unique<Logging>();
  for (const std::string& output : outputs) {
    if (output == "stderr" || output == "default" || output == "systemd/journal") {
      logging->sinks.push_back(std::make_shared<DescriptorSink>(STDERR_FILENO, false));
    } else if (output == "stdout") {
      logging->sinks.push_back(std::make_shared<DescriptorSink>(STDOUT_FILENO, false));
    } else {
      const int file = ::open(output.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
      if (file < 0)
        return Status::invalid_argument("--log-outputs: can't open " + output + ": " + std::strerror(errno) +
                                        "; give stderr, stdout or a file that can be written");
      logging->sinks.push_back(std::make_shared<DescriptorSink>(file, true));
    }
  }
  logging->node = node;
  logging->pool = std::make_shared<spdlog::details::thread_pool>(kQueueLines, 1);
  logging->logger = std::make_shared<spdlog::async_logger>("rallypoint", logging->sinks.begin(), logging->sinks.end(),
                                                           logging->pool, spdlog::async_overflow_policy::overrun_oldest);
  logging->logger->set_level(spdlog::level::trace);
  g_level = wanted;
  logging->before = g_last_logging;
  g_last_logging = logging.release();
  g_logging = g_last_logging;
  return Status::ok();
}

void set_log_term(uint64_t term) { g_term = term; }

void shutdown_logging() {
  Logging* logging = g_logging.exchange(nullptr);
  if (logging == nullptr) return;
  for (auto& sink : logging->sinks) sink->hurry();
  logging->logger->flush();
  for (auto& sink : logging->sinks) sink->wait_for_flush(1, kShutdownMs);
}

bool log_enabled(LogLevel level) { return level >= g_level.load(std::memory_order_relaxed); }

void log(LogLevel level, std::string_view fact, std::initializer_list<LogField> fields) {
  if (!log_enabled(level)) return;
  Logging* logging = g_logging.load();
  std::string line;
  line.reserve(200);
  append_time(line);
  line += level_name(level);
  line += " \"";
  line += fact;
  line += '"';
  if (logging != nullptr) {
    line += " node=";
    append_value(line, logging->node);
  }
  if (const uint64_t term = g_term.load(std::memory_order_relaxed); term != 0) {
    line += " term=";
    line += std::to_string(term);
  }
  for (const LogField& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    append_value(line, field.value);
  }
  line += '\n';
  if (logging == nullptr) {
    DescriptorSink sink(STDERR_FILENO, false);
    sink.hurry();
    sink.log(spdlog::details::log_msg("", spdlog::level::info, spdlog::string_view_t(line.data(), line.size())));
    return;
  }
  logging->logger->log(spdlog::source_loc{}, spdlog::level::info, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace rallypoint::server
