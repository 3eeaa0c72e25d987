#include "server/api/v2_json.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <initializer_list>

namespace rallypoint::server {
namespace {

struct ErrorKind {
  int code;
  int status;
  std::string_view message;
};

/// Etcd's table of v2 errors (contract, section C).
constexpr std::array kErrorKinds = {
    ErrorKind{100, 404, "Key not found"},
    ErrorKind{101, 412, "Compare failed"},
    ErrorKind{102, 403, "Not a file"},
    ErrorKind{104, 400, "Not a directory"},
    ErrorKind{105, 412, "Key already exists"},
    ErrorKind{107, 400, "Root is read only"},
    ErrorKind{108, 403, "Directory not empty"},
    ErrorKind{110, 401, "The request requires user authentication"},
    ErrorKind{201, 400, "PrevValue is Required in POST form"},
    ErrorKind{202, 400, "The given TTL in POST form is not a number"},
    ErrorKind{203, 400, "The given index in POST form is not a number"},
    ErrorKind{209, 400, "Invalid field"},
    ErrorKind{210, 400, "Invalid POST form"},
    ErrorKind{211, 400, "Value provided on refresh"},
    ErrorKind{212, 400, "A TTL must be provided on refresh"},
    ErrorKind{300, 500, "Raft Internal Error"},
    ErrorKind{301, 500, "During Leader Election"},
    ErrorKind{400, 400, "watcher is cleared due to etcd recovery"},
    ErrorKind{401, 400, "The event in requested index is outdated and cleared"},
};

const ErrorKind* find_kind(int code) {
  for (const ErrorKind& kind : kErrorKinds) {
    if (kind.code == code) return &kind;
  }
  return nullptr;
}

void append_number(std::string& out, uint64_t number) {
  char digits[20];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

/// `number` in exactly `width` digits.
void append_padded(std::string& out, uint64_t number, int width) {
  const size_t begin = out.size();
  out.append(static_cast<size_t>(width), '0');
  for (size_t at = begin + static_cast<size_t>(width); at > begin; number /= 10) {
    out[--at] = static_cast<char>('0' + number % 10);
  }
}

/// RFC 3339 in UTC, with as many digits of the fraction as are needed (Go's RFC3339Nano).
void append_time(std::string& out, int64_t unix_ns) {
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  constexpr int64_t kSecondsPerDay = 86'400;
  int64_t seconds = unix_ns / kNsPerSecond;
  int64_t fraction = unix_ns % kNsPerSecond;
  if (fraction < 0) seconds -= 1, fraction += kNsPerSecond;
  int64_t days = seconds / kSecondsPerDay;
  int64_t of_day = seconds % kSecondsPerDay;
  if (of_day < 0) days -= 1, of_day += kSecondsPerDay;

  // The proleptic Gregorian calendar in eras of 400 years that begin on 1 March, so that leap days come last.
  const int64_t from_era_zero = days + 719'468;
  const int64_t era = (from_era_zero >= 0 ? from_era_zero : from_era_zero - 146'096) / 146'097;
  const int64_t day_of_era = from_era_zero - era * 146'097;
  const int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36'524 - day_of_era / 146'096) / 365;
  const int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t month_from_march = (5 * day_of_year + 2) / 153;
  const int64_t day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
  const int64_t month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
  const int64_t year = year_of_era + era * 400 + (month <= 2 ? 1 : 0);

  append_padded(out, static_cast<uint64_t>(year), 4);
  out += '-';
  append_padded(out, static_cast<uint64_t>(month), 2);
  out += '-';
  append_padded(out, static_cast<uint64_t>(day), 2);
  out += 'T';
  append_padded(out, static_cast<uint64_t>(of_day / 3600), 2);
  out += ':';
  append_padded(out, static_cast<uint64_t>(of_day / 60 % 60), 2);
  out += ':';
  append_padded(out, static_cast<uint64_t>(of_day % 60), 2);
  if (fraction != 0) {
    out += '.';
    append_padded(out, static_cast<uint64_t>(fraction), 9);
    while (out.back() == '0') out.pop_back();
  }
  out += 'Z';
}

/// Length of the well-formed UTF-8 sequence at the front (RFC 3629: no overlongs, no surrogates), 0 = malformed.
size_t utf8_length(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const auto continues = [&](size_t i) { return i < text.size() && (at(i) & 0xc0) == 0x80; };
  const uint8_t lead = at(0);
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4 || !continues(1)) return 0;
  if (lead < 0xe0) return 2;
  if (lead < 0xf0) {
    if ((lead == 0xe0 && at(1) < 0xa0) || (lead == 0xed && at(1) > 0x9f)) return 0;
    return continues(2) ? 3 : 0;
  }
  if ((lead == 0xf0 && at(1) < 0x90) || (lead == 0xf4 && at(1) > 0x8f)) return 0;
  return continues(2) && continues(3) ? 4 : 0;
}

constexpr bool is_plain(uint8_t c) {
  return c >= 0x20 && c < 0x80 && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&';
}

constexpr auto kPlain = [] {
  std::array<bool, 256> table{};
  for (size_t c = 0; c < table.size(); ++c) table[c] = is_plain(static_cast<uint8_t>(c));
  return table;
}();

/// How many bytes at the front stand for themselves. Eight at a time: for each byte of `word`, the top bit of
/// `special` says that it is below 0x20, above 0x7f, or one of the five that are escaped (a byte above a special one
/// may be flagged too, which only ends the run of eight).
size_t plain_run(std::string_view text) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  constexpr uint64_t kTops = 0x8080808080808080;
  const auto has_zero = [](uint64_t word) { return (word - kOnes) & ~word; };
  size_t run = 0;
  for (; run + 8 <= text.size(); run += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + run, sizeof word);
    uint64_t special = word | ((word - kOnes * 0x20) & ~word);
    for (const char c : {'"', '\\', '<', '>', '&'}) special |= has_zero(word ^ (kOnes * static_cast<uint64_t>(c)));
    if (special & kTops) break;
  }
  while (run < text.size() && kPlain[static_cast<uint8_t>(text[run])]) ++run;
  return run;
}

