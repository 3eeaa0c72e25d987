// Style as a test: what a reviewer would otherwise have to look for in every change. The rules are those of
// ARCHITECTURE.md (arrows) and of the headers' own promises ("pure"); each rule is tried on a bad example first, so that
// it can't be blind. Runs in the repository's root.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace rallypoint {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr size_t kLinesWarn = 400;  ///< beyond: it usually holds two ideas
constexpr size_t kLinesMax = 600;   ///< beyond: it certainly does

// ---- the rules --------------------------------------------------------------------------------------------------

/// Arrows: whoever stands in the first column (the longest prefix counts) may include what stands in the second, and
/// its own folder. A name that ends in a slash stands for everything below it.
struct Arrow {
  std::string_view from;
  std::vector<std::string_view> to;
};
const std::vector<Arrow>& arrows() {
  static const std::vector<Arrow> all = {
      {"raft/base/", {}},
      {"raft/", {"raft/base/"}},
      {"storage/fs/", {"raft/base/"}},
      {"storage/wal/", {"storage/fs/", "raft/"}},
      {"storage/engine/", {"raft/base/"}},
      {"storage/snapshot/", {"storage/fs/", "storage/engine/", "raft/base/"}},
      {"storage/etcd_api/", {}},
      {"storage/v2/", {"storage/engine/engine.h", "raft/base/"}},
      {"storage/mvcc/", {"storage/engine/engine.h", "storage/etcd_api/", "raft/base/"}},
      {"storage/lease/", {"storage/engine/engine.h", "storage/mvcc/lease_book.h", "raft/base/"}},
      {"storage/watch/", {"storage/mvcc/", "storage/etcd_api/", "raft/base/"}},
      {"storage/auth/", {"storage/engine/engine.h", "storage/etcd_api/", "raft/base/"}},
      {"rendezvous/", {"storage/engine/engine.h", "raft/base/"}},
      {"server/state/",
       {"raft/", "storage/engine/engine.h", "storage/v2/", "storage/mvcc/", "storage/lease/", "storage/watch/", "storage/auth/",
        "storage/etcd_api/", "rendezvous/"}},
      {"server/transport/", {"raft/", "server/rounds.h"}},
      {"server/rpc/", {"server/api/", "server/obs/", "server/options.h", "server/mailbox.h", "server/rounds.h", "server/shared_loop.h", "raft/base/"}},
      {"server/api/",
       {"server/rpc/", "server/obs/", "server/options.h", "server/state/v3_kinds.h", "storage/v2/v2_types.h", "storage/v2/v2_stats.h",
        "storage/etcd_api/", "raft/base/"}},
      {"server/obs/", {"server/api/", "server/rpc/", "server/options.h", "raft/base/"}},
      {"server/", {"server/", "raft/", "storage/", "rendezvous/"}},
      {"client/", {"storage/etcd_api/", "raft/base/"}},
  };
  return all;
}

/// Folders and files that promise to be pure: same input, same output, whatever the machine does.
const std::vector<std::string_view> kPure = {
    "raft/",           "storage/v2/",   "storage/mvcc/",         "storage/lease/",         "storage/watch/",
    "storage/auth/",   "rendezvous/",   "server/state/",         "server/cluster_info.",   "server/member_",
    "server/requests.", "server/proposals.", "server/cluster_clock.", "storage/engine/memory_engine.", "storage/fs/memory_file_system.",
};
/// Of these a pure unit has no use.
const std::vector<std::string_view> kImpure = {
    "system_clock", "steady_clock", "high_resolution_clock", "random_device", "mt19937",       "std::rand(",  "srand(",
    "std::thread",  "<thread>",     "std::mutex",            "<mutex>",       "<condition_variable>", "std::async", "sleep_for",
    "spdlog",       "log_info(",    "log_warning(",          "log_error(",    "<iostream>",    "std::cout",   "std::cerr",
    "printf(stderr", "getenv(",     "gettimeofday(",         "clock_gettime(", "::time(",      "<unistd.h>",  "<fstream>",
};
/// Debt is written as debt, with its price, and not as a note to oneself.
const std::vector<std::string_view> kNotes = {"TODO", "FIXME", "HACK"};

