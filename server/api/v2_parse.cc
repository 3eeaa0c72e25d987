// Two layers: what any HTTP server of etcd's kind does with a target and a form (first half), and what the v2 keys
// API makes of the parameters (second half). Both in etcd's order, as the first error is the one that is answered.
#include "server/api/v2_parse.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace rallypoint::server {
namespace {

constexpr std::string_view kKeysPrefix = "/v2/keys";

// ---- percent escapes ---------------------------------------------------------------------------------------------

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Decodes percent escapes and, in forms and queries, '+' as a blank. On a bad escape returns it (at most three
/// bytes) and `out` is not to be used; "" = fine.
std::string_view unescape(std::string_view text, bool plus_is_blank, std::string& out) {
  out.clear();
  out.reserve(text.size());
  while (!text.empty()) {
    // Most of a text is neither; it is copied in runs.
    size_t run = 0;
    while (run < text.size() && text[run] != '%' && text[run] != '+') ++run;
    out.append(text.substr(0, run));
    text.remove_prefix(run);
    if (text.empty()) break;
    if (text[0] == '+') {
      out += plus_is_blank ? ' ' : '+';
      text.remove_prefix(1);
      continue;
    }
    const int high = text.size() > 2 ? hex_value(text[1]) : -1;
    const int low = text.size() > 2 ? hex_value(text[2]) : -1;
    if (high < 0 || low < 0) return text.substr(0, 3);
    out += static_cast<char>(high * 16 + low);
    text.remove_prefix(3);
  }
  return {};
}

void append_escape(std::string& out, char c, const char* digits) {
  const auto byte = static_cast<uint8_t>(c);
  out += '%';
  out += digits[byte >> 4];
  out += digits[byte & 15];
}

/// Escapes what may not stand in a path.
std::string escape_path(std::string_view path) {
  constexpr std::string_view kUnescaped = "-_.~$&+,/:;=@";
  std::string out;
  out.reserve(path.size());
  for (char c : path) {
    const bool letter = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (letter || kUnescaped.find(c) != std::string_view::npos) {
      out += c;
    } else {
      append_escape(out, c, "0123456789ABCDEF");
    }
  }
  return out;
}

// ---- the target --------------------------------------------------------------------------------------------------

struct Target {
  std::string path;        ///< decoded
  std::string_view query;  ///< raw, without '?'
};

/// nullopt = malformed.
std::optional<Target> split_target(std::string_view target) {
  for (char c : target) {
    if (static_cast<uint8_t>(c) <= 0x20 || c == 0x7f) return std::nullopt;
  }
  // The absolute form that a client sends to a proxy.
  if (target.starts_with("http://") || target.starts_with("https://")) {
    const size_t authority = target.find("//") + 2;
    const size_t path = target.find_first_of("/?", authority);
    target.remove_prefix(std::min(path, target.size()));
  }
  Target result;
  const size_t mark = target.find('?');
  if (mark != std::string_view::npos) result.query = target.substr(mark + 1);
  const std::string_view path = target.substr(0, mark);
  if (!path.starts_with('/') || !unescape(path, false, result.path).empty()) return std::nullopt;
  return result;
}

/// Without empty, "." and ".." components; a trailing slash stays.
std::string clean_path(std::string_view path) {
  std::string clean;
  clean.reserve(path.size());
  for (size_t begin = 1; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view component = path.substr(begin, end - begin);
    if (component == "..") {
      clean.resize(clean.empty() ? 0 : clean.rfind('/'));
    } else if (!component.empty() && component != ".") {
      clean.append("/").append(component);
    }
    begin = end + 1;
  }
  if (clean.empty() || path.ends_with('/')) clean += '/';
  return clean;
}

bool is_below_keys(std::string_view path) {
  return path.starts_with(kKeysPrefix) && (path.size() == kKeysPrefix.size() || path[kKeysPrefix.size()] == '/');
}

std::string redirect_location(std::string_view clean, std::string_view query) {
  std::string location = escape_path(clean);
  if (!query.empty()) location += '?';
  for (char c : query) {
    if (static_cast<uint8_t>(c) < 0x80) {
      location += c;
    } else {
      append_escape(location, c, "0123456789abcdef");
    }
  }
  return location;
}

// ---- the form ----------------------------------------------------------------------------------------------------

enum Field : size_t {
  kPrevIndex, kWaitIndex, kRecursive, kSorted, kWait, kDir, kQuorum, kStream, kPrevValue, kNoValueOnSuccess, kTtl,
  kPrevExist, kRefresh, kValue, kFieldCount,
};
constexpr std::array<std::string_view, kFieldCount> kFieldNames = {
    "prevIndex", "waitIndex", "recursive", "sorted", "wait", "dir", "quorum", "stream", "prevValue",
    "noValueOnSuccess", "ttl", "prevExist", "refresh", "value"};

/// The first value of each parameter that the API knows; body before query.
struct Form {
  std::array<std::optional<std::string>, kFieldCount> fields;
  std::string error;  ///< the first thing that was wrong with it; "" = nothing

  void fail(std::string what) {
    if (error.empty()) error = std::move(what);
  }
};

/// In quotes and printable, for the cause of an error.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<uint8_t>(c) >= 0x20 && static_cast<uint8_t>(c) < 0x7f) {
      out += c;
    } else {
      constexpr char kHex[] = "0123456789abcdef";
      out.append("\\x").append(1, kHex[static_cast<uint8_t>(c) >> 4]).append(1, kHex[c & 15]);
    }
  }
  return out + '"';
}

