// The tree against a slow, obvious twin: a flat map from path to node, walked by string prefixes. Random requests and
// a clock that moves; every answer must be the same, and so must the whole listing at the end of each step.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "raft/base/random.h"
#include "storage/v2/v2_tree.h"
#include "tests/v2/support.h"

namespace rallypoint::v2 {
namespace {

using namespace testing;

class Twin {
 public:
  struct Item {
    bool dir = false;
    std::string value;
    uint64_t created = 0;
    uint64_t modified = 0;
    std::optional<int64_t> deadline_us;
    int64_t shown_ns = 0;
  };

  Twin() {
    items_["/torch"] = items_["/torch/elastic"] = items_["/torch/elastic/store"] = {true, "", 3, 3, {}, 0};
  }

  std::string write(const WriteRequest& request, const Clock& now) {
    const bool del = request.method == WriteRequest::Method::kDelete;
    const bool compares = request.prev_value || request.prev_index != 0;
    std::string path = request.path;
    if (request.method == WriteRequest::Method::kPost) {
      if (auto error = walk_error(path, true)) return *error;
      if (path != "/" && items_.contains(path) && !items_[path].dir) return fail(104, path);
      std::string name = std::to_string(index_ + 1);
      path = (path == "/" ? "" : path) + "/" + std::string(20 - name.size(), '0') + name;
      if (items_.contains(path)) return fail(105, path);
      return store("create", path, request, now);
    }
    if (path == "/") return del && compares ? fail(102, "") : fail(107, "/");
    const bool creating = !del && (request.prev_exist == false || (!compares && request.prev_exist != true));
    if (auto error = walk_error(path, creating && !(request.refresh && request.prev_exist != false))) return *error;
    const bool exists = items_.contains(path);
    const Item old = exists ? items_[path] : Item{};

    if (!del && request.prev_exist == false) {
      return exists ? fail(105, path) : store("create", path, request, now);
    }
    if (compares) {
      if (old.dir) return fail(102, path);
      std::string cause;
      if (request.prev_value && *request.prev_value != old.value) {
        cause = "[" + *request.prev_value + " != " + old.value + "]";
      }
      if (request.prev_index != 0 && request.prev_index != old.modified) {
        if (!cause.empty()) cause += " ";
        cause += "[" + std::to_string(request.prev_index) + " != " + std::to_string(old.modified) + "]";
      }
      if (!cause.empty()) return fail(101, cause);
      return del ? remove("compareAndDelete", path, now) : store("compareAndSwap", path, request, now);
    }
    if (del) {
      if (old.dir && !request.dir && !request.recursive) return fail(102, path);
      if (old.dir && !request.recursive && has_children(path)) return fail(108, path);
      return remove("delete", path, now);
    }
    if (request.prev_exist == true) {
      if (old.dir && !request.value.empty()) return fail(102, path);
      return store("update", path, request, now);
    }
    if (old.dir) return fail(102, path);
    return store("set", path, request, now);
  }

  std::vector<std::string> expire(const Clock& now) {
    std::vector<std::string> out;
    while (true) {
      const std::string* first = nullptr;
      for (auto& [path, item] : items_) {
        if (!item.deadline_us || *item.deadline_us > now.cluster_time.us) continue;
        if (!first || *item.deadline_us < *items_[*first].deadline_us) first = &path;
      }
      if (!first) return out;
      out.push_back(remove("expire", std::string(*first), now));
    }
  }

  std::string read(const std::string& path, bool recursive, const Clock& now) {
    if (path != "/") {
      if (auto error = walk_error(path, false)) return *error;
    }
    return "get " + show_at(path, recursive, true, now);
  }

  uint64_t index() const { return index_; }