/// Hosts with a dot in their name that text may speak of. Others are somebody's machine.
const std::vector<std::string_view> kHosts = {"www.apache.org", "etcd.io", "github.com", "pytorch.org", "www.debian.org", "grpc.io"};

// ---- how they are looked up --------------------------------------------------------------------------------------

bool starts_with_any(std::string_view path, const std::vector<std::string_view>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view prefix) { return path.starts_with(prefix); });
}

/// Without what follows // in a line: words in comments do no harm.
std::string_view code_of(std::string_view line) {
  for (size_t i = 0; i + 1 < line.size(); ++i)
    if (line[i] == '/' && line[i + 1] == '/' && (i == 0 || line[i - 1] != ':')) return line.substr(0, i);
  return line;
}

std::optional<std::string> included_by(std::string_view line) {
  constexpr std::string_view kInclude = "#include \"";
  if (!line.starts_with(kInclude)) return std::nullopt;
  const size_t end = line.find('"', kInclude.size());
  return end == std::string_view::npos ? std::nullopt : std::optional(std::string(line.substr(kInclude.size(), end - kInclude.size())));
}

bool may_include(std::string_view path, std::string_view target) {
  if (path.starts_with("tests/")) return true;
  const Arrow* best = nullptr;
  for (const Arrow& arrow : arrows())
    if (path.starts_with(arrow.from) && (best == nullptr || best->from.size() < arrow.from.size())) best = &arrow;
  if (best == nullptr) return false;  // a new folder needs an arrow
  // Its own folder, down to the next one that has arrows of its own.
  const Arrow* home = nullptr;
  for (const Arrow& arrow : arrows())
    if (target.starts_with(arrow.from) && (home == nullptr || home->from.size() < arrow.from.size())) home = &arrow;
  return home == best || starts_with_any(target, best->to);
}

std::vector<std::string> hosts_in(const std::string& line) {
  static const std::regex url(R"(https?://([A-Za-z0-9.-]+))");
  std::vector<std::string> hosts;
  for (std::sregex_iterator it(line.begin(), line.end(), url), end; it != end; ++it) hosts.push_back((*it)[1]);
  return hosts;
}

bool is_known_host(const std::string& host) {
  static const std::regex local(R"(127\.|0\.0\.0\.0|10\.|192\.168\.|172\.(1[6-9]|2[0-9]|3[01])\.)");
  return host.find('.') == std::string::npos || host.ends_with(".") || std::regex_search(host, local, std::regex_constants::match_continuous) ||
         std::find(kHosts.begin(), kHosts.end(), host) != kHosts.end();
}

using Findings = std::vector<std::string>;

/// Everything that is wrong with one file of C++.
Findings check_source(const std::string& path, const std::vector<std::string>& lines) {
  Findings findings;
  const auto find = [&](size_t line, const std::string& what) { findings.push_back(path + ":" + std::to_string(line + 1) + ": " + what); };
  if (lines.size() > kLinesMax) find(lines.size() - 1, "more than " + std::to_string(kLinesMax) + " lines: it holds two ideas");
  if (path.ends_with(".h")) {
    if (lines.empty() || !lines[0].starts_with("// ")) find(0, "a header begins with a comment that says what it is");
    if (std::find(lines.begin(), lines.end(), "#pragma once") == lines.end()) find(0, "a header without #pragma once");
  }
  const bool pure = starts_with_any(path, kPure) && path != "raft/base/check.cc";  // the last words before an abort
  const bool tidy_itself = path == "tests/tidy_test.cc";
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    const std::string_view code = code_of(line);
    if (auto target = included_by(line); target && !may_include(path, *target)) find(i, "no arrow leads from here to " + *target);
    if (pure)
      for (std::string_view word : kImpure)
        if (code.find(word) != std::string_view::npos) find(i, std::string(word) + " in a unit that promises to be pure");
    if (!pure && (code.find("steady_clock") != std::string_view::npos || code.find("random_device") != std::string_view::npos) &&
        !starts_with_any(path, {"server/", "client/", "tests/"}))
      find(i, "time and randomness come in through parameters outside of server/, client/ and tests/");
    if (!tidy_itself)
      for (std::string_view note : kNotes)
        if (line.find(note) != std::string::npos) find(i, std::string(note) + ": write debt as debt, with its price");
    if (line.find('\t') != std::string::npos) find(i, "a tab");
    if (line.ends_with(' ') || line.ends_with('\r')) find(i, "blanks at the end of the line");
  }
  return findings;
}