void add_pairs(std::string_view encoded, Form& form) {
  std::string name, value;
  while (!encoded.empty()) {
    const size_t end = std::min(encoded.find('&'), encoded.size());
    const std::string_view pair = encoded.substr(0, end);
    encoded.remove_prefix(std::min(end + 1, encoded.size()));
    if (pair.empty()) continue;
    if (pair.find(';') != std::string_view::npos) {
      form.fail("invalid semicolon separator in query");
      continue;
    }
    const size_t equals = std::min(pair.find('='), pair.size());
    std::string_view bad = unescape(pair.substr(0, equals), true, name);
    if (bad.empty()) bad = unescape(pair.substr(std::min(equals + 1, pair.size())), true, value);
    if (!bad.empty()) {
      form.fail("invalid URL escape " + quoted(bad));
      continue;
    }
    const auto known = std::find(kFieldNames.begin(), kFieldNames.end(), name);
    if (known == kFieldNames.end()) continue;
    auto& field = form.fields[static_cast<size_t>(known - kFieldNames.begin())];
    if (!field) field = std::move(value);
  }
}

/// The token (RFC 9110 5.6.2) at the front of `text`, perhaps empty.
std::string_view token_of(std::string_view text) {
  constexpr std::string_view kSeparators = "()<>@,;:\\\"/[]?={}";
  const auto end = std::find_if(text.begin(), text.end(), [&](char c) {
    return c <= 0x20 || c >= 0x7f || kSeparators.find(c) != std::string_view::npos;
  });
  return text.substr(0, static_cast<size_t>(end - text.begin()));
}

bool is_token(std::string_view text) { return !text.empty() && token_of(text) == text; }

/// What is wrong with a media type without its parameters; "" = nothing.
std::string_view media_type_error(std::string_view type) {
  const std::string_view main_type = token_of(type);
  if (main_type.empty()) return "mime: no media type";
  if (main_type == type) return "";
  if (type[main_type.size()] != '/') return "mime: expected slash after first token";
  const std::string_view rest = type.substr(main_type.size() + 1);
  const std::string_view subtype = token_of(rest);
  if (subtype.empty()) return "mime: expected token after slash";
  return subtype == rest ? "" : "mime: unexpected content after media subtype";
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Whether the header names the form type; complains about a malformed one (RFC 9110 8.3.1).
bool is_form_type(std::string_view content_type, Form& form) {
  const size_t semicolon = std::min(content_type.find(';'), content_type.size());
  const std::string_view type = trimmed(content_type.substr(0, semicolon));
  if (const std::string_view error = media_type_error(type); !error.empty()) form.fail(std::string(error));
  std::string_view parameters = content_type.substr(semicolon);
  while (!parameters.empty()) {
    parameters.remove_prefix(1);
    const size_t end = std::min(parameters.find(';'), parameters.size());
    const std::string_view parameter = trimmed(parameters.substr(0, end));
    parameters.remove_prefix(end);
    if (parameter.empty() && parameters.empty()) break;
    const size_t equals = std::min(parameter.find('='), parameter.size());
    const std::string_view value = trimmed(parameter.substr(std::min(equals + 1, parameter.size())));
    const bool is_quoted = value.size() >= 2 && value.front() == '"' && value.back() == '"';
    if (!is_token(trimmed(parameter.substr(0, equals))) || !(is_quoted || is_token(value))) {
      form.fail("mime: invalid media parameter");
    }
  }
  constexpr std::string_view kFormType = "application/x-www-form-urlencoded";
  return std::equal(type.begin(), type.end(), kFormType.begin(), kFormType.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b;
  });
}

Form read_form(std::string_view method, std::string_view query, std::string_view content_type,
               std::string_view body) {
  Form form;
  // A body counts for these methods only, and without a content type it is opaque bytes.
  if ((method == "PUT" || method == "POST") && !content_type.empty() && is_form_type(content_type, form)) {
    add_pairs(body, form);
  }
  add_pairs(query, form);
  return form;
}

// ---- the parameters ----------------------------------------------------------------------------------------------

/// Takes typed parameters from a form and keeps the first error.
class Parameters {
 public:
  explicit Parameters(Form& form) : form_(form) {}

  [[nodiscard]] const std::optional<v2::Error>& error() const { return error_; }
  [[nodiscard]] bool has(Field field) const { return form_.fields[field].has_value(); }
  std::string take(Field field) { return std::move(form_.fields[field]).value_or(std::string()); }

