// rallypoint: one binary, one process per node.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string_view>

#include "server/bootstrap.h"
#include "server/node.h"
#include "server/obs/logging.h"
#include "server/options.h"
#include "server/restore.h"
#include "server/rpc/early_listen.h"
#include "server/rpc/http_server.h"
#include "server/shared_loop.h"
#include "storage/fs/posix_file_system.h"

namespace {

using namespace rallypoint;
using namespace rallypoint::server;

int fail(const Status& status) {
  log_error("can't start", {{"error", status}});
  shutdown_logging();
  return 1;
}

std::string joined(const std::vector<Url>& urls) {
  std::string text;
  for (const Url& url : urls) text += (text.empty() ? "" : ",") + url.to_string();
  return text;
}

/// rallypoint snapshot restore FILE [options of the node that is to serve it]
int restore(int argc, char** argv) {
  if (argc < 4 || argv[3][0] == '-') {
    std::fputs("usage: rallypoint snapshot restore FILE [--data-dir PATH] [--name NAME] [--initial-advertise-peer-urls URLS] ...\n"
               "Makes the data directory of a cluster of one from a file that `etcdctl snapshot save` wrote.\n", stderr);
    return 2;
  }
  ParsedOptions parsed = parse_options(argc - 3, argv + 3);  // the file stands where the program's name would
  std::fputs(parsed.out.c_str(), stdout);
  std::fputs(parsed.error.c_str(), stderr);
  if (!parsed.options) return parsed.exit_code;
  storage::PosixFileSystem file_system;
  auto restored = restore_snapshot(*parsed.options, file_system, argv[3]);
  if (!restored.is_ok()) {
    std::fprintf(stderr, "can't restore: %s\n", restored.status().message().c_str());
    return 1;
  }
  std::printf("restored %s into %s: %llu rows, up to log index %llu\nStart it with: rallypoint --data-dir %s --name %s ... (the same options); then add members.\n",
              argv[3], parsed.options->data_dir.c_str(), static_cast<unsigned long long>(restored->rows),
              static_cast<unsigned long long>(restored->index.value()), parsed.options->data_dir.c_str(), parsed.options->name.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc >= 3 && std::string_view(argv[1]) == "snapshot" && std::string_view(argv[2]) == "restore") {
    close_early_listeners();
    return restore(argc, argv);
  }
  ParsedOptions parsed = parse_options(argc, argv);
  std::fputs(parsed.out.c_str(), stdout);
  std::fputs(parsed.error.c_str(), stderr);
  if (!parsed.options) return parsed.exit_code;
  const Options& options = *parsed.options;

  // Signals are waited for below; every thread started from here on inherits the mask. A peer or client that hangs up
  // must not end the process.
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  sigaddset(&stop_signals, SIGTERM);
  sigaddset(&stop_signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  if (options.exit_with_parent)
    if (Status status = end_with_parent(); !status.is_ok()) return fail(status);
  if (Status status = init_logging(options.log_level, options.log_outputs, options.name); !status.is_ok()) return fail(status);
  for (const std::string& warning : parsed.warnings) log_warning(warning);

  storage::PosixFileSystem file_system;
  auto bootstrapped = bootstrap(options, file_system);
  if (!bootstrapped.is_ok()) return fail(bootstrapped.status());
  log_info("starting", {{"member", bootstrapped->identity.member.value()},
                        {"cluster", bootstrapped->identity.cluster_id},
                        {"data_dir", options.data_dir},
                        {"fresh", bootstrapped->fresh},
                        {"applied", bootstrapped->restored.applied.value()},
                        {"version", kRallypointVersion}});
  std::optional<SharedLoop> shared;
  if (options.net_threads == 0 && SharedLoop::pays_off()) shared.emplace();
  Node node(options, file_system, std::move(*bootstrapped), shared ? &*shared : nullptr);
  if (Status status = node.listen(); !status.is_ok()) return fail(status);
  HttpServer http(options, node, shared ? &shared->rounds() : nullptr);
  if (Status status = http.listen(); !status.is_ok()) return fail(status);
  close_early_listeners();
  http.start();
  node.start();
  log_info("ready to serve client requests", {{"urls", joined(options.listen_client_urls)}, {"peer_urls", joined(options.listen_peer_urls)}});

  int signal_number = 0;
  sigwait(&stop_signals, &signal_number);
  log_info("stopping", {{"signal", signal_number}});
  node.stop();
  http.stop();
  shutdown_logging();
  // All threads are done and everything acknowledged is on disk; tearing the engine down would only take time.
  ::_exit(0);
}