/// What holds for every text file.
Findings check_text(const std::string& path, const std::vector<std::string>& lines) {
  Findings findings;
  for (size_t i = 0; i < lines.size(); ++i)
    for (const std::string& host : hosts_in(lines[i]))
      if (!is_known_host(host)) findings.push_back(path + ":" + std::to_string(i + 1) + ": names the host " + host);
  return findings;
}

// ---- the files ---------------------------------------------------------------------------------------------------

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  return lines;
}

/// All text files of the repository, by their paths in it.
const std::map<std::string, std::vector<std::string>>& files() {
  static const auto all = [] {
    std::map<std::string, std::vector<std::string>> found;
    for (const char* top : {"raft", "storage", "server", "client", "rendezvous", "tests", "deploy"}) {
      if (!fs::exists(top)) continue;
      for (const auto& item : fs::recursive_directory_iterator(top)) {
        const std::string path = item.path().string();
        if (!item.is_regular_file() || path.find("/build") != std::string::npos || path.find("__pycache__") != std::string::npos ||
            path.find("/corpus/") != std::string::npos)
          continue;
        found.emplace(path, lines_of(item.path()));
      }
    }
    for (const auto& item : fs::directory_iterator("."))
      if (item.is_regular_file()) found.emplace(item.path().filename().string(), lines_of(item.path()));
    return found;
  }();
  return all;
}

bool is_source(const std::string& path) { return path.ends_with(".h") || path.ends_with(".cc"); }

std::string text_of(const Findings& findings) {
  std::string text;
  for (const std::string& finding : findings) text += "\n  " + finding;
  return text;
}

// ---- the rules see -----------------------------------------------------------------------------------------------

TEST(TidyRules, SeeAForbiddenArrow) {
  EXPECT_TRUE(may_include("raft/core.cc", "raft/election.h"));
  EXPECT_TRUE(may_include("raft/core.cc", "raft/base/bytes.h"));
  EXPECT_FALSE(may_include("raft/base/bytes.cc", "raft/core.h"));
  EXPECT_FALSE(may_include("raft/core.cc", "storage/wal/wal.h"));
  EXPECT_FALSE(may_include("storage/v2/v2_tree.cc", "storage/engine/rocks_engine.h"));
  EXPECT_FALSE(may_include("storage/lease/lessor.cc", "storage/mvcc/keyspace.h"));
  EXPECT_FALSE(may_include("server/api/v3/kv.cc", "raft/core.h"));
  EXPECT_FALSE(may_include("server/api/v3/kv.cc", "storage/mvcc/keyspace.h"));
  EXPECT_FALSE(may_include("server/transport/loop.cc", "server/node.h"));
  EXPECT_FALSE(may_include("server/node.cc", "client/client.h"));
  EXPECT_FALSE(may_include("server/node.cc", "tests/state/support.h"));
  EXPECT_FALSE(may_include("client/client.cc", "server/options.h"));
  EXPECT_FALSE(may_include("unheard_of/unit.cc", "unheard_of/unit.h"));
  EXPECT_TRUE(may_include("tests/sim/node.cc", "server/node_loop.h"));
}

