// Any bytes as an HTTP request to the v2 API: whatever parses must be what the tree may rely on, and the tree must
// take it. Input: method (one byte), then target, content type and body, separated by newlines.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "raft/base/check.h"
#include "server/api/v2_parse.h"
#include "storage/v2/v2_tree.h"

using namespace rallypoint;

namespace {

void check_path(std::string_view path) {
  RALLY_CHECK(path.starts_with('/'));
  RALLY_CHECK(path == "/" || !path.ends_with('/'));
  RALLY_CHECK(path.find("//") == std::string_view::npos);
  for (size_t begin = 1; begin < path.size();) {
    const std::string_view component = path.substr(begin, path.find('/', begin) - begin);
    RALLY_CHECK(component != "." && component != "..");
    begin += component.size() + 1;
  }
}

std::string_view take_line(std::string_view& rest) {
  const std::string_view line = rest.substr(0, rest.find('\n'));
  rest.remove_prefix(line.size() < rest.size() ? line.size() + 1 : line.size());
  return line;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr std::array<std::string_view, 6> kMethods = {"GET", "PUT", "POST", "DELETE", "HEAD", "PATCH"};
  const std::string_view method = kMethods[data[0] % kMethods.size()];
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string_view target = take_line(rest);
  const std::string_view content_type = take_line(rest);

  server::is_v2_keys_target(target);
  const server::V2Request request = server::parse_v2_request(method, target, content_type, rest);
  v2::Tree tree;
  const v2::Clock now{Instant{1}, 1};
  if (const auto* write = std::get_if<v2::WriteRequest>(&request)) {
    check_path(write->path);
    RALLY_CHECK(!write->prev_value || !write->prev_value->empty());
    const bool foreseen = tree.would_fail(*write).has_value();
    RALLY_CHECK(foreseen == std::holds_alternative<v2::Error>(tree.apply(*write, now)));
    tree.apply(*write, now);
    tree.expire(now);
  } else if (const auto* read = std::get_if<server::V2ReadTarget>(&request)) {
    check_path(read->request.path);
    std::ignore = tree.read(read->request, now);
  } else if (const auto* watch = std::get_if<v2::WatchRequest>(&request)) {
    check_path(watch->path);
  } else if (const auto* redirect = std::get_if<server::V2Redirect>(&request)) {
    // Where it points must be clean, or clients would go round in circles.
    RALLY_CHECK(!std::holds_alternative<server::V2Redirect>(
        server::parse_v2_request(method, redirect->location, content_type, rest)));
  }
  return 0;
}
