#include "server/bootstrap.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "raft/base/crc32c.h"
#include "server/cluster_info.h"
#include "server/obs/logging.h"
#include "server/quarantine.h"
#include "server/state/command.pb.h"
#include "storage/engine/rocks_engine.h"

namespace rallypoint::server {
namespace {

constexpr uint32_t kIdentityVersion = 1;

std::string hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(value));
  return text;
}

Result<Identity> read_identity(storage::FileSystem& fs, const std::string& path) {
  auto file = fs.open(path, storage::FileSystem::Mode::kRead);
  if (!file.is_ok()) return file.status();
  auto bytes = (*file)->read_at(0, 64 << 10);
  if (!bytes.is_ok()) return bytes.status();
  uint32_t crc = 0;
  pb::Identity row;
  if (bytes->size() > sizeof crc) std::memcpy(&crc, bytes->data(), sizeof crc);
  const std::string body = bytes->size() > sizeof crc ? bytes->substr(sizeof crc) : "";
  if (body.empty() || crc32c(0, body) != crc || !row.ParseFromString(body))
    return Status::data_loss(path + " is damaged; move the data directory away and start again: the member rejoins with a new one");
  if (row.version() != kIdentityVersion)
    return Status::failed_precondition(path + " has format " + std::to_string(row.version()) + "; this build knows 1");
  return Identity{row.cluster_id(), NodeId(row.member_id()), DirectoryId(row.directory_id()), row.name()};
}

/// What an empty directory begins with.
struct Beginning {
  Identity identity;
  raft::Membership membership;
};

Result<Beginning> begin(const Options& options, const JoinTools& tools) {
  const auto joined = [&](const JoinedCluster& cluster) {
    Beginning beginning{{cluster.cluster_id, cluster.member, random_directory_id(), options.name}, {}};
    beginning.membership.context = encode(cluster.info);  // nobody votes, as far as this node knows: it waits
    return beginning;
  };
  if (!options.initial_cluster_is_new) {
    auto cluster = join_cluster(options, tools);
    if (!cluster.is_ok()) return cluster.status();
    return joined(*cluster);
  }
  if (options.initial_cluster.size() > 1) {
    auto founded = find_founded(options, tools);
    if (!founded.is_ok()) return founded.status();
    if (founded->has_value()) {
      log_warning("the cluster is there already and counts this member in: its directory was lost, so it comes back and is given the data",
                  {{"member", (*founded)->member.value()}});
      return joined(**founded);
    }
  }
  for (const InitialMember& member : options.initial_cluster)
    if (member.name == options.name)
      return Beginning{{cluster_id_of(options), member_id_of(member, options.initial_cluster_token), random_directory_id(), options.name},
                       bootstrap_membership(options)};
  return Status::invalid_argument("--name " + options.name + " is not in --initial-cluster; give this node's own name there");
}

Status check_name(const Options& options, const Identity& found) {
  if (options.name == found.name) return Status::ok();
  return Status::failed_precondition("data directory " + options.data_dir + " belongs to member \"" + found.name + "\", but --name is \"" +
                                     options.name + "\"; give the right --name or another --data-dir");
}

/// Whether --initial-cluster names anybody whom this directory knows, besides this node.
bool names_a_known_member(const Options& options, const pb::ClusterInfo& info, NodeId self) {
  for (const auto& known : info.members()) {
    if (known.id() == self.value()) continue;
    for (const InitialMember& named : options.initial_cluster) {
      if (named.name == known.name()) return true;
      for (const Url& url : named.peer_urls)
        if (std::find(known.peer_urls().begin(), known.peer_urls().end(), url.to_string()) != known.peer_urls().end()) return true;
    }
  }
  return false;
}

/// The directory's own word goes first, as in etcd: members may have come, gone and moved since it was written. But
/// options that name none of the members that it knows are a mistake.
Status check_cluster(const Options& options, const Identity& found, const raft::Membership& applied, const storage::Wal::Recovered& log) {
  pb::ClusterInfo info = cluster_info_of(applied);  // as far as the state is; the log may know more
  bool removed = was_removed(info, found.member);
  for (const raft::Entry& entry : log.entries) {
    if (entry.kind != raft::EntryKind::kMembership) continue;
    auto membership = raft::decode_membership(entry.payload);
    if (!membership.is_ok()) return Status::data_loss("the log's membership entry is malformed: " + membership.status().message());
    info = cluster_info_of(*membership);
    removed |= entry.index <= log.hard_state.commit && was_removed(info, found.member);
  }
  if (removed)
    return Status::failed_precondition("this member was removed from the cluster for good; to run a node here again, add it (member add), "
                                       "move data directory " + options.data_dir + " away and start with --initial-cluster-state existing");
  if (options.initial_cluster.size() > 1 && info.members_size() > 1 && !names_a_known_member(options, info, found.member))
    return Status::failed_precondition("data directory " + options.data_dir + " belongs to cluster " + hex(found.cluster_id) +
                                       ", but --initial-cluster names none of its other members; give this cluster's members there, or an "
                                       "empty --data-dir for a new cluster");
  return Status::ok();
}