TEST(TidyRules, SeeWhatIsNotPure) {
  EXPECT_THAT(check_source("raft/log.cc", {"auto now = std::chrono::steady_clock::now();"}), ElementsAre(HasSubstr("raft/log.cc:1: steady_clock in a unit")));
  EXPECT_THAT(check_source("raft/log.cc", {"// no std::thread here"}), IsEmpty()) << "a comment may speak of it";
  EXPECT_THAT(check_source("storage/wal/wal.cc", {"std::random_device device;"}), ElementsAre(HasSubstr("come in through parameters")));
  EXPECT_THAT(check_source("server/node.cc", {"std::random_device device;"}), IsEmpty());
}

TEST(TidyRules, SeeUntidyFiles) {
  EXPECT_THAT(check_source("raft/x.h", {"#pragma once"}), ElementsAre(HasSubstr("begins with a comment")));
  EXPECT_THAT(check_source("raft/x.h", {"// X: what it is."}), ElementsAre(HasSubstr("without #pragma once")));
  EXPECT_THAT(check_source("raft/x.cc", {"int x;  "}), ElementsAre(HasSubstr("blanks")));
  EXPECT_THAT(check_source("raft/x.cc", {"\tint x;"}), ElementsAre(HasSubstr("a tab")));
  EXPECT_THAT(check_source("raft/x.cc", {"int x;  // TODO later"}), ElementsAre(HasSubstr("write debt as debt")));
  EXPECT_THAT(check_source("raft/x.cc", std::vector<std::string>(kLinesMax + 1, "int x;")), ElementsAre(HasSubstr("two ideas")));
  EXPECT_THAT(check_text("deploy/x", {"curl http://mirror.company.net/simple"}), ElementsAre(HasSubstr("names the host mirror.company.net")));
  EXPECT_THAT(check_text("deploy/x", {"http://10.0.0.1:2379 http://localhost:1 http://h1:2 https://etcd.io/docs"}), IsEmpty());
}

// ---- the repository ----------------------------------------------------------------------------------------------

TEST(Tidy, TheFilesAreFound) {
  EXPECT_TRUE(files().contains("raft/core.h")) << "run it in the root of the repository";
  EXPECT_GT(files().size(), 200u);
}

TEST(Tidy, SourcesFollowTheRules) {
  Findings findings;
  for (const auto& [path, lines] : files()) {
    if (!is_source(path)) continue;
    for (std::string& finding : check_source(path, lines)) findings.push_back(std::move(finding));
    if (lines.size() > kLinesWarn) std::printf("  long: %s has %zu lines\n", path.c_str(), lines.size());
  }
  EXPECT_TRUE(findings.empty()) << text_of(findings);
}

TEST(Tidy, IncludesAreThere) {
  Findings findings;
  for (const auto& [path, lines] : files()) {
    if (!is_source(path)) continue;
    for (const std::string& line : lines) {
      auto target = included_by(line);
      if (!target) continue;
      std::string source = *target;
      if (source.ends_with(".pb.h")) source = source.substr(0, source.size() - 5) + ".proto";
      if (!files().contains(source)) findings.push_back(path + ": includes " + *target + ", which is not a path from the root of the repository");
    }
  }
  EXPECT_TRUE(findings.empty()) << text_of(findings);
}

TEST(Tidy, TextsNameNobodysMachine) {
  Findings findings;
  for (const auto& [path, lines] : files())
    if (path != "tests/tidy_test.cc")
      for (std::string& finding : check_text(path, lines)) findings.push_back(std::move(finding));
  EXPECT_TRUE(findings.empty()) << text_of(findings);
}

/// A unit is a header with its .cc: a .cc alone says what it is for.
TEST(Tidy, EverySourceHasAnIntroduction) {
  Findings findings;
  for (const auto& [path, lines] : files()) {
    if (!path.ends_with(".cc") || path.starts_with("tests/")) continue;
    const bool introduced = !lines.empty() && lines[0].starts_with("// ");
    if (!introduced && !files().contains(path.substr(0, path.size() - 3) + ".h"))
      findings.push_back(path + ":1: neither a header of its name nor a comment that says what it is");
  }
  EXPECT_TRUE(findings.empty()) << text_of(findings);
}

}  // namespace
}  // namespace rallypoint
