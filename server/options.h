// Options: what a node is told at start, by etcd's names, from the command line and the environment. Plain values
// that the node consumes; everything in it has been parsed and validated.
//
// parse_options() prints nothing and never exits: it returns what to print and with which code to end, so that main
// decides and a test can look. Rules of the names: etcd's flags, single or double dash, `--flag value` or
// `--flag=value`, bare booleans; ETCD_* and RALLYPOINT_* in the environment, of which the command line wins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "raft/base/status.h"
#include "server/auto_compactor.h"

namespace rallypoint::server {

/// The release of etcd whose behaviour clients may expect, as /version and --version state it.
inline constexpr const char* kEtcdVersion = "3.5.17";
inline constexpr const char* kEtcdClusterVersion = "3.5.0";
inline constexpr const char* kRallypointVersion = "0.1.0";

/// scheme://host:port without a path. `host` has no brackets, also for IPv6.
struct Url {
  std::string scheme;  ///< "http" (or "https", once TLS is there)
  std::string host;
  uint16_t port = 0;
  /// "http://host:port", IPv6 in brackets, never a trailing slash.
  [[nodiscard]] std::string to_string() const;
  /// "host:port", IPv6 in brackets.
  [[nodiscard]] std::string host_port() const;
  friend bool operator==(const Url&, const Url&) = default;
  /// A port is required; a path other than "/" is refused.
  static Result<Url> parse(std::string_view text);
};

/// One entry of initial-cluster: a member's name and its advertised peer URLs.
struct InitialMember {
  std::string name;
  std::vector<Url> peer_urls;
  friend bool operator==(const InitialMember&, const InitialMember&) = default;
};

struct Options {
  std::string name = "default";
  std::string data_dir;                      ///< default: ./<name>.rallypoint
  std::vector<Url> listen_client_urls;       ///< default: http://127.0.0.1:2379 (if the option is absent)
  std::vector<Url> advertise_client_urls;    ///< default: what is listened on
  std::vector<Url> listen_peer_urls;         ///< default: http://localhost:2380
  std::vector<Url> initial_advertise_peer_urls;  ///< default: what is listened on for peers
  /// Who bootstraps the cluster, this node included. Default: this node alone, with its advertised peer URLs.
  std::vector<InitialMember> initial_cluster;
  bool initial_cluster_is_new = true;        ///< initial-cluster-state: new (true) or existing
  std::string initial_cluster_token = "etcd-cluster";
  uint32_t heartbeat_interval_ms = 100;      ///< 1 .. 60000
  uint32_t election_timeout_ms = 1000;       ///< at least 5 heartbeats, at most 50000
  uint64_t snapshot_count = 10000;           ///< applied entries between snapshots, >= 1
  uint64_t max_request_bytes = 3 << 19;      ///< body of one request: 1.5 MiB
  uint64_t quota_backend_bytes = 2ull << 30; ///< live bytes of the v3 keyspace; 0 = this default
  uint64_t max_txn_ops = 128;                ///< operations per list of a transaction
  uint64_t watch_progress_notify_ms = 600'000;  ///< between progress notes of a quiet watch
  std::vector<Url> listen_metrics_urls;      ///< besides listen_client_urls; default: none
  uint64_t max_concurrent_streams = 10'000;  ///< gRPC calls at a time on one connection
  uint64_t grpc_keepalive_interval_ms = 7'200'000;  ///< of silence before a gRPC client is pinged; 0 = never
  uint64_t grpc_keepalive_timeout_ms = 20'000;      ///< for its answer
  AutoCompaction auto_compaction;
  uint64_t max_client_connections = 20000;   ///< per node; more are refused with a clear answer
  uint32_t net_threads = 0;                  ///< 0 = derive from the cores
  std::string log_level = "info";            ///< debug, info, warn, error
  std::vector<std::string> log_outputs = {"stderr"};  ///< stderr, stdout or file paths
  bool exit_with_parent = false;             ///< RALLYPOINT_EXIT_WITH_PARENT=1: end when the parent process ends
  /// The node is alone by its options: no peer has to be reached, and the peer port is not worth failing for.
  [[nodiscard]] bool is_single_node() const { return initial_cluster.size() <= 1 && initial_cluster_is_new; }
};

/// The options, or what to print and the exit code.
struct ParsedOptions {
  std::optional<Options> options;     ///< set = start
  int exit_code = 0;                  ///< 0 for --help and --version, 2 for a mistake
  std::string out;                    ///< for stdout (help, version)
  std::string error;                  ///< for stderr
  std::vector<std::string> warnings;  ///< to be logged once logging stands
};

/// `args` without the program's name; `environment` as "KEY=value".
ParsedOptions parse_options(const std::vector<std::string>& args, const std::vector<std::string>& environment);
/// The same from main's arguments and ::environ.
ParsedOptions parse_options(int argc, char** argv);

/// Asks the kernel to send SIGTERM when the parent ends, and fails if it has ended already. Call first in main.
Status end_with_parent();

}  // namespace rallypoint::server
