#include "server/restore.h"

#include <openssl/evp.h>

#include <algorithm>
#include <memory>

#include "raft/types.h"
#include "server/bootstrap.h"
#include "server/snapshotter.h"
#include "server/state/command.pb.h"
#include "server/state/rows.h"
#include "storage/engine/rocks_engine.h"
#include "storage/snapshot/snapshot_file.h"
#include "storage/snapshot/snapshot_transfer.h"
#include "storage/snapshot/state_directory.h"
#include "storage/wal/wal.h"

namespace rallypoint::server {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;

/// The dump without the digest behind it, which it is checked against.
Status copy_checked(storage::FileSystem& fs, const std::string& from, const std::string& to) {
  auto source = fs.open(from, storage::FileSystem::Mode::kRead);
  if (!source.is_ok()) return Status::failed_precondition("can't read " + from + ": " + source.status().message());
  auto size = (*source)->size();
  if (!size.is_ok()) return size.status();
  if (*size <= kSnapshotDigestBytes) return Status::data_loss(from + " is no snapshot: it is " + std::to_string(*size) + " bytes long");
  auto target = fs.open(to, storage::FileSystem::Mode::kCreateOrOpen);
  if (!target.is_ok()) return target.status();
  RALLY_RETURN_IF_ERROR((*target)->truncate(0));
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest{EVP_MD_CTX_new(), EVP_MD_CTX_free};
  EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr);
  const uint64_t dump_bytes = *size - kSnapshotDigestBytes;
  std::string end;
  for (uint64_t at = 0; at < dump_bytes;) {
    auto piece = (*source)->read_at(at, std::min(kPieceBytes, dump_bytes - at));
    if (!piece.is_ok()) return piece.status();
    if (piece->empty()) return Status::data_loss(from + " became shorter while it was read");
    EVP_DigestUpdate(digest.get(), piece->data(), piece->size());
    RALLY_RETURN_IF_ERROR((*target)->write_at(at, *piece));
    at += piece->size();
    end = piece->substr(piece->size() - std::min<size_t>(piece->size(), kSnapshotPadBytes));
  }
  std::string computed(kSnapshotDigestBytes, '\0');
  EVP_DigestFinal_ex(digest.get(), reinterpret_cast<unsigned char*>(computed.data()), nullptr);
  auto stored = (*source)->read_at(dump_bytes, kSnapshotDigestBytes);
  if (!stored.is_ok()) return stored.status();
  if (*stored != computed)
    return Status::data_loss(from + " is damaged, or not a snapshot that Rallypoint saved: the SHA-256 at its end does not fit");
  // The dump ends with a letter; what pads it to whole pages of etcd's is not part of it.
  const size_t padding = end.size() - (end.find_last_not_of('\0') + 1);
  RALLY_RETURN_IF_ERROR((*target)->truncate(dump_bytes - padding));
  return (*target)->sync();
}

/// Takes the old members out of what was loaded; the meta row says who the member is now.
Status hand_over(storage::Engine& engine, const std::string& membership, DirectoryId directory) {
  auto row = engine.get(rows::kMeta);
  if (!row.is_ok()) return row.status();
  if (!row->has_value()) return Status::data_loss("the snapshot holds no meta row: it is of another kind of state");
  pb::StateMeta meta;
  if (!meta.ParseFromString(**row)) return Status::data_loss("the snapshot's meta row is malformed");
  meta.set_membership(membership);
  meta.set_founding(directory.value() | 1);
  storage::WriteBatch batch;
  batch.put(std::string(rows::kMeta), meta.SerializeAsString());
  for (std::string_view table : {rows::kMember, rows::kSession, rows::kAlarm}) batch.erase_range(std::string(table), rows::end_of(table));
  RALLY_RETURN_IF_ERROR(engine.write(batch));
  return engine.flush();
}

}  // namespace

Result<Restored> restore_snapshot(const Options& options, storage::FileSystem& fs, const std::string& snapshot) {
  if (options.initial_cluster.size() != 1 || !options.initial_cluster_is_new)
    return Status::invalid_argument("a snapshot is restored into a cluster of one: leave --initial-cluster out or name this member alone, "
                                    "start it, and add the others with member add");
  const std::string& dir = options.data_dir;
  if (Status made = fs.create_directories(dir); !made.is_ok())
    return Status::failed_precondition("can't make data directory " + dir + ": " + made.message());
  auto lock = DirectoryLock::acquire(dir);
  if (!lock.is_ok()) return lock.status();
  auto taken = fs.exists(dir + "/identity");
  if (!taken.is_ok()) return taken.status();
  if (*taken) return Status::failed_precondition("data directory " + dir + " belongs to a member already; give an empty --data-dir");
  for (const char* part : {"/wal", "/state"}) {  // of a try that was cut short
    RALLY_RETURN_IF_ERROR(fs.remove_all(dir + part));
    RALLY_RETURN_IF_ERROR(fs.create_directories(dir + part));
  }

  const std::string dump = dir + "/state/restore.part";
  RALLY_RETURN_IF_ERROR(copy_checked(fs, snapshot, dump));
  auto reader = storage::SnapshotReader::open(fs, dump);
  if (!reader.is_ok()) return Status(reader.status().code(), snapshot + ": " + reader.status().message());

  const Identity identity{cluster_id_of(options), member_id_of(options.initial_cluster.front(), options.initial_cluster_token),
                          random_directory_id(), options.name};
  // The only voter, bound to this directory: it needs nobody's vote, and is no founder of a blank cluster.
  raft::SnapshotMeta meta{(*reader)->point().term, (*reader)->point().index, bootstrap_membership(options)};
  meta.membership.voters.front().directory = identity.directory;
  const storage::SnapshotPoint point{meta.term, meta.index, raft::encode_membership(meta.membership).to_string()};

  auto state = storage::StateDirectory::open(fs, dir + "/state");
  if (!state.is_ok()) return state.status();
  auto path = state->prepare(point);
  if (!path.is_ok()) return path.status();
  uint64_t rows = 0;
  {
    auto engine = storage::RocksEngine::open(*path);
    if (!engine.is_ok()) return engine.status();
    auto loaded = storage::load_snapshot(fs, dump, **engine);
    if (!loaded.is_ok()) return loaded.status();
    rows = loaded->rows;
    RALLY_RETURN_IF_ERROR(hand_over(**engine, point.membership, identity.directory));
  }
  RALLY_RETURN_IF_ERROR(state->switch_to(point));
  RALLY_RETURN_IF_ERROR(state->remove_others());
  RALLY_RETURN_IF_ERROR(fs.remove(dump));

  auto log = storage::Wal::create(fs, dir + "/wal", identity.directory, {}, meta.membership);
  if (!log.is_ok()) return log.status();
  RALLY_RETURN_IF_ERROR(log->wal->restart_at(meta));
  raft::Write write;
  write.hard_state = raft::HardState{meta.term, NodeId(), meta.index};
  RALLY_RETURN_IF_ERROR(log->wal->append({&write, 1}));
  RALLY_RETURN_IF_ERROR(log->wal->sync());
  RALLY_RETURN_IF_ERROR(write_identity(fs, dir, identity));  // last: from here on it is a member's directory
  return Restored{identity.cluster_id, identity.member, meta.index, rows};
}

}  // namespace rallypoint::server
