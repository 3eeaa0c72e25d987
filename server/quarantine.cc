#include "server/quarantine.h"

namespace rallypoint::server {
namespace {
std::string note_of(const std::string& data_dir) { return data_dir + "/DIVERGED"; }
}  // namespace

Status leave_quarantine_note(storage::FileSystem& fs, const std::string& data_dir, const std::string& reason) {
  auto file = fs.open(note_of(data_dir), storage::FileSystem::Mode::kCreateOrOpen);
  if (!file.is_ok()) return file.status();
  RALLY_RETURN_IF_ERROR((*file)->write_at(0, reason + "\n"));
  RALLY_RETURN_IF_ERROR((*file)->sync());
  return fs.sync_directory(data_dir);
}

Result<std::optional<std::string>> put_quarantined_aside(storage::FileSystem& fs, const std::string& data_dir) {
  const auto exists = [&](const std::string& path) { return fs.exists(path); };
  auto noted = exists(note_of(data_dir));
  if (!noted.is_ok()) return noted.status();
  if (!*noted) return std::optional<std::string>();
  std::string aside;
  for (int i = 1;; ++i) {
    aside = data_dir + "/diverged-" + std::to_string(i);
    auto taken = exists(aside);
    if (!taken.is_ok()) return taken.status();
    if (!*taken) break;
  }
  RALLY_RETURN_IF_ERROR(fs.create_directories(aside));
  // The identity first: without it nothing here counts. The note last: until then this begins again.
  for (const char* name : {"identity", "wal", "state", "DIVERGED"}) {
    auto there = exists(data_dir + "/" + name);
    if (!there.is_ok()) return there.status();
    if (!*there) continue;
    RALLY_RETURN_IF_ERROR(fs.rename(data_dir + "/" + name, aside + "/" + name));
    RALLY_RETURN_IF_ERROR(fs.sync_directory(aside));
    RALLY_RETURN_IF_ERROR(fs.sync_directory(data_dir));
  }
  return std::optional<std::string>(aside);
}

}  // namespace rallypoint::server
