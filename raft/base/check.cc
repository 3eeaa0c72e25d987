#include "raft/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace rallypoint {
namespace {
void (*failure_hook)(const std::string&) = nullptr;
}

void set_check_failure_hook(void (*hook)(const std::string& message)) { failure_hook = hook; }

void check_failed(const char* expression, const char* file, int line, const std::string& details) {
  const std::string message =
      std::string("CHECK failed: ") + expression + details + " at " + file + ":" + std::to_string(line);
  if (failure_hook != nullptr) failure_hook(message);
  std::fprintf(stderr, "%s\n", message.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace rallypoint