 private:
  std::string fail(int code, const std::string& cause) {
    return std::to_string(code) + " " + cause + " @" + std::to_string(index_);
  }
  bool has_children(const std::string& path) {
    auto next = items_.upper_bound(path + "/");
    return next != items_.end() && next->first.starts_with(path + "/");
  }
  /// What stops a walk to `path`: a file on the way, or (unless it may be made) something missing.
  std::optional<std::string> walk_error(const std::string& path, bool may_create) {
    for (size_t end = path.find('/', 1); path != "/"; end = path.find('/', end + 1)) {
      const std::string prefix = path.substr(0, end);
      if (!items_.contains(prefix)) return may_create ? std::nullopt : std::optional(fail(100, prefix));
      if (end == std::string::npos) break;
      if (!items_[prefix].dir) return fail(104, prefix);
    }
    return std::nullopt;
  }
  std::string store(const std::string& action, const std::string& path, const WriteRequest& request,
                    const Clock& now) {
    ++index_;
    const bool existed = items_.contains(path);
    const std::string before = existed ? " <- " + show_at(path, false, false, now) : "";
    for (size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
      const std::string parent = path.substr(0, end);
      if (!items_.contains(parent)) items_[parent] = {true, "", index_, index_, {}, 0};
    }
    Item& item = items_[path];
    const bool replaces = action == "set" || action == "create";
    if (replaces) item.created = index_, item.dir = request.dir;
    if (!item.dir && !(existed && request.refresh)) item.value = request.value.to_string();
    if (item.dir) item.value.clear();
    if (!(item.dir && action == "update")) item.modified = index_;
    item.deadline_us.reset();
    item.shown_ns = 0;
    if (request.ttl_s) {
      item.deadline_us = now.cluster_time.us + *request.ttl_s * 1'000'000;
      item.shown_ns = now.wall_unix_ns + *request.ttl_s * 1'000'000'000;
    }
    const uint64_t kept = item.modified;
    item.modified = index_;
    std::string answer = action + " " + show_at(path, false, false, now) + before;
    items_[path].modified = kept;
    return answer;
  }
  std::string remove(const std::string& action, const std::string& path, const Clock& now) {
    ++index_;
    const Item old = items_[path];
    std::string answer = action + " " + path + (old.dir ? "/" : "") + " " + std::to_string(index_) + "," +
                         std::to_string(old.created) + " <- " + show_at(path, false, false, now);
    std::erase_if(items_, [&](const auto& item) {
      return item.first == path || item.first.starts_with(path + "/");
    });
    return answer;
  }
  std::string show_at(const std::string& path, bool recursive, bool list, const Clock& now) {
    std::string out;
    if (path == "/") {
      out = "/ 0,0";
    } else {
      const Item& item = items_[path];
      out = path + (item.dir ? "/" : "=" + item.value) + " " + std::to_string(item.modified) + "," +
            std::to_string(item.created);
      if (item.deadline_us) {
        const int64_t left = *item.deadline_us - now.cluster_time.us;
        if (left > 0) out += " ttl " + std::to_string((left + 999'999) / 1'000'000);
        out += " until " + std::to_string(item.shown_ns);
      }
    }
    if (!list) return out;
    // Children by name: not the order of whole paths, where "/a-" comes before "/a/".
    std::map<std::string, std::string> children;
    const std::string prefix = path == "/" ? "/" : path + "/";
    for (const auto& [child, item] : items_) {
      if (!child.starts_with(prefix)) continue;
      const std::string name = child.substr(prefix.size());
      if (name.find('/') != std::string::npos || name[0] == '_') continue;
      children[name] = child;
    }
    if (children.empty()) return out;
    out += " [";
    for (const auto& [name, child] : children) out += show_at(child, recursive, recursive, now) + "; ";
    return out + "]";
  }

  std::map<std::string, Item> items_;
  uint64_t index_ = 3;
};

std::string some_path(Random& random) {
  static constexpr const char* kNames[] = {"a", "a-", "b", "_h"};
  if (random.chance(1, 40)) return "/";
  std::string path;
  for (uint64_t n = random.between(1, 3); n > 0; --n) path += std::string("/") + kNames[random.below(4)];
  return path;
}

WriteRequest some_write(Random& random, uint64_t index) {
  WriteRequest request;
  const uint64_t kind = random.below(10);
  request.method = kind < 2   ? WriteRequest::Method::kDelete
                   : kind < 3 ? WriteRequest::Method::kPost
                              : WriteRequest::Method::kPut;
  request.path = some_path(random);
  if (random.chance(1, 5)) request.dir = true;
  if (random.chance(1, 6)) request.recursive = true;
  if (random.chance(3, 4)) request.value = Bytes(std::to_string(random.below(3)));
  if (random.chance(1, 5)) request.prev_exist = random.chance(1, 2);
  if (random.chance(1, 6)) request.prev_value = std::to_string(random.below(3));
  if (random.chance(1, 8)) request.prev_index = index - std::min(index, random.below(6));
  if (random.chance(1, 4)) request.ttl_s = static_cast<int64_t>(random.below(8));
  if (random.chance(1, 8)) {
    request.refresh = true;
    request.value = {};
    if (!request.ttl_s) request.ttl_s = 5;
  }
  return request;
}

TEST(V2TreeModel, AgreesWithAFlatMapOnRandomRequests) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Tree tree;
    Twin twin;
    int64_t now_ms = 0;
    for (int step = 0; step < 1000; ++step) {
      now_ms += static_cast<int64_t>(random.below(900));
      const Clock now = at(static_cast<double>(now_ms) / 1000);
      if (random.chance(1, 3)) {
        std::vector<std::string> expired;
        for (const EventPtr& event : tree.expire(now)) expired.push_back(show(*event));
        ASSERT_EQ(expired, twin.expire(now));
      }
      const WriteRequest request = some_write(random, tree.index());
      const auto foreseen = tree.would_fail(request);
      const Outcome outcome = tree.apply(request, now);
      ASSERT_EQ(show(outcome), twin.write(request, now)) << "step " << step << " path " << request.path;
      ASSERT_EQ(foreseen.has_value(), std::holds_alternative<Error>(outcome));
      if (foreseen) {
        ASSERT_EQ(show(Outcome(*foreseen)), show(outcome));
      }
      ASSERT_EQ(tree.index(), twin.index());

      const std::string path = some_path(random);
      const bool recursive = random.chance(1, 2);
      ASSERT_EQ(show(tree.read({path, recursive, true}, now)), twin.read(path, recursive, now));
      if (step % 50 == 0) {
        ASSERT_EQ(show(tree.read({"/", true, true}, now)), twin.read("/", true, now));
      }
    }
  }
}

/// Persistence and replication, on the same random requests: nodes whose batches are cut differently, one of which
/// restarts from its rows all the time.
TEST(V2TreeModel, RowsAndDigestsDoNotDependOnBatchesOrRestarts) {
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Tree each, some, restarting;
    RowStore each_rows, some_rows, restarting_rows;
    save(restarting, restarting_rows);
    int64_t now_ms = 0;
    for (int step = 0; step < 1500; ++step) {
      now_ms += static_cast<int64_t>(random.below(900));
      const Clock now = at(static_cast<double>(now_ms) / 1000);
      const WriteRequest request = some_write(random, each.index());
      for (Tree* tree : {&each, &some, &restarting}) {
        tree->expire(now);
        tree->apply(request, now);
      }
      save(each, each_rows);
      save(restarting, restarting_rows);
      if (random.chance(1, 20)) save(some, some_rows);
      if (random.chance(1, 30)) {
        Tree reloaded;
        reloaded.apply(put("/leftover", "of the state before"), now);
        ASSERT_EQ(reloaded.load(restarting_rows), Status::ok());
        restarting = std::move(reloaded);
        ASSERT_EQ(restarting.digest(), each.digest()) << "step " << step;
        ASSERT_EQ(restarting.next_deadline(), each.next_deadline());
        ASSERT_EQ(show(restarting.read({"/", true, true}, now)), show(each.read({"/", true, true}, now)));
        ASSERT_EQ(save(restarting, restarting_rows), 0u) << "loading is no change";
      }
      if (step % 100 == 0) {
        ASSERT_EQ(some.digest(), each.digest()) << "step " << step;
      }
    }
    save(some, some_rows);
    Tree from_each, from_some;
    ASSERT_EQ(from_each.load(each_rows), Status::ok());
    ASSERT_EQ(from_some.load(some_rows), Status::ok());
    EXPECT_EQ(from_each.digest(), each.digest());
    EXPECT_EQ(from_some.digest(), each.digest());
    EXPECT_EQ(from_some.history().dropped_through(), each.history().dropped_through());
  }
}

}  // namespace
}  // namespace rallypoint::v2
