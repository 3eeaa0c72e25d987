#include "server/obs/metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "server/api/text.h"
#include "server/options.h"
#include "server/rpc/net_loop.h"

namespace rallypoint::server {
namespace {

class Page {
 public:
  explicit Page(std::string& out) : out_(out) {}

  void describe(std::string_view name, std::string_view type, std::string_view help) {
    line("# HELP ", name, " ", help);
    line("# TYPE ", name, " ", type);
  }
  void value(std::string_view name, double number, std::string_view labels = "") {
    char text[40];
    std::snprintf(text, sizeof text, " %.17g", number);
    line(name, labels, text);
  }
  void gauge(std::string_view name, double number, std::string_view help) {
    describe(name, "gauge", help);
    value(name, number);
  }
  void counter(std::string_view name, double number, std::string_view help) {
    describe(name, "counter", help);
    value(name, number);
  }

 private:
  template <class... Parts>
  void line(const Parts&... parts) {
    ((out_ += parts), ...);
    out_ += '\n';
  }
  std::string& out_;
};

size_t count_open_files() {
  size_t count = 0;
  if (DIR* directory = ::opendir("/proc/self/fd")) {
    while (::readdir(directory) != nullptr) ++count;
    ::closedir(directory);
  }
  return count > 3 ? count - 3 : 0;  // ".", ".." and the directory itself
}

void append_process(Page& page, const ClusterView& view) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return double(time.tv_sec) + double(time.tv_usec) / 1e6; };
  page.counter("process_cpu_seconds_total", seconds(usage.ru_utime) + seconds(usage.ru_stime),
               "Total user and system CPU time spent in seconds.");
  uint64_t total_pages = 0, resident_pages = 0;
  std::ifstream("/proc/self/statm") >> total_pages >> resident_pages;
  const auto page_bytes = static_cast<double>(sysconf(_SC_PAGESIZE));
  page.gauge("process_resident_memory_bytes", double(resident_pages) * page_bytes, "Resident memory size in bytes.");
  page.gauge("process_virtual_memory_bytes", double(total_pages) * page_bytes, "Virtual memory size in bytes.");
  page.gauge("process_open_fds", double(count_open_files()), "Number of open file descriptors.");
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  page.gauge("process_max_fds", double(files.rlim_cur), "Maximum number of open file descriptors.");
  page.gauge("process_start_time_seconds", double(view.start_unix_ns) / 1e9,
             "Start time of the process since unix epoch in seconds.");
}

void append_v2_counts(Page& page, const v2::StoreStats& stats, uint64_t watchers) {
  const std::pair<const char*, const v2::StoreStats::Count*> writes[] = {
      {"set", &stats.sets},
      {"delete", &stats.deletes},
      {"update", &stats.updates},
      {"create", &stats.creates},
      {"compareAndSwap", &stats.compare_and_swaps},
      {"compareAndDelete", &stats.compare_and_deletes}};
  page.describe("etcd_debugging_store_writes_total", "counter", "Successful writes to the v2 store, by action.");
  for (const auto& [action, count] : writes)
    page.value("etcd_debugging_store_writes_total", double(count->success), "{action=\"" + std::string(action) + "\"}");
  page.describe("etcd_debugging_store_writes_failed_total", "counter", "Failed writes to the v2 store, by action.");
  for (const auto& [action, count] : writes)
    page.value("etcd_debugging_store_writes_failed_total", double(count->fail),
               "{action=\"" + std::string(action) + "\"}");
  page.describe("etcd_debugging_store_reads_total", "counter", "Reads from the v2 store.");
  page.value("etcd_debugging_store_reads_total", double(stats.gets.success), "{action=\"get\"}");
  page.describe("etcd_debugging_store_reads_failed_total", "counter", "Failed reads from the v2 store.");
  page.value("etcd_debugging_store_reads_failed_total", double(stats.gets.fail), "{action=\"get\"}");
  page.counter("etcd_debugging_store_expires_total", double(stats.expired), "Keys that expired.");
  page.gauge("etcd_debugging_store_watchers", double(watchers), "Watchers that wait.");
}

}  // namespace

