#include "server/options_table.h"

namespace rallypoint::server {
namespace {

constexpr std::string_view kNode = "This node";
constexpr std::string_view kCluster = "Cluster (read once, when the data directory is empty)";
constexpr std::string_view kTuning = "Timing and limits";
constexpr std::string_view kLog = "Log";

constexpr std::string_view kNoTls = "TLS is not there yet, traffic would go in the clear";

std::vector<OptionRow> make_table() {
  using Kind = OptionRow::Kind;
  std::vector<OptionRow> table = {
      {"name", "NAME", kNode, "Name of this member, unique in the cluster. [default]"},
      {"data-dir", "PATH", kNode, "Where this member keeps its data. One directory belongs to one member for ever. [./NAME.rallypoint]"},
      {"listen-client-urls", "URLS", kNode, "Where clients are served; several with commas. localhost listens on IPv4 and IPv6. [http://127.0.0.1:2379]"},
      {"advertise-client-urls", "URLS", kNode, "What clients are told to connect to. [what is listened on]"},
      {"listen-metrics-urls", "URLS", kNode, "Where /metrics, /health, /livez and /readyz are served besides. [only with the clients]"},
      {"listen-peer-urls", "URLS", kNode, "Where the other members are served. [http://localhost:2380]"},
      {"initial-advertise-peer-urls", "URLS", kCluster, "What the other members are told to connect to. [this member's part of initial-cluster, else what is listened on]"},
      {"initial-cluster", "NAME=URL,...", kCluster, "All members that found the cluster, the same text on each. [this member alone]"},
      {"initial-cluster-state", "new|existing", kCluster, "new: found a cluster; existing: join one, after its members were told of this one. [new]"},
      {"initial-cluster-token", "TEXT", kCluster, "Keeps clusters apart whose members have equal URLs. [etcd-cluster]"},
      {"heartbeat-interval", "MS", kTuning, "A leader speaks at least this often. About the round-trip time between members. [100]"},
      {"election-timeout", "MS", kTuning, "Without a word from the leader for so long, members elect. At least 5 heartbeats. [1000]"},
      {"snapshot-count", "N", kTuning, "Applied entries between two snapshots. [10000]"},
      {"max-request-bytes", "BYTES", kTuning, "Largest body of a client's request. [1572864]"},
      {"quota-backend-bytes", "BYTES", kTuning, "Keys and values of all versions; beyond it nothing is stored until space is free. [2147483648]"},
      {"max-txn-ops", "N", kTuning, "Operations in each list of a transaction. [128]"},
      {"watch-progress-notify-interval", "TIME", kTuning, "Between progress notes of a quiet watch, e.g. 5s. [10m]"},
      {"experimental-watch-progress-notify-interval", "TIME", "", "etcd's older name of watch-progress-notify-interval."},
      {"max-client-connections", "N", kTuning, "Client connections at a time; more are refused. [20000]"},
      {"max-concurrent-streams", "N", kTuning, "gRPC calls at a time on one connection. [10000]"},
      {"grpc-keepalive-interval", "TIME", kTuning, "A gRPC client that is silent for so long is asked whether it is there; 0s = never. [2h]"},
      {"grpc-keepalive-timeout", "TIME", kTuning, "If it does not answer within this, its connection is closed. [20s]"},
      {"auto-compaction-mode", "periodic|revision", kTuning, "What auto-compaction-retention counts: time, or revisions. [periodic]"},
      {"auto-compaction-retention", "VALUE", kTuning, "History that is kept: a time such as 10m (a plain number: hours), or so many revisions. [0: all of it]"},
      {"log-level", "LEVEL", kLog, "debug, info, warn or error. [info]"},
      {"log-outputs", "LIST", kLog, "stderr, stdout or files, with commas. [stderr]"},
      {"enable-v2", "", kNode, "Accepted for etcd's sake: the v2 API is always on.", Kind::kTaken, true},
  };
  // etcd's other options. A start script made for etcd shall work, or be told why not.
  const auto ignored_flags = {"pre-vote", "enable-pprof", "strict-reconfig-check", "enable-grpc-gateway", "debug",
                              "initial-election-tick-advance", "socket-reuse-port", "socket-reuse-address",
                              "experimental-initial-corrupt-check", "experimental-memory-mlock", "memory-mlock",
                              "enable-log-rotation"};
  for (const char* name : ignored_flags) table.push_back({name, "", "", "", Kind::kIgnored, true});
  const auto ignored = {"wal-dir", "listen-client-http-urls",
                        "auth-token", "auth-token-ttl", "bcrypt-cost", "logger", "log-format", "metrics", "cipher-suites",
                        "tls-min-version", "tls-max-version", "grpc-keepalive-min-time", "cors", "host-whitelist",
                        "feature-gates", "max-learners", "max-snapshots",
                        "max-wals", "backend-batch-interval", "backend-batch-limit", "corrupt-check-time",
                        "compact-hash-check-time", "compaction-batch-limit", "compaction-sleep-interval",
                        "warning-apply-duration", "warning-unary-request-duration", "snapshot-catchup-entries",
                        "raft-read-timeout", "raft-write-timeout", "self-signed-cert-validity", "log-rotation-config-json",
                        "log-package-levels", "v2-deprecation", "backend-bbolt-freelist-type",
                        "bootstrap-defrag-threshold-megabytes", "proxy", "discovery-fallback"};
  for (const char* name : ignored) table.push_back({name, "VALUE", "", "", Kind::kIgnored, false});
  const auto tls_flags = {"client-cert-auth", "auto-tls", "peer-client-cert-auth", "peer-auto-tls"};
  for (const char* name : tls_flags) table.push_back({name, "", "", kNoTls, Kind::kRefused, true});
  const auto tls = {"cert-file", "key-file", "trusted-ca-file", "peer-cert-file", "peer-key-file", "peer-trusted-ca-file",
                    "client-crl-file", "peer-crl-file", "peer-cert-allowed-cn", "client-cert-file", "client-key-file"};
  for (const char* name : tls) table.push_back({name, "FILE", "", kNoTls, Kind::kRefused, false});
  table.push_back({"force-new-cluster", "", "", "a member can't leave its cluster behind this way", Kind::kRefused, true});
  table.push_back({"unsafe-no-fsync", "", "", "what was acknowledged would be lost in a crash", Kind::kRefused, true});
  for (const char* name : {"discovery", "discovery-srv", "discovery-srv-name", "discovery-token", "discovery-endpoints"})
    table.push_back({name, "VALUE", "", "members can't be discovered, list them in --initial-cluster", Kind::kRefused, false});
  table.push_back({"config-file", "FILE", "", "there is no configuration file, use options or the environment", Kind::kRefused, false});
  return table;
}

}  // namespace

const std::vector<OptionRow>& option_table() {
  static const std::vector<OptionRow> table = make_table();
  return table;
}

std::string_view help_intro() {
  return "rallypoint: a replicated store that speaks etcd's v3 and v2 APIs, for PyTorch Elastic and others.\n"
         "Without options it runs one node for clients on 127.0.0.1:2379, its data in ./default.rallypoint.\n"
         "Each option can also stand in the environment: --data-dir is ETCD_DATA_DIR or RALLYPOINT_DATA_DIR\n"
         "(the command line wins). RALLYPOINT_EXIT_WITH_PARENT=1 ends the node with the process that started it.";
}

std::string_view help_examples() {
  return R"(Examples:
  One node, and a look at it:
    rallypoint --data-dir /tmp/one &
    curl http://127.0.0.1:2379/v2/keys/greeting -XPUT -d value=hello
    curl http://127.0.0.1:2379/

  Three nodes on this machine (each in its own terminal, N = 1, 2, 3):
    rallypoint --name nN --data-dir /tmp/nN \
      --listen-client-urls http://127.0.0.1:N2379 --listen-peer-urls http://127.0.0.1:N2380 \
      --initial-cluster n1=http://127.0.0.1:12380,n2=http://127.0.0.1:22380,n3=http://127.0.0.1:32380

  A cluster of one from what etcdctl snapshot save wrote; start it with the same options, then add members:
    rallypoint snapshot restore FILE --data-dir /tmp/new

  torchrun over it:
    torchrun --nnodes=2 --nproc-per-node=1 --rdzv-backend=etcd-v2 \
      --rdzv-endpoint=127.0.0.1:12379 --rdzv-id=job1 train.py

  As the store that PyTorch's EtcdServer starts by itself:
    TORCHELASTIC_ETCD_BINARY_PATH=$(which rallypoint) python3 ...
)";
}

}  // namespace rallypoint::server