void append_escaped(std::string& out, uint8_t c) {
  switch (c) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    default: break;
  }
  constexpr char kHex[] = "0123456789abcdef";
  out += "\\u00";
  out += kHex[c >> 4];
  out += kHex[c & 15];
}

void append_node(std::string& out, const v2::NodeView& node) {
  // Fields that are zero or empty are left out; a file's value is there even when it is empty.
  out += '{';
  const auto name = [&out](std::string_view field) {
    if (out.back() != '{') out += ',';
    out.append(field);
  };
  if (!node.key.empty()) name("\"key\":"), append_json_string(out, node.key);
  if (node.value) name("\"value\":"), append_json_string(out, node.value->view());
  if (node.dir) name("\"dir\":true");
  if (node.expiration_unix_ns != 0) {
    name("\"expiration\":\"");
    append_time(out, node.expiration_unix_ns);
    out += '"';
  }
  if (node.ttl_s != 0) name("\"ttl\":"), append_number(out, static_cast<uint64_t>(node.ttl_s));
  if (!node.nodes.empty()) {
    name("\"nodes\":[");
    for (size_t i = 0; i < node.nodes.size(); ++i) {
      if (i != 0) out += ',';
      append_node(out, node.nodes[i]);
    }
    out += ']';
  }
  if (node.modified_index != 0) name("\"modifiedIndex\":"), append_number(out, node.modified_index);
  if (node.created_index != 0) name("\"createdIndex\":"), append_number(out, node.created_index);
  out += '}';
}

size_t size_hint(const v2::NodeView& node) {
  size_t size = 160 + node.key.size() + (node.value ? node.value->size() : 0);
  for (const v2::NodeView& child : node.nodes) size += size_hint(child);
  return size;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const size_t run = plain_run(text);
    out.append(text.substr(0, run));
    text.remove_prefix(run);
    if (text.empty()) break;

    const auto c = static_cast<uint8_t>(text[0]);
    const size_t length = utf8_length(text);
    if (length == 1) {
      append_escaped(out, c);
    } else if (length == 0) {
      out += "\\ufffd";
    } else if (text.starts_with("\xe2\x80\xa8")) {
      out += "\\u2028";
    } else if (text.starts_with("\xe2\x80\xa9")) {
      out += "\\u2029";
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
}

std::string encode_event(const v2::Event& event) {
  std::string out;
  out.reserve(64 + size_hint(event.node) + (event.prev_node ? size_hint(*event.prev_node) : 0));
  out.append("{\"action\":\"").append(v2::action_name(event.action)).append("\",\"node\":");
  append_node(out, event.node);
  if (event.prev_node) {
    out += ",\"prevNode\":";
    append_node(out, *event.prev_node);
  }
  out += "}\n";
  return out;
}

std::string encode_write_answer(const v2::Event& event) {
  // Etcd ignores the wish for deletes.
  const bool removes = event.action == v2::Action::kDelete || event.action == v2::Action::kCompareAndDelete;
  if (!event.no_value_on_success || removes) return encode_event(event);
  return std::string("{\"action\":\"").append(v2::action_name(event.action)).append("\"}\n");
}

std::string encode_error(const v2::Error& error) {
  std::string out = "{\"errorCode\":" + std::to_string(error.code) + ",\"message\":";
  append_json_string(out, v2_error_message(error.code));
  if (!error.cause.empty()) {
    out += ",\"cause\":";
    append_json_string(out, error.cause);
  }
  out += ",\"index\":";
  append_number(out, error.index);
  out += "}\n";
  return out;
}

int http_status(const v2::Event& event) { return event.is_created() ? 201 : 200; }

int http_status(const v2::Error& error) {
  const ErrorKind* kind = find_kind(error.code);
  return kind ? kind->status : 400;
}

std::string_view v2_error_message(int code) {
  const ErrorKind* kind = find_kind(code);
  return kind ? kind->message : std::string_view();
}

}  // namespace rallypoint::server
