#include "server/options.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <csignal>
#include <map>

#include "server/options_table.h"

namespace rallypoint::server {
namespace {

using Values = std::map<std::string, std::string, std::less<>>;  // option -> text, from wherever it came

/// Thrown nowhere: collects the first mistake.
struct Mistake {
  std::string text;
  void set(std::string message) {
    if (text.empty()) text = std::move(message);
  }
};

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

/// "; did you mean --data-dir?" or nothing.
std::string suggestion(std::string_view unknown) {
  std::vector<std::pair<size_t, std::string_view>> near;
  for (const OptionRow& row : option_table()) {
    const size_t distance = edit_distance(unknown, row.name);
    if (distance <= 2 + unknown.size() / 5 || (unknown.size() >= 4 && row.name.find(unknown) != std::string_view::npos))
      near.emplace_back(distance, row.name);
  }
  std::sort(near.begin(), near.end());
  std::string out;
  for (size_t i = 0; i < std::min<size_t>(near.size(), 3); ++i) {
    out += (i == 0 ? "; did you mean --" : " or --");
    out += near[i].second;
  }
  return out + (out.empty() ? "" : "?");
}

/// Go accepts one dash or two; CLI11 takes one for short names.
std::vector<std::string> double_dashes(const std::vector<std::string>& args) {
  std::vector<std::string> out;
  for (const std::string& arg : args) {
    const bool single = arg.size() > 2 && arg[0] == '-' && arg[1] != '-' && std::isalpha(static_cast<unsigned char>(arg[1]));
    out.push_back(single ? '-' + arg : arg);
  }
  return out;
}

std::string env_name(std::string_view prefix, std::string_view option) {
  std::string name(prefix);
  for (const char c : option) name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

void read_environment(const std::vector<std::string>& environment, Values& values, Options& options,
                      std::vector<std::string>& warnings) {
  // RALLYPOINT_* is the more specific one and wins of ETCD_*; both lose against the command line.
  for (const std::string_view prefix : {"RALLYPOINT_", "ETCD_"}) {
    for (const std::string& entry : environment) {
      const size_t equals = entry.find('=');
      if (equals == std::string::npos || !entry.starts_with(prefix)) continue;
      const std::string name = entry.substr(0, equals), value = entry.substr(equals + 1);
      if (name == "RALLYPOINT_EXIT_WITH_PARENT") {
        options.exit_with_parent = value == "1" || value == "true";
        continue;
      }
      const auto& table = option_table();
      const auto row = std::find_if(table.begin(), table.end(),
                                    [&](const OptionRow& candidate) { return env_name(prefix, candidate.name) == name; });
      if (row == table.end()) {
        warnings.push_back("the environment variable " + name + " names no option and is ignored");
      } else if (!value.empty()) {
        values.emplace(row->name, value);  // keeps what is there
      }
    }
  }
}

// ---- texts to values: each message names the option, the value, what is allowed ------------------------------

void take_number(const Values& values, const char* name, uint64_t low, uint64_t high, uint64_t& out, Mistake& mistake) {
  const auto found = values.find(name);
  if (found == values.end()) return;
  const std::string& text = found->second;
  uint64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || stop != text.data() + text.size() || number < low || number > high)
    return mistake.set("--" + std::string(name) + ": \"" + text + "\" is not a whole number from " + std::to_string(low) +
                       " to " + std::to_string(high));
  out = number;
}

/// A time as Go writes it: numbers with units, e.g. 5s, 100ms, 1m30s, 1h.
void take_millis(const Values& values, const char* name, uint64_t low, uint64_t& out, Mistake& mistake) {
  const auto found = values.find(name);
  if (found == values.end()) return;
  const std::string& text = found->second;
  uint64_t total = 0;
  bool good = !text.empty();
  for (size_t at = 0; good && at < text.size();) {
    uint64_t number = 0;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
    good = error == std::errc() && number <= 1'000'000'000;
    at = static_cast<size_t>(stop - text.data());
    const size_t unit_end = std::min(text.find_first_of("0123456789", at), text.size());
    const std::string_view unit = std::string_view(text).substr(at, unit_end - at);
    at = unit_end;
    if (unit == "ms") total += number;
    else if (unit == "s") total += number * 1000;
    else if (unit == "m") total += number * 60'000;
    else if (unit == "h") total += number * 3'600'000;
    else good = false;
  }
  if (!good || total < low)
    return mistake.set("--" + std::string(name) + ": \"" + text + "\" is not a time " +
                       (low == 0 ? std::string() : "of at least " + std::to_string(low) + "ms ") + "such as 5s, 100ms or 1m30s");
  out = total;
}

/// etcd's two options: what is counted, and how much of it is kept.
void take_auto_compaction(Values values, AutoCompaction& out, Mistake& mistake) {
  const char* const kRetention = "auto-compaction-retention";
  std::string mode = "periodic";
  if (const auto found = values.find("auto-compaction-mode"); found != values.end()) mode = found->second;
  if (mode != "periodic" && mode != "revision") return mistake.set("--auto-compaction-mode: \"" + mode + "\" is not one of periodic, revision");
  const auto found = values.find(kRetention);
  if (found == values.end() || found->second == "0") return;
  uint64_t amount = 0;
  if (mode == "revision") {
    take_number(values, kRetention, 1, INT64_MAX, amount, mistake);
    out = {AutoCompaction::Mode::kRevisions, static_cast<int64_t>(amount), {}};
    return;
  }
  if (found->second.find_first_not_of("0123456789") == std::string::npos) found->second += "h";
  take_millis(values, kRetention, 1000, amount, mistake);
  out = {AutoCompaction::Mode::kTime, 0, Duration::millis(static_cast<int64_t>(amount))};
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t at = text.find(separator);
    std::string_view part = text.substr(0, at);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    if (!part.empty()) parts.emplace_back(part);
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

void take_urls(const Values& values, const char* name, std::vector<Url>& out, Mistake& mistake) {
  const auto found = values.find(name);
  if (found == values.end()) return;
  std::vector<Url> urls;
  for (const std::string& text : split(found->second, ',')) {
    auto url = Url::parse(text);
    if (!url.is_ok()) return mistake.set("--" + std::string(name) + ": " + url.status().message());
    urls.push_back(std::move(url).value());
  }
  if (urls.empty())
    return mistake.set("--" + std::string(name) + ": no URL given; write e.g. --" + name + "=http://127.0.0.1:2379");
  out = std::move(urls);
}

void take_initial_cluster(const Values& values, std::vector<InitialMember>& out, Mistake& mistake) {
  const auto found = values.find("initial-cluster");
  if (found == values.end()) return;
  const std::string example = "; write e.g. --initial-cluster=n1=http://10.0.0.1:2380,n2=http://10.0.0.2:2380";
  for (const std::string& part : split(found->second, ',')) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos || equals == 0)
      return mistake.set("--initial-cluster: \"" + part + "\" is not name=URL" + example);
    auto url = Url::parse(std::string_view(part).substr(equals + 1));
    if (!url.is_ok()) return mistake.set("--initial-cluster: member " + part.substr(0, equals) + ": " + url.status().message());
    const std::string name = part.substr(0, equals);
    const auto member = std::find_if(out.begin(), out.end(), [&](const InitialMember& m) { return m.name == name; });
    if (member != out.end()) {
      member->peer_urls.push_back(std::move(url).value());  // a member with several URLs stands several times
    } else {
      out.push_back({name, {std::move(url).value()}});
    }
  }
  if (out.empty()) return mistake.set("--initial-cluster: it names no member" + example);
  std::vector<std::string> seen;
  for (const InitialMember& member : out)
    for (const Url& url : member.peer_urls) seen.push_back(url.to_string());
  std::sort(seen.begin(), seen.end());
  if (const auto twice = std::adjacent_find(seen.begin(), seen.end()); twice != seen.end())
    mistake.set("--initial-cluster: the URL " + *twice + " stands there twice; each member needs its own");
}

std::vector<Url> sorted(std::vector<Url> urls) {
  std::sort(urls.begin(), urls.end(), [](const Url& a, const Url& b) { return a.to_string() < b.to_string(); });
  return urls;
}

std::string join(const std::vector<Url>& urls) {
  std::string out;
  for (const Url& url : urls) out += (out.empty() ? "" : ",") + url.to_string();
  return out;
}

/// What the options say together.
void complete(const Values& values, Options& options, Mistake& mistake, std::vector<std::string>& warnings) {
  if (options.data_dir.empty()) options.data_dir = "./" + options.name + ".rallypoint";
  if (options.advertise_client_urls.empty()) options.advertise_client_urls = options.listen_client_urls;
  for (const Url& url : options.advertise_client_urls)
    if (url.host == "0.0.0.0" || url.host == "::")
      warnings.push_back("clients are told to use " + url.to_string() +
                         ", which leads nowhere from another machine; set --advertise-client-urls");

  const auto own = std::find_if(options.initial_cluster.begin(), options.initial_cluster.end(),
                                [&](const InitialMember& member) { return member.name == options.name; });
  if (options.initial_cluster.empty()) {
    if (options.initial_advertise_peer_urls.empty()) options.initial_advertise_peer_urls = options.listen_peer_urls;
    options.initial_cluster.push_back({options.name, options.initial_advertise_peer_urls});
  } else if (own == options.initial_cluster.end()) {
    return mistake.set("--initial-cluster: no member is named \"" + options.name + "\", which is this node's --name; add " +
                       options.name + "=" + join(options.listen_peer_urls) + ", or set --name to one of its members");
  } else if (options.initial_advertise_peer_urls.empty()) {
    options.initial_advertise_peer_urls = own->peer_urls;
  } else if (sorted(options.initial_advertise_peer_urls) != sorted(own->peer_urls)) {
    return mistake.set("--initial-cluster gives member \"" + options.name + "\" the URLs " + join(own->peer_urls) +
                       ", but --initial-advertise-peer-urls is " + join(options.initial_advertise_peer_urls) +
                       "; make them equal");
  }
  if (options.election_timeout_ms < 5 * options.heartbeat_interval_ms)
    mistake.set("--election-timeout: " + std::to_string(options.election_timeout_ms) +
                " ms is less than 5 times --heartbeat-interval (" + std::to_string(options.heartbeat_interval_ms) +
                " ms); raise it or lower the heartbeat interval");
  if (const auto state = values.find("initial-cluster-state"); state != values.end()) {
    if (state->second != "new" && state->second != "existing")
      mistake.set("--initial-cluster-state: \"" + state->second + "\" is not one of new, existing");
    options.initial_cluster_is_new = state->second == "new";
  }
}

void interpret(const Values& values, Options& options, Mistake& mistake, std::vector<std::string>& warnings) {
  const auto take_text = [&](const char* name, std::string& out) {
    const auto found = values.find(name);
    if (found == values.end()) return;
    if (found->second.empty()) return mistake.set("--" + std::string(name) + ": the value is empty");
    out = found->second;
  };
  for (const OptionRow& row : option_table()) {
    const auto found = values.find(row.name);
    if (found == values.end()) continue;
    if (row.kind == OptionRow::Kind::kIgnored)
      warnings.push_back("--" + std::string(row.name) + " is known from etcd but has no effect here");
    // Silence about security would be a lie: such an option ends the start, unless it asks for nothing.
    if (row.kind == OptionRow::Kind::kRefused && found->second != "false" && !found->second.empty())
      mistake.set("--" + std::string(row.name) + ": " + std::string(row.help) + "; remove the option");
  }
  take_text("name", options.name);
  take_text("data-dir", options.data_dir);
  take_text("initial-cluster-token", options.initial_cluster_token);
  take_text("log-level", options.log_level);
  if (options.log_level == "warning") options.log_level = "warn";
  if (options.log_level == "panic" || options.log_level == "fatal" || options.log_level == "dpanic") options.log_level = "error";
  const std::vector<std::string> levels = {"debug", "info", "warn", "error"};
  if (std::find(levels.begin(), levels.end(), options.log_level) == levels.end())
    mistake.set("--log-level: \"" + options.log_level + "\" is not one of debug, info, warn, error");
  if (const auto found = values.find("log-outputs"); found != values.end()) {
    options.log_outputs = split(found->second, ',');
    if (options.log_outputs.empty())
      mistake.set("--log-outputs: nothing given; write stderr, stdout or a file's path, several with commas");
  }
  uint64_t heartbeat = options.heartbeat_interval_ms, election = options.election_timeout_ms;
  take_number(values, "heartbeat-interval", 1, 60'000, heartbeat, mistake);
  take_number(values, "election-timeout", 5, 50'000, election, mistake);
  options.heartbeat_interval_ms = static_cast<uint32_t>(heartbeat);
  options.election_timeout_ms = static_cast<uint32_t>(election);
  take_number(values, "snapshot-count", 1, UINT64_MAX, options.snapshot_count, mistake);
  take_number(values, "max-request-bytes", 1024, 1ull << 30, options.max_request_bytes, mistake);
  take_number(values, "quota-backend-bytes", 0, INT64_MAX, options.quota_backend_bytes, mistake);
  if (options.quota_backend_bytes == 0) options.quota_backend_bytes = Options().quota_backend_bytes;
  take_number(values, "max-txn-ops", 1, 100'000, options.max_txn_ops, mistake);
  take_millis(values, "experimental-watch-progress-notify-interval", 100, options.watch_progress_notify_ms, mistake);
  take_millis(values, "watch-progress-notify-interval", 100, options.watch_progress_notify_ms, mistake);
  take_number(values, "max-client-connections", 1, 1'000'000, options.max_client_connections, mistake);
  take_number(values, "max-concurrent-streams", 1, UINT32_MAX, options.max_concurrent_streams, mistake);
  take_millis(values, "grpc-keepalive-interval", 0, options.grpc_keepalive_interval_ms, mistake);
  take_millis(values, "grpc-keepalive-timeout", 1, options.grpc_keepalive_timeout_ms, mistake);
  take_auto_compaction(values, options.auto_compaction, mistake);
  take_urls(values, "listen-metrics-urls", options.listen_metrics_urls, mistake);
  take_urls(values, "listen-client-urls", options.listen_client_urls, mistake);
  take_urls(values, "listen-peer-urls", options.listen_peer_urls, mistake);
  take_urls(values, "advertise-client-urls", options.advertise_client_urls, mistake);
  take_urls(values, "initial-advertise-peer-urls", options.initial_advertise_peer_urls, mistake);
  take_initial_cluster(values, options.initial_cluster, mistake);
  if (mistake.text.empty()) complete(values, options, mistake, warnings);
}

ParsedOptions fail(std::string message) {
  ParsedOptions parsed;
  parsed.exit_code = 2;
  parsed.error = "rallypoint: " + std::move(message) + "\nTry --help.\n";
  return parsed;
}

}  // namespace

ParsedOptions parse_options(const std::vector<std::string>& args, const std::vector<std::string>& environment) {
  CLI::App app{std::string(help_intro()), "rallypoint"};
  app.set_help_flag();  // ours below, so that nothing is printed from inside
  app.allow_extras();
  app.footer(std::string(help_examples()));
  app.get_formatter()->column_width(44);
  bool help = false, version = false;
  app.add_flag("-h,--help", help, "Print this and exit.")->group("About");
  app.add_flag("--version", version, "Print the version and exit.")->group("About");

  Values values;
  for (const OptionRow& row : option_table()) {
    const std::string name = "--" + std::string(row.name);
    const bool hidden = row.kind == OptionRow::Kind::kIgnored || row.kind == OptionRow::Kind::kRefused;
    CLI::Option* option = nullptr;
    if (row.is_flag) {
      option = app.add_flag_function(
          name, [&values, &row](int64_t count) { values[std::string(row.name)] = count > 0 ? "true" : "false"; },
          std::string(row.help));
    } else {
      option = app.add_option_function<std::string>(
          name, [&values, &row](const std::string& text) { values[std::string(row.name)] = text; }, std::string(row.help));
      option->type_name(std::string(row.value_name))->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
    option->group(hidden ? "" : std::string(row.group));
  }

  try {
    std::vector<std::string> reversed = double_dashes(args);
    std::reverse(reversed.begin(), reversed.end());  // how CLI11 takes them
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return fail(error.what());
  }
  ParsedOptions parsed;
  if (help) {
    parsed.out = app.help();
    return parsed;
  }
  if (version) {
    parsed.out = "etcd Version: " + std::string(kEtcdVersion) + "\nrallypoint Version: " + kRallypointVersion + "\n";
    return parsed;
  }
  for (const std::string& extra : app.remaining()) {
    if (!extra.starts_with('-')) return fail("\"" + extra + "\" is not an option; values are given as --option=value");
    const std::string name = extra.substr(extra.find_first_not_of('-'), extra.find('=') - extra.find_first_not_of('-'));
    return fail("unknown option --" + name + suggestion(name));
  }

  Options options;
  options.listen_client_urls = {{"http", "127.0.0.1", 2379}};
  options.listen_peer_urls = {{"http", "localhost", 2380}};
  Mistake mistake;
  read_environment(environment, values, options, parsed.warnings);
  interpret(values, options, mistake, parsed.warnings);
  if (!mistake.text.empty()) return fail(std::move(mistake.text));
  parsed.options = std::move(options);
  return parsed;
}

ParsedOptions parse_options(int argc, char** argv) {
  std::vector<std::string> environment;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) environment.emplace_back(*entry);
  return parse_options(std::vector<std::string>(argv + std::min(argc, 1), argv + argc), environment);
}

Status end_with_parent() {
  const pid_t parent = ::getppid();
  if (::prctl(PR_SET_PDEATHSIG, SIGTERM) != 0)
    return Status::internal("RALLYPOINT_EXIT_WITH_PARENT: the kernel refuses to watch the parent process");
  // It may have ended between our start and the call; then somebody else has adopted us.
  if (parent == 1 || ::getppid() != parent)
    return Status::failed_precondition("RALLYPOINT_EXIT_WITH_PARENT: the parent process has ended already");
  return Status::ok();
}

}  // namespace rallypoint::server
