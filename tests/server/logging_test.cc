#include "server/obs/logging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace rallypoint::server {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

class TemporaryFile {
 public:
  TemporaryFile() {
    const int file = ::mkstemp(path_.data());
    ::close(file);
  }
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string text() const {
    std::ostringstream out;
    out << std::ifstream(path_).rdbuf();
    return out.str();
  }

 private:
  std::string path_ = testing::TempDir() + "logging_test_XXXXXX";
};

TEST(Logging, WritesOneFactALineWithNodeAndTerm) {
  TemporaryFile file;
  ASSERT_TRUE(init_logging("info", {file.path()}, "n1").is_ok());
  set_log_term(7);
  log_info("ready to serve client requests", {{"url", "http://a:1"}, {"count", 3}, {"on", true}, {"why", "two\nlines"}});
  log_debug("not shown");
  shutdown_logging();
  set_log_term(0);
  EXPECT_THAT(file.text(), EndsWith("Z info  \"ready to serve client requests\" node=n1 term=7 url=http://a:1 count=3 "
                                    "on=true why=\"two\\nlines\"\n"));
  EXPECT_THAT(file.text(), Not(HasSubstr("not shown")));
}

TEST(Logging, RefusesWhatItCanNotDo) {
  EXPECT_THAT(init_logging("loud", {"stderr"}, "n").message(), HasSubstr("loud"));
  EXPECT_THAT(init_logging("info", {"/no/such/directory/log"}, "n").message(), HasSubstr("/no/such/directory/log"));
}

// Torch starts the server with stderr=PIPE and may never read it. A child logs far more than the pipe holds and must
// come to its end all the same.
[[noreturn]] void log_into_a_full_pipe() {
  ::alarm(10);  // a hang ends as a signal
  int ends[2];
  if (::pipe(ends) != 0) ::_exit(2);
  ::dup2(ends[1], STDERR_FILENO);
  if (!init_logging("info", {"stderr"}, "n1").is_ok()) ::_exit(3);
  for (int i = 0; i < 50'000; ++i) log_info("a line that nobody reads", {{"number", i}});
  shutdown_logging();
  ::_exit(0);
}

TEST(LoggingDeathTest, NeitherBlocksNorDelaysTheExitWhenNobodyReadsThePipe) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a fresh process: logging starts threads
  EXPECT_EXIT(log_into_a_full_pipe(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace rallypoint::server
