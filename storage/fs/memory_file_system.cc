#include "storage/fs/memory_file_system.h"

#include <algorithm>
#include <set>

namespace rallypoint::storage {
namespace {

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

bool is_below(const std::string& path, const std::string& directory) {
  return path.size() > directory.size() && path.starts_with(directory) && path[directory.size()] == '/';
}

Status halted_status() {
  return Status::unavailable("the power is off (MemoryFileSystem::halt_at)");
}

}  // namespace

class MemoryFile final : public File {
 public:
  MemoryFile(MemoryFileSystem& owner, MemoryFileSystem::NodePtr node, std::string path, bool writable)
      : owner_(owner),
        node_(std::move(node)),
        path_(std::move(path)),
        writable_(writable),
        life_(owner.life_) {}

  Status write_at(uint64_t offset, std::string_view data) override {
    return write_at(offset, std::vector<std::string_view>{data});
  }

  Status write_at(uint64_t offset, const std::vector<std::string_view>& pieces) override {
    RALLY_RETURN_IF_ERROR(alive());
    if (!writable_) return Status::failed_precondition("write " + path_ + ": opened for reading only");
    MemoryFileSystem::Change change{.offset = offset};
    for (const std::string_view piece : pieces) change.data += piece;
    Status status;
    const auto verdict = owner_.count(status);
    if (verdict == MemoryFileSystem::Verdict::kFail) return status;
    if (owner_.capacity_) {
      const uint64_t used = owner_.used_bytes() - node_->data.size();  // by all others
      const uint64_t room = *owner_.capacity_ > used ? *owner_.capacity_ - used : 0;
      if (offset + change.data.size() > std::max<uint64_t>(room, node_->data.size())) {
        status = Status::resource_exhausted("write " + path_ + ": the disk is full");
        change.data.resize(room > offset ? std::min<uint64_t>(change.data.size(), room - offset) : 0);
      }
    }
    if (!change.data.empty()) {
      MemoryFileSystem::apply(change, node_->data);
      node_->pending.push_back(std::move(change));
    }
    return status;
  }

  Result<std::string> read_at(uint64_t offset, size_t count) const override {
    RALLY_RETURN_IF_ERROR(alive());
    if (offset >= node_->data.size()) return std::string();
    return node_->data.substr(offset, count);
  }

  Status sync() override {
    RALLY_RETURN_IF_ERROR(alive());
    Status status;
    if (owner_.count(status) != MemoryFileSystem::Verdict::kGo) return status;
    ++owner_.syncs_;
    if (!owner_.sync_failure_.is_ok()) {
      node_->pending.clear();  // the kernel marks the pages clean although the disk never got them
      return owner_.sync_failure_;
    }
    for (const auto& change : node_->pending) MemoryFileSystem::apply(change, node_->durable);
    node_->pending.clear();
    return Status::ok();
  }

  Status truncate(uint64_t size) override {
    RALLY_RETURN_IF_ERROR(alive());
    Status status;
    if (owner_.count(status) == MemoryFileSystem::Verdict::kFail) return status;
    MemoryFileSystem::Change change{.truncate = true, .offset = size};
    MemoryFileSystem::apply(change, node_->data);
    node_->pending.push_back(std::move(change));
    return status;
  }

  Result<uint64_t> size() const override {
    RALLY_RETURN_IF_ERROR(alive());
    return node_->data.size();
  }

 private:
  [[nodiscard]] Status alive() const {
    if (owner_.halted_) return halted_status();
    if (life_ != owner_.life_) return Status::unavailable(path_ + " was opened before the crash");
    return Status::ok();
  }