/// Log and state must meet: the state never knows more than the log, unless a snapshot was just put in place.
Status reconcile(Bootstrapped& node, storage::Wal::Recovered& recovered) {
  const storage::SnapshotPoint& point = node.state_directory->current().point;
  if (point.index > recovered.start.index) {  // a crash came between the switch of the state and the log's restart
    auto membership = raft::decode_membership(Bytes::copy_of(point.membership));
    if (!membership.is_ok()) return Status::data_loss("CURRENT_STATE holds a malformed membership");
    const raft::SnapshotMeta meta{point.term, point.index, *membership};
    RALLY_RETURN_IF_ERROR(recovered.wal->restart_at(meta));
    const Index old_start = recovered.start.index;
    const Index last = recovered.wal->last_index();
    if (last > point.index) {
      recovered.entries.erase(recovered.entries.begin(), recovered.entries.begin() + static_cast<int64_t>(point.index - old_start));
    } else {
      recovered.entries.clear();
    }
    recovered.start = meta;
    if (recovered.hard_state.commit < meta.index) recovered.hard_state.commit = meta.index;
  }
  const Index applied = node.machine->applied().index, last = recovered.wal->last_index();
  if (applied > last || applied < recovered.start.index)
    return Status::data_loss("the state has applied index " + std::to_string(applied.value()) + ", but the log holds " +
                             std::to_string(recovered.start.index.value()) + " to " + std::to_string(last.value()) +
                             "; a part of the data directory was lost: move it away and start again, the member rejoins with a new one");
  return Status::ok();
}

}  // namespace

DirectoryId random_directory_id() {
  std::random_device device;
  uint64_t value = 0;
  while (value == 0) value = static_cast<uint64_t>(device()) << 32 | device();
  return DirectoryId(value);
}

/// identity = crc:u32 pb::Identity
Status write_identity(storage::FileSystem& fs, const std::string& data_dir, const Identity& identity) {
  pb::Identity row;
  row.set_version(kIdentityVersion);
  row.set_directory_id(identity.directory.value());
  row.set_cluster_id(identity.cluster_id);
  row.set_member_id(identity.member.value());
  row.set_name(identity.name);
  const std::string body = row.SerializeAsString();
  const uint32_t crc = crc32c(0, body);
  std::string bytes(reinterpret_cast<const char*>(&crc), sizeof crc);
  bytes += body;
  const std::string path = data_dir + "/identity", part = path + ".part";
  auto file = fs.open(part, storage::FileSystem::Mode::kCreateOrOpen);
  if (!file.is_ok()) return file.status();
  RALLY_RETURN_IF_ERROR((*file)->truncate(0));
  RALLY_RETURN_IF_ERROR((*file)->write_at(0, bytes));
  RALLY_RETURN_IF_ERROR((*file)->sync());
  RALLY_RETURN_IF_ERROR(fs.rename(part, path));
  return fs.sync_directory(data_dir);
}

Result<std::unique_ptr<DirectoryLock>> DirectoryLock::acquire(const std::string& directory) {
  const std::string path = directory + "/LOCK";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return Status::failed_precondition("can't open " + path + ": " + std::strerror(errno) + "; check the rights of --data-dir");
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    ::close(fd);
    return Status::failed_precondition("data directory " + directory +
                                       " is in use by another process; stop that one, or give this one another --data-dir");
  }
  return std::unique_ptr<DirectoryLock>(new DirectoryLock(fd));
}

DirectoryLock::~DirectoryLock() { ::close(fd_); }

NodeId member_id_of(const InitialMember& member, const std::string& token) {
  std::vector<std::string> urls;
  for (const Url& url : member.peer_urls) urls.push_back(url.to_string());
  std::sort(urls.begin(), urls.end());
  std::string text = "member " + token;
  for (const std::string& url : urls) text += " " + url;
  return NodeId(hash_of(text));
}