void append_metrics(std::string& out, const ClusterView& view, const HttpCounters& counters) {
  Page page(out);
  page.gauge("etcd_server_has_leader", view.has_leader(), "Whether or not a leader exists. 1 is existence, 0 is not.");
  page.gauge("etcd_server_is_leader", view.is_leader(), "Whether or not this member is a leader. 1 if is, 0 otherwise.");
  page.gauge("etcd_server_is_learner", view.role == ViewRole::kLearner, "Whether or not this member is a learner.");
  page.counter("etcd_server_leader_changes_seen_total", double(view.leader_changes), "Leader changes seen.");
  page.gauge("etcd_server_proposals_committed_total", double(view.proposals_committed), "Consensus proposals committed.");
  page.gauge("etcd_server_proposals_applied_total", double(view.proposals_applied), "Consensus proposals applied.");
  page.gauge("etcd_server_proposals_pending", double(view.proposals_pending), "Proposals that wait for commit.");
  page.counter("etcd_server_proposals_failed_total", double(view.proposals_failed), "Failed proposals seen.");
  page.describe("etcd_server_id", "gauge", "Server or member ID in hexadecimal format. 1 for 'server_id' label.");
  page.value("etcd_server_id", 1, "{server_id=\"" + to_hex(view.member_id) + "\"}");
  page.describe("etcd_server_version", "gauge", "Which version is running. 1 for 'server_version' label.");
  page.value("etcd_server_version", 1, "{server_version=\"" + std::string(kEtcdVersion) + "\"}");
  page.describe("etcd_cluster_version", "gauge", "Which version is running. 1 for 'cluster_version' label.");
  page.value("etcd_cluster_version", 1, "{cluster_version=\"" + std::string(kEtcdClusterVersion) + "\"}");
  page.gauge("etcd_mvcc_db_total_size_in_bytes", double(view.db_bytes), "Size of the underlying database in bytes.");

  page.describe("etcd_disk_wal_fsync_duration_seconds", "histogram", "Latency of the WAL's fsync calls.");
  page.value("etcd_disk_wal_fsync_duration_seconds_bucket", double(view.wal_syncs), "{le=\"+Inf\"}");
  page.value("etcd_disk_wal_fsync_duration_seconds_sum", double(view.wal_sync_us_total) / 1e6);
  page.value("etcd_disk_wal_fsync_duration_seconds_count", double(view.wal_syncs));
  page.counter("etcd_disk_wal_write_bytes_total", double(view.wal_bytes_written), "Bytes written to the WAL.");
  page.gauge("etcd_network_active_peers", view.members.empty() ? 0 : double(view.members.size() - 1), "Peers of this member.");

  append_v2_counts(page, view.v2, view.v2_watchers);

  page.gauge("rallypoint_raft_term", double(view.raft_term), "Raft's current term.");
  page.gauge("rallypoint_raft_commit_index", double(view.commit_index), "Index of the last committed entry.");
  page.gauge("rallypoint_raft_applied_index", double(view.applied_index), "Index of the last applied entry.");
  page.gauge("rallypoint_http_connections", double(counters.connections.load()), "Open client connections.");
  page.counter("rallypoint_http_connections_refused_total", double(counters.connections_refused.load()),
               "Client connections refused because of max-client-connections.");
  page.counter("rallypoint_http_requests_total", double(counters.requests.load()), "HTTP requests received.");
  page.counter("rallypoint_http_bad_requests_total", double(counters.bad_requests.load()),
               "HTTP requests that were malformed, too large or too slow.");
  page.counter("rallypoint_http_received_bytes_total", double(counters.bytes_received.load()), "Bytes from clients.");
  page.counter("rallypoint_http_sent_bytes_total", double(counters.bytes_sent.load()), "Bytes to clients.");
  append_process(page, view);
}

}  // namespace rallypoint::server
