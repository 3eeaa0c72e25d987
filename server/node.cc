#include "server/node.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "server/cluster_info.h"
#include "server/obs/logging.h"
#include "server/quarantine.h"

namespace rallypoint::server {
namespace {

/// Ticks are short so that a lost leader is replaced quickly; heartbeat and election are what the options say.
constexpr Duration kTick = Duration::millis(10);

uint64_t random_number() {
  std::random_device device;
  return static_cast<uint64_t>(device()) << 32 | device();
}

NodeSettings settings_from(const Options& options, const Identity& identity) {
  NodeSettings settings;
  settings.raft.id = identity.member;
  settings.raft.directory = identity.directory;
  settings.raft.heartbeat_ticks = std::max<Ticks>(1, options.heartbeat_interval_ms / 10);
  settings.raft.election_ticks = std::max<Ticks>(settings.raft.heartbeat_ticks + 1, options.election_timeout_ms / 10);
  settings.raft.disk_stall_ticks = 3 * settings.raft.election_ticks;
  settings.seed = random_number();
  settings.nonce = random_number() | 1;
  settings.cluster_id = identity.cluster_id;
  settings.tick = kTick;
  settings.compact_entries = options.snapshot_count;
  settings.keep_entries = std::max<uint64_t>(1, options.snapshot_count / 2);
  settings.auto_compaction = options.auto_compaction;
  settings.name = identity.name;
  settings.state.cluster_id = identity.cluster_id;
  settings.requests.v3.cluster_id = identity.cluster_id;
  settings.requests.v3.timeout = Duration::millis(5000 + 2 * int64_t{options.election_timeout_ms});
  settings.requests.v3.quota_bytes = static_cast<int64_t>(options.quota_backend_bytes);
  settings.requests.v3.watch.fragment_bytes = options.max_request_bytes;
  settings.requests.v3.watch.progress_every = Duration::millis(static_cast<int64_t>(options.watch_progress_notify_ms));
  for (const Url& url : options.advertise_client_urls) settings.client_urls.push_back(url.to_string());
  return settings;
}

std::vector<PeerAddress> peers_of(const pb::ClusterInfo& info) {
  std::vector<PeerAddress> peers;
  for (const auto& member : info.members()) {
    PeerAddress peer{NodeId(member.id()), {}};
    for (const std::string& text : member.peer_urls())
      if (auto url = Url::parse(text); url.is_ok()) peer.endpoints.push_back(url->host_port());
    peers.push_back(std::move(peer));
  }
  return peers;
}

ClusterFacts facts_of(const StateMachine& machine, uint64_t cluster_id) {
  pb::ClusterAnswer answer;
  answer.set_cluster_id(cluster_id);
  answer.set_applied(machine.applied().index.value());
  *answer.mutable_info() = cluster_info_of(machine.applied().membership);
  ClusterFacts facts;
  facts.peers = peers_of(answer.info());
  for (uint64_t id : answer.info().removed()) facts.removed.emplace_back(id);
  facts.founding = machine.founding();
  facts.answer = Bytes(answer.SerializeAsString());
  return facts;
}

}  // namespace

Node::Node(const Options& options, storage::FileSystem& file_system, Bootstrapped bootstrapped, SharedLoop* shared)
    : options_(options), lock_(std::move(bootstrapped.lock)), cluster_id_(bootstrapped.identity.cluster_id), shared_(shared) {
  const Identity& identity = bootstrapped.identity;
  first_facts_ = facts_of(*bootstrapped.machine, cluster_id_);

  TransportOptions transport;
  transport.cluster_id = identity.cluster_id;
  transport.self = identity.member;
  transport.directory = identity.directory;
  for (const Url& url : options.listen_peer_urls) transport.listen.push_back(url.host_port());
  transport_ = std::make_unique<Transport>(std::move(transport), *this, shared_ ? &shared_->rounds() : nullptr);

  const std::string snapshots = bootstrapped.state_directory->snapshots();
  log_ = std::make_unique<LogLoop>(
      file_system, std::move(bootstrapped.wal), std::move(*bootstrapped.state_directory),
      LogLoop::Callbacks{[this](raft::WriteNumber n) { loop_->mailbox().post(raft::Persisted{n}); },
                         [this](std::shared_ptr<storage::Engine> engine, raft::SnapshotMeta meta) {
                           loop_->mailbox().post(SnapshotInstalled{std::move(engine), std::move(meta)});
                         },
                         fatal});
  snapshotter_ = std::make_unique<Snapshotter>(
      file_system, snapshots,
      Snapshotter::Callbacks{[this](raft::SnapshotReady ready) { loop_->mailbox().post(std::move(ready)); },
                             [this](raft::SnapshotBytes bytes) { loop_->mailbox().post(std::move(bytes)); },
                             [this](SnapshotPart part) { loop_->mailbox().post(std::move(part)); },
                             [this](const Status& status) { loop_->mailbox().post(SnapshotFailed{status}); }});
  loop_ = std::make_unique<NodeLoop>(
      settings_from(options, identity), std::move(bootstrapped.restored), std::move(bootstrapped.machine),
      NodeLoop::Ports{
          .write = [this](std::vector<raft::Write>&& writes) { log_->submit(std::move(writes)); },
          .send = [this](std::vector<raft::Message>&& messages) { transport_->send(std::move(messages)); },
          .send_app = [this](NodeId to, uint8_t type, Bytes payload) { transport_->send_app(to, type, std::move(payload)); },
          .make_snapshot = [this](auto engine, const raft::SnapshotMeta& meta) { snapshotter_->make(std::move(engine), meta); },
          .read_snapshot = [this](const raft::SnapshotRead& read) { snapshotter_->read(read); },
          .save_snapshot = [this](const SnapshotJob& job, auto engine, const raft::SnapshotMeta& meta) { snapshotter_->serve(job, std::move(engine), meta); },
          .members_changed = [this](const StateMachine& machine) { members_changed(machine); },
          .removed = removed,
          .diverged = [data_dir = options.data_dir, &file_system](const Status& status) {
            if (Status left = leave_quarantine_note(file_system, data_dir, status.message()); !left.is_ok())
              log_error("no note can be left in the data directory: move it away by hand before this member starts again", {{"error", left}});
            fatal(Status::data_loss(status.message() + "; started again it puts its data aside and gets the cluster's"));
          },
          .fatal = fatal,
          .log_stats = &log_->stats()},
      clock_);
}

Node::~Node() { stop(); }

Status Node::listen() {
  Status status = transport_->listen();
  if (!status.is_ok() && options_.is_single_node()) {
    log_warning("the peer port can't be used; this node is alone, so it goes on", {{"error", status}});
    return Status::ok();
  }
  return status;
}

void Node::start() {
  log_->start();
  snapshotter_->start();
  transport_->set_cluster(first_facts_);
  transport_->start();
  if (shared_) shared_->start(*loop_);
  else thread_ = std::thread([this] { loop_->run(); });
}

void Node::stop() {
  const bool on_shared = shared_ && shared_->is_running();
  if (!on_shared && !thread_.joinable()) return;
  loop_->mailbox().post(Shutdown{});
  if (on_shared) shared_->join();
  else thread_.join();
  transport_->stop();
  log_->stop();
  snapshotter_->stop();
}

void Node::submit(std::vector<Request>&& requests) { loop_->mailbox().post(std::move(requests)); }
ClusterView Node::cluster_view() const { return loop_->view(); }

void Node::on_messages(std::vector<raft::Message>&& messages) { loop_->mailbox().post(std::move(messages)); }
void Node::on_app(NodeId from, uint8_t type, Bytes payload) { loop_->mailbox().post(PeerApp{from, type, std::move(payload)}); }
void Node::on_peer_lost(NodeId peer) { loop_->mailbox().post(PeerLost{peer}); }
void Node::on_removed(NodeId peer) { loop_->mailbox().post(PeerRemovedUs{peer}); }
void Node::on_founded_twice(NodeId peer) {
  // Whom this node knows was founded together with it, or added by it: then the other one is wrong, and is told so
  // by those that it does not know.
  const std::vector<NodeId> known = *std::atomic_load(&known_);
  if (std::find(known.begin(), known.end(), peer) != known.end())
    return log_error("a member comes from another founding of this cluster; its directory must have been wiped", {{"peer", peer.value()}});
  fatal(Status::failed_precondition(
      "member " + std::to_string(peer.value()) + " knows this member from before: this directory was wiped, and the cluster was founded a second "
      "time here. Move the data directory away and start with all members in --initial-cluster and --initial-cluster-state existing: "
      "the data is with the other members"));
}
void Node::on_peer_up(NodeId peer) { log_info("linked to a peer", {{"peer", peer.value()}}); }

void Node::members_changed(const StateMachine& machine) {
  ClusterFacts facts = facts_of(machine, cluster_id_);
  auto known = std::make_shared<std::vector<NodeId>>();
  for (const PeerAddress& peer : facts.peers) known->push_back(peer.id);
  std::atomic_store(&known_, std::shared_ptr<const std::vector<NodeId>>(std::move(known)));
  transport_->set_cluster(std::move(facts));
}

/// Ends like one that was asked to: what was acknowledged is with the others.
void Node::removed(const std::string& why) {
  log_error("this member was removed from the cluster, so it stops; its data directory is of no use any more", {{"why", why}});
  ::kill(::getpid(), SIGTERM);
}

/// The one place where a node stops because a promise was broken: by the disk, or by ourselves.
void Node::fatal(const Status& status) {
  log_error("this node stops, so that it never serves doubtful data", {{"error", status}});
  shutdown_logging();
  ::_exit(1);
}

}  // namespace rallypoint::server
