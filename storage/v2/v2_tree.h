// Tree: the state behind etcd's v2 keys API: directories and files with an index of their own, TTLs, compare
// operations, and the history of the last events.
//
// Part of the replicated state machine; owned by the apply loop, single-threaded. Pure and deterministic: the same
// calls with the same clocks give the same state on every node, byte for byte. It never looks at a clock, never
// wakes a watcher (WatcherHub does) and never touches the engine: it reports what changed as rows (collect_changes)
// and is rebuilt from rows (load). Values are shared, never copied.
// Source of the rules: etcd 3.4's v2 API as observed (contract: codes, causes, indexes, quirks).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "raft/base/deadline_queue.h"
#include "raft/base/status.h"
#include "raft/base/units.h"
#include "storage/engine/engine.h"
#include "storage/v2/v2_history.h"
#include "storage/v2/v2_stats.h"
#include "storage/v2/v2_types.h"

namespace rallypoint::v2 {

struct Node;

/// What time it is for one command: the same on every node that applies it.
struct Clock {
  Instant cluster_time;      ///< drives the TTLs
  int64_t wall_unix_ns = 0;  ///< only shown, as `expiration`
};

class Tree {
 public:
  /// The index of a fresh tree; the first write gets the next one. The same as a fresh etcd shows.
  static constexpr uint64_t kFirstIndex = 3;
  /// Exists from the start, so that torch's EtcdStore may read before anybody wrote (pytorch#132950).
  static constexpr std::string_view kStoreDirectory = "/torch/elastic/store";

  /// A fresh tree: kStoreDirectory and nothing else.
  Tree();
  ~Tree();
  Tree(Tree&&) noexcept;
  Tree& operator=(Tree&&) noexcept;

  /// Executes a write: all of it or, with an Error, nothing. An event that is no refresh is in history() after.
  Outcome apply(const WriteRequest& request, const Clock& now);

  /// The error that apply() would answer right now, or nullopt if it would succeed; changes nothing. Lets a losing
  /// compare be answered like a linearizable read, without a log entry.
  [[nodiscard]] std::optional<Error> would_fail(const WriteRequest& request) const;

  [[nodiscard]] Outcome read(const ReadRequest& request, const Clock& now) const;

  /// Deletes everything that is due, earliest deadline first (equal ones by path): one event each, in history() too.
  /// Whoever applies writes calls this before them, so that nobody sees a key after its deadline.
  std::vector<EventPtr> expire(const Clock& now);
  /// When expire() will next have something to do. Not const: forgets deadlines that were moved.
  [[nodiscard]] std::optional<Instant> next_deadline();

  /// X-Etcd-Index: grows by one with every successful write and expiry.
  [[nodiscard]] uint64_t index() const { return index_; }
  [[nodiscard]] const History& history() const { return history_; }
  /// Counts of apply(), read() and expire() in this process.
  [[nodiscard]] const StoreStats& stats() const { return stats_; }

  /// Adds what changed since the last call (a fresh tree: everything) as rows: one per changed node, one with the
  /// new events, one with the index. Call it once per apply batch; without it the list of changes grows.
  void collect_changes(storage::WriteBatch& batch);
  /// Replaces everything by what the rows of `view` say; no rows = a fresh tree. DataLoss when a row is damaged,
  /// and then the tree is not to be used. stats() stay.
  Status load(const storage::EngineView& view);
  /// Identifies tree, history and index: equal states give equal digests, whatever the batches were. Visits all.
  [[nodiscard]] uint64_t digest() const;

  /// All rows lie in [kRowsBegin, kRowsEnd).
  static constexpr std::string_view kRowsBegin = "2";
  static constexpr std::string_view kRowsEnd = "3";

 private:
  /// What a path leads to: the node, or how far one gets.
  struct Place {
    Node* node = nullptr;      ///< nullptr = does not exist
    Node* deepest = nullptr;   ///< the last node on the way that exists; == node if that does
    std::string_view missing;  ///< the path up to the first component that does not exist
  };
  struct HistoryRow {
    uint64_t first;
    uint64_t last;
  };

  [[nodiscard]] Place find(std::string_view path) const;
  [[nodiscard]] std::optional<Error> check(const WriteRequest& request, Action action, const Place& place) const;
  [[nodiscard]] std::optional<Error> check_compare(const WriteRequest& request, const Node& node) const;
  [[nodiscard]] Error error(int code, std::string cause) const { return {code, std::move(cause), index_}; }

  uint64_t next_index();
  EventPtr put(const WriteRequest& request, Action action, const Place& place, const Clock& now);
  EventPtr remove(Action action, Node& node, const Clock& now);

  /// Creates the directories between what exists and the last component of `path`; returns the last of them.
  Node& make_parents(const Place& place, std::string_view path, uint64_t index);
  /// The same, and `path` itself as a directory.
  Node& make_directory(const Place& place, std::string_view path, uint64_t index);
  Node& add_child(Node& parent, std::string path, uint64_t index);
  void detach(Node& node);
  void forget(Node& node);
  void set_deadline(Node& node, std::optional<int64_t> ttl_s, const Clock& now);
  void mark_changed(Node& node);
  void reset();

  void save_history(storage::WriteBatch& batch);
  Status load_nodes(const storage::EngineView& view);
  Status load_history(const storage::EngineView& view);

  std::unique_ptr<Node> root_;
  /// Every node but the root by its whole path (a view into node->path): what is written again and again is found
  /// without a walk through large directories.
  std::unordered_map<std::string_view, Node*> by_path_;
  uint64_t index_ = kFirstIndex;
  History history_;
  DeadlineQueue<std::string> deadlines_;  ///< by path
  mutable StoreStats stats_;

  // What collect_changes() has not reported yet, and what it has.
  std::vector<Node*> changed_;           ///< nullptr where the node has gone since
  std::vector<std::string> erased_;      ///< paths whose rows must go
  bool meta_changed_ = true;
  uint64_t saved_through_ = 0;           ///< events up to this index are in the engine
  std::deque<HistoryRow> history_rows_;  ///< in the engine, oldest first
};

}  // namespace rallypoint::v2