  MemoryFileSystem& owner_;
  MemoryFileSystem::NodePtr node_;
  std::string path_;
  bool writable_;
  uint64_t life_;
};

// ---- operations -------------------------------------------------------------------------------------------

MemoryFileSystem::Verdict MemoryFileSystem::count(Status& status) {
  if (halted_) {
    status = halted_status();
    return Verdict::kFail;
  }
  ++operations_;
  if (operations_ == fail_at_) {
    status = fail_status_;
    return Verdict::kFail;
  }
  if (operations_ == halt_at_) {
    halted_ = true;
    status = halted_status();
    return Verdict::kHalt;
  }
  return Verdict::kGo;
}

void MemoryFileSystem::apply(const Change& change, std::string& data) {
  if (change.truncate) {
    data.resize(change.offset);
    return;
  }
  if (data.size() < change.offset + change.data.size()) data.resize(change.offset + change.data.size());
  data.replace(change.offset, change.data.size(), change.data);
}

void MemoryFileSystem::apply(const NameChange& change, std::map<std::string, NodePtr>& names) {
  if (!change.from.empty()) names.erase(change.from);
  if (change.node) {
    names[change.path] = change.node;
  } else {
    names.erase(change.path);
  }
}

Status MemoryFileSystem::change_names(NameChange change) {
  Status status;
  if (count(status) == Verdict::kFail) return status;
  apply(change, names_);
  pending_names_.push_back(std::move(change));
  return status;
}

Result<std::unique_ptr<File>> MemoryFileSystem::open(const std::string& path, Mode mode) {
  if (halted_) return halted_status();
  const auto found = names_.find(path);
  if (found == names_.end()) {
    if (mode == Mode::kRead || mode == Mode::kReadWrite)
      return Status::not_found("open " + path + ": no such file");
    if (const std::string parent = parent_of(path); !parent.empty() && !directories_.contains(parent)) {
      return Status::not_found("open " + path + ": no such directory");
    }
    RALLY_RETURN_IF_ERROR(change_names({.path = path, .node = std::make_shared<Node>()}));
  } else if (mode == Mode::kCreate) {
    return Status::already_exists("open " + path + ": the file exists");
  }
  return std::unique_ptr<File>(
      std::make_unique<MemoryFile>(*this, names_.at(path), path, mode != Mode::kRead));
}

Status MemoryFileSystem::create_directories(const std::string& path) {
  if (directories_.contains(path)) return halted_ ? halted_status() : Status::ok();
  Status status;
  if (count(status) != Verdict::kGo) return status;
  for (std::string at = path; !at.empty(); at = parent_of(at)) directories_[at] = true;
  return Status::ok();
}

Result<std::vector<std::string>> MemoryFileSystem::list(const std::string& directory) {
  if (halted_) return halted_status();
  if (!directories_.contains(directory))
    return Status::not_found("list " + directory + ": no such directory");
  std::set<std::string> names;
  const auto add = [&](const std::string& path) {
    if (!is_below(path, directory)) return;
    const std::string rest = path.substr(directory.size() + 1);
    names.insert(rest.substr(0, rest.find('/')));
  };
  for (const auto& [path, node] : names_) add(path);
  for (const auto& [path, present] : directories_) add(path);
  return std::vector<std::string>(names.begin(), names.end());
}

Result<bool> MemoryFileSystem::exists(const std::string& path) {
  if (halted_) return halted_status();
  return names_.contains(path) || directories_.contains(path);
}

Status MemoryFileSystem::rename(const std::string& from, const std::string& to) {
  const auto found = names_.find(from);
  if (found == names_.end()) return Status::not_found("rename " + from + ": no such file");
  return change_names({.from = from, .path = to, .node = found->second});
}

Status MemoryFileSystem::remove(const std::string& path) {
  if (!names_.contains(path)) return Status::not_found("remove " + path + ": no such file");
  return change_names({.path = path});
}

Status MemoryFileSystem::remove_all(const std::string& path) {
  if (halted_) return halted_status();
  std::vector<std::string> files;
  for (const auto& [name, node] : names_) {
    if (name == path || is_below(name, path)) files.push_back(name);
  }
  for (const std::string& name : files) RALLY_RETURN_IF_ERROR(remove(name));
  std::erase_if(directories_,
                [&](const auto& entry) { return entry.first == path || is_below(entry.first, path); });
  // Durable when it returns, as PosixFileSystem's is.
  std::erase_if(pending_names_, [&](const NameChange& change) {
    if (!is_below(change.path, path)) return false;
    apply(change, durable_names_);
    return true;
  });
  return Status::ok();
}

Status MemoryFileSystem::sync_directory(const std::string& path) {
  if (!path.empty() && !directories_.contains(path)) {
    return Status::not_found("sync " + path + ": no such directory");
  }
  Status status;
  if (count(status) != Verdict::kGo) return status;
  ++syncs_;
  if (!sync_failure_.is_ok()) return sync_failure_;
  std::erase_if(pending_names_, [&](const NameChange& change) {
    if (parent_of(change.path) != path && (change.from.empty() || parent_of(change.from) != path))
      return false;
    apply(change, durable_names_);
    return true;
  });
  return Status::ok();
}

// ---- faults -----------------------------------------------------------------------------------------------

// Each sector keeps the state after some prefix of the changes that touched it, chosen by itself.
void MemoryFileSystem::lose(Node& node, Random& random) const {
  if (node.pending.empty()) {
    node.data = node.durable;
    return;
  }
  uint64_t size = node.durable.size();
  std::vector<uint64_t> sizes{size};
  uint64_t touched_end = 0;
  for (const Change& change : node.pending) {
    size = change.truncate ? change.offset : std::max<uint64_t>(size, change.offset + change.data.size());
    sizes.push_back(size);
    touched_end = std::max(touched_end, size);
  }
  std::string after = node.durable;
  after.resize(std::max<uint64_t>(touched_end, after.size()));
  for (uint64_t sector = 0; sector < after.size(); sector += sector_bytes_) {
    const uint64_t sector_end = std::min<uint64_t>(sector + sector_bytes_, after.size());
    std::vector<const Change*> touching;
    for (const Change& change : node.pending) {
      const uint64_t change_end = change.truncate ? UINT64_MAX : change.offset + change.data.size();
      if (change.offset < sector_end && change_end > sector) touching.push_back(&change);
    }
    if (touching.empty()) continue;
    const uint64_t kept = random.below(touching.size() + 1);
    for (uint64_t i = 0; i < kept; ++i) {
      const Change& change = *touching[i];
      const uint64_t from = std::max(change.offset, sector);
      if (change.truncate) {
        std::fill(after.begin() + static_cast<ptrdiff_t>(from),
                  after.begin() + static_cast<ptrdiff_t>(sector_end), 0);
      } else {
        const uint64_t to = std::min<uint64_t>(change.offset + change.data.size(), sector_end);
        after.replace(from, to - from, change.data, from - change.offset, to - from);
      }
    }
  }
  after.resize(sizes[random.below(sizes.size())]);
  node.durable = after;
  node.data = std::move(after);
  node.pending.clear();
}

void MemoryFileSystem::crash(uint64_t seed) {
  Random random(seed);
  for (const NameChange& change : pending_names_) {
    if (random.chance(1, 2)) apply(change, durable_names_);
  }
  pending_names_.clear();
  names_ = durable_names_;
  std::set<Node*> seen;
  for (const auto& [path, node] : names_) {
    if (seen.insert(node.get()).second) lose(*node, random);
  }
  kill_process();
}

void MemoryFileSystem::kill_process() {
  ++life_;
  halted_ = false;
  halt_at_ = fail_at_ = 0;
  sync_failure_ = Status::ok();
}

uint64_t MemoryFileSystem::used_bytes() const {
  uint64_t used = 0;
  for (const auto& [path, node] : names_) used += node->data.size();
  return used;
}

const std::string& MemoryFileSystem::contents(const std::string& path) const {
  const auto found = names_.find(path);
  RALLY_CHECK(found != names_.end(), "path", path);
  return found->second->data;
}

void MemoryFileSystem::set_contents(const std::string& path, std::string data) {
  NodePtr& node = names_[path];
  if (!node) node = std::make_shared<Node>();
  durable_names_[path] = node;
  node->data = data;
  node->durable = std::move(data);
  node->pending.clear();
}

}  // namespace rallypoint::storage
