// Load on etcd's v3 API, the same for every server that speaks it: one work, one window, one line of figures.
// tests/bench/v3_table.py starts the servers, runs this in turn on each, and prints the table.
//
//   v3_bench WORK --endpoints host:port[,host:port] --pids 1,2,3 [--client stock|own] [--outstanding 64] ...
//
// Works: put, range, range-serializable, txn, watch, keepalive (for --seconds); fill (writes --keys keys once);
// idle-watchers (the memory that they take in the first of --pids).
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>

#include "tests/bench/v3_meter.h"
#include "tests/bench/v3_stock_client.h"
#include "tests/bench/v3_works.h"

namespace {

using namespace rallypoint::bench;  // NOLINT

[[noreturn]] void usage(const std::string& why) {
  std::fprintf(stderr, "v3_bench: %s\n"
               "usage: v3_bench put|range|range-serializable|txn|watch|keepalive|fill|idle-watchers --endpoints host:port,... --pids pid,...\n"
               "  [--connections 8] [--outstanding 64] [--seconds 3] [--warm-up 1] [--keys 10000] [--value-bytes 256]\n"
               "  [--streams 8] [--watchers 10000] [--leases 1000] [--seed 1] [--client stock]\n", why.c_str());
  std::exit(2);
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::stringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) usage("no work");
  const std::string work = argv[1];
  std::map<std::string, std::string> options = {
      {"endpoints", ""}, {"pids", ""}, {"connections", "8"}, {"outstanding", "64"}, {"seconds", "3"}, {"warm-up", "1"},
      {"keys", "10000"}, {"value-bytes", "256"}, {"streams", "8"}, {"watchers", "10000"}, {"leases", "1000"},
      {"seed", "1"}, {"client", "stock"}};
  for (int i = 2; i < argc; i += 2) {
    const std::string name = argv[i];
    if (!name.starts_with("--") || !options.contains(name.substr(2)) || i + 1 == argc) usage("what is " + name + "?");
    options[name.substr(2)] = argv[i + 1];
  }
  const auto number = [&options](const char* name) { return std::strtoull(options[name].c_str(), nullptr, 10); };
  const auto milliseconds = [&options](const char* name) {
    return std::chrono::milliseconds(static_cast<int64_t>(std::strtod(options[name].c_str(), nullptr) * 1000));
  };
  Plan plan;
  plan.connections = number("connections");
  plan.outstanding = number("outstanding");
  plan.warm_up = milliseconds("warm-up");
  plan.length = milliseconds("seconds");
  plan.keys = number("keys");
  plan.value_bytes = number("value-bytes");
  plan.streams = number("streams");
  plan.watchers = number("watchers");
  plan.leases = number("leases");
  plan.seed = number("seed");
  std::vector<pid_t> pids;
  for (const auto& pid : split(options["pids"])) pids.push_back(static_cast<pid_t>(std::strtol(pid.c_str(), nullptr, 10)));
  const auto endpoints = split(options["endpoints"]);
  if (endpoints.empty() || pids.empty()) usage("needs --endpoints and --pids");
  if (plan.connections == 0 || plan.outstanding == 0 || plan.streams == 0 || plan.keys == 0) usage("a zero where there can be none");
  if (options["client"] != "stock") usage("no client " + options["client"]);

  Meter meter(pids);
  const auto client = make_stock_client(endpoints, plan.connections);
  if (work == "watch") {
    run_watch(*client, plan, meter);
  } else if (work == "keepalive") {
    run_keepalive(*client, plan, meter);
  } else if (work == "idle-watchers") {
    run_idle_watchers(*client, plan, pids.front());
    return 0;
  } else if (!run_unary(work, *client, plan, meter)) {
    usage("no work " + work);
  }
  meter.print();
  return 0;
}