uint64_t cluster_id_of(const Options& options) {
  std::vector<uint64_t> ids;
  for (const InitialMember& member : options.initial_cluster) ids.push_back(member_id_of(member, options.initial_cluster_token).value());
  std::sort(ids.begin(), ids.end());
  std::string text = "cluster " + options.initial_cluster_token;
  for (uint64_t id : ids) text += " " + hex(id);
  return hash_of(text);
}

raft::Membership bootstrap_membership(const Options& options) {
  raft::Membership membership;
  pb::ClusterInfo context;
  for (const InitialMember& member : options.initial_cluster) {
    const NodeId id = member_id_of(member, options.initial_cluster_token);
    raft::put_in(membership.voters, {id, DirectoryId()});
    auto* info = context.add_members();
    info->set_id(id.value());
    info->set_name(member.name);
    for (const Url& url : member.peer_urls) info->add_peer_urls(url.to_string());
  }
  membership.context = encode(context);
  return membership;
}

Result<Bootstrapped> bootstrap(const Options& options, storage::FileSystem& fs, const JoinTools& join_tools) {
  const std::string& dir = options.data_dir;
  if (Status made = fs.create_directories(dir); !made.is_ok())
    return Status::failed_precondition("can't make data directory " + dir + ": " + made.message());
  Bootstrapped node;
  auto lock = DirectoryLock::acquire(dir);
  if (!lock.is_ok()) return lock.status();
  node.lock = std::move(*lock);

  auto aside = put_quarantined_aside(fs, dir);
  if (!aside.is_ok()) return aside.status();
  if (*aside) log_warning("the state here was found to differ from the cluster's; it was put aside, and this member begins with nothing", {{"now_in", **aside}});

  auto known = fs.exists(dir + "/identity");
  if (!known.is_ok()) return known.status();
  Result<storage::Wal::Recovered> recovered = Status::internal("not opened");
  if (*known) {
    auto identity = read_identity(fs, dir + "/identity");
    if (!identity.is_ok()) return identity.status();
    RALLY_RETURN_IF_ERROR(check_name(options, *identity));
    node.identity = *identity;
    recovered = storage::Wal::open(fs, dir + "/wal", node.identity.directory);
  } else {
    // A first start that was cut short left nothing that counts: nobody was answered before the identity stood.
    node.fresh = true;
    auto beginning = begin(options, join_tools);
    if (!beginning.is_ok()) return beginning.status();
    node.identity = beginning->identity;
    RALLY_RETURN_IF_ERROR(fs.remove_all(dir + "/wal"));
    RALLY_RETURN_IF_ERROR(fs.remove_all(dir + "/state"));
    RALLY_RETURN_IF_ERROR(fs.create_directories(dir + "/wal"));
    recovered = storage::Wal::create(fs, dir + "/wal", node.identity.directory, {}, beginning->membership);
  }
  if (!recovered.is_ok()) return recovered.status();
  if (recovered->torn_tail_repaired) log_warning("cut a torn write off the end of the log; nothing acknowledged was in it");

  RALLY_RETURN_IF_ERROR(fs.create_directories(dir + "/state"));
  auto state_directory = storage::StateDirectory::open(fs, dir + "/state");
  if (!state_directory.is_ok()) return state_directory.status();
  node.state_directory = std::make_unique<storage::StateDirectory>(std::move(*state_directory));
  RALLY_RETURN_IF_ERROR(storage::remove_unfinished_snapshots(fs, node.state_directory->snapshots()));
  auto engine = storage::RocksEngine::open(node.state_directory->current().path);
  if (!engine.is_ok()) return engine.status();
  auto machine = StateMachine::open(std::shared_ptr<storage::Engine>(std::move(*engine)), recovered->start.membership,
                                    {node.identity.cluster_id, {}});
  if (!machine.is_ok()) return machine.status();
  node.machine = std::move(*machine);
  RALLY_RETURN_IF_ERROR(reconcile(node, *recovered));
  RALLY_RETURN_IF_ERROR(check_cluster(options, node.identity, node.machine->applied().membership, *recovered));
  if (node.fresh) RALLY_RETURN_IF_ERROR(write_identity(fs, dir, node.identity));

  node.restored = {recovered->hard_state, recovered->start, std::move(recovered->entries), node.machine->applied().index};
  node.wal = std::move(recovered->wal);
  return node;
}

}  // namespace rallypoint::server