  /// 0 when absent; without sign, without overflow.
  uint64_t number(Field field, int error_code) {
    if (!has(field)) return 0;
    const std::string& text = *form_.fields[field];
    uint64_t value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || failure != std::errc() || end != text.data() + text.size()) refuse(error_code, field, true);
    return value;
  }
  /// false when absent.
  bool boolean(Field field, bool quote_name = true) {
    constexpr std::array<std::string_view, 6> kTrue = {"1", "t", "T", "TRUE", "true", "True"};
    constexpr std::array<std::string_view, 6> kFalse = {"0", "f", "F", "FALSE", "false", "False"};
    if (!has(field)) return false;
    const std::string& text = *form_.fields[field];
    if (std::find(kTrue.begin(), kTrue.end(), text) != kTrue.end()) return true;
    if (std::find(kFalse.begin(), kFalse.end(), text) == kFalse.end()) refuse(209, field, quote_name);
    return false;
  }
  void fail(int code, std::string cause) {
    if (!error_) error_ = v2::Error{code, std::move(cause), 0};
  }

 private:
  void refuse(int code, Field field, bool quote_name) {
    const std::string name(kFieldNames[field]);
    fail(code, "invalid value for " + (quote_name ? '"' + name + '"' : name));
  }

  Form& form_;
  std::optional<v2::Error> error_;
};

V2Request to_request(std::string_view method, std::string path, Form form) {
  if (!form.error.empty()) return v2::Error{210, std::move(form.error), 0};
  const bool reads = method == "GET" || method == "HEAD";
  Parameters parameters(form);

  // In the order in which etcd looks at them; all are checked whether the method uses them or not.
  const uint64_t prev_index = parameters.number(kPrevIndex, 203);
  const uint64_t wait_index = parameters.number(kWaitIndex, 203);
  const bool recursive = parameters.boolean(kRecursive);
  const bool sorted = parameters.boolean(kSorted);
  const bool wait = parameters.boolean(kWait);
  const bool dir = parameters.boolean(kDir);
  const bool quorum = parameters.boolean(kQuorum);
  const bool stream = parameters.boolean(kStream);
  if (wait && method != "GET") parameters.fail(209, "\"wait\" can only be used with GET requests");
  std::optional<std::string> prev_value;
  if (parameters.has(kPrevValue)) {
    prev_value = parameters.take(kPrevValue);
    if (prev_value->empty()) parameters.fail(201, "\"prevValue\" cannot be empty");
  }
  const bool no_value_on_success = parameters.boolean(kNoValueOnSuccess);
  std::optional<int64_t> ttl_s;
  if (parameters.has(kTtl) && !form.fields[kTtl]->empty()) {
    constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
    ttl_s = static_cast<int64_t>(std::min(parameters.number(kTtl, 202), kMax));
  }
  std::optional<bool> prev_exist;
  if (parameters.has(kPrevExist)) prev_exist = parameters.boolean(kPrevExist, false);
  const bool refresh = parameters.boolean(kRefresh, false);
  std::string value = parameters.take(kValue);
  if (refresh) {
    if (!value.empty()) parameters.fail(211, "A value was provided on a refresh");
    if (!ttl_s) parameters.fail(212, "No TTL value set");
  }
  if (parameters.error()) return *parameters.error();

  if (wait) return v2::WatchRequest{std::move(path), recursive, stream, wait_index};
  if (reads) return V2ReadTarget{{std::move(path), recursive, sorted}, quorum || !parameters.has(kQuorum)};

  v2::WriteRequest request;
  request.path = std::move(path);
  if (method == "DELETE") {
    request.method = v2::WriteRequest::Method::kDelete;
    request.recursive = recursive;
  } else {
    request.method = method == "POST" ? v2::WriteRequest::Method::kPost : v2::WriteRequest::Method::kPut;
    request.value = Bytes(std::move(value));
    request.ttl_s = ttl_s;
    request.refresh = refresh;
    request.prev_exist = prev_exist;
    request.no_value_on_success = no_value_on_success;
  }
  request.dir = dir;
  request.prev_value = std::move(prev_value);
  request.prev_index = prev_index;
  return request;
}

}  // namespace

bool is_v2_keys_target(std::string_view target) {
  if (is_below_keys(target.substr(0, target.find('?')))) return true;
  const auto split = split_target(target);
  return split && (is_below_keys(split->path) || is_below_keys(clean_path(split->path)));
}

V2Request parse_v2_request(std::string_view method, std::string_view target, std::string_view content_type,
                           std::string_view body) {
  auto split = split_target(target);
  if (!split) return V2BadTarget{"malformed request target"};
  std::string clean = clean_path(split->path);
  if (clean != split->path) return V2Redirect{redirect_location(clean, split->query)};
  if (!is_below_keys(clean)) return V2BadTarget{"not a target of the v2 keys API"};

  constexpr std::array<std::string_view, 5> kMethods = {"HEAD", "GET", "PUT", "POST", "DELETE"};
  if (std::find(kMethods.begin(), kMethods.end(), method) == kMethods.end()) return V2MethodNotAllowed{};

  std::string key = clean.substr(kKeysPrefix.size());
  if (key.size() > 1 && key.back() == '/') key.pop_back();
  if (key.empty()) key = "/";
  return to_request(method, std::move(key), read_form(method, split->query, content_type, body));
}

}  // namespace rallypoint::server
