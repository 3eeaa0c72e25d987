// Lessor: etcd's leases. A lease is a promise to delete its keys once nobody has renewed it for its time to live.
//
// Two parts. The replicated one (which leases there are, with what time to live, their checkpointed remainders, which keys
// hang on them) changes only by applied requests and is the same on every node. The leader's part (when each lease
// runs out) lives on the leader's monotonic clock, handed in as `now`, and is made anew by promote(). A lease expires only
// by a logged revoke that the leader proposes, void unless the entry that carries it has the proposer's term (the state
// machine checks; etcd#15247).
//
// How long a lease lives that nobody renews: its time, and at each change of the leader the grace and what had passed since
// the last checkpoint (at most checkpoint_every or half its time, rounded up to a second); and never less than its time.
//
// Pure; owned by the state machine; single-threaded. A million leases: everything here is O(log n) at most per request.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "raft/base/status.h"
#include "raft/base/units.h"
#include "storage/engine/engine.h"
#include "storage/mvcc/lease_book.h"

namespace rallypoint::lease {

class Lessor final : public mvcc::LeaseBook {
 public:
  struct Settings {
    int64_t ttl_min_s = 2;                             ///< shorter ones are raised to it (1.5 election timeouts, rounded up)
    int64_t ttl_max_s = 9'000'000'000;                 ///< more: OutOfRange "etcdserver: too large lease TTL"
    Duration checkpoint_every = Duration::seconds(60); ///< how often a lease's remainder is logged; a short one's: at half its time
  };
  explicit Lessor(Settings settings);
  ~Lessor() override;
  /// Replaces the state by the rows of `view`; attachments come from the keyspace afterwards.
  Status load(const storage::EngineView& view);

  // ---- replicated: by applied requests ----
  /// Effective time to live in seconds. FailedPrecondition "etcdserver: lease already exists", OutOfRange. `id` is not 0:
  /// the node that proposes chooses one.
  Result<int64_t> grant(int64_t id, int64_t ttl_s);
  /// Takes the lease out and returns its keys, sorted; the caller deletes them. NotFound "etcdserver: requested lease not found".
  Result<std::vector<std::string>> revoke(int64_t id);
  // Ids may be used again, by their clients' choice, and a leader's entry may reach the log when its lease is gone and another
  // has the id: so leaders name the grant, which has a number that is never used again.
  using Grant = uint64_t;
  /// As revoke, of a lease that ran out; nullopt = it is gone already.
  std::optional<std::vector<std::string>> expire(int64_t id, Grant grant);
  /// Notes that `remaining_s` was left; 0 = forget the note (the lease has been renewed since). Ignored if it is gone.
  void checkpoint(int64_t id, Grant grant, int64_t remaining_s);
  [[nodiscard]] bool exists(int64_t lease) const override;
  void attach(int64_t lease, std::string_view key) override;
  void detach(int64_t lease, std::string_view key) override;
  void collect_changes(storage::WriteBatch& batch);  ///< see "Rows" in lessor.cc

  // ---- reads ----
  struct Info {
    int64_t granted_s = 0;
    int64_t remaining_s = 0;  ///< checkpointed; 0 = none
    Grant grant = 0;
  };
  [[nodiscard]] std::optional<Info> find(int64_t id) const;
  [[nodiscard]] std::vector<std::string> keys(int64_t id) const;  ///< sorted
  [[nodiscard]] std::vector<int64_t> leases() const;              ///< by id
  [[nodiscard]] size_t size() const;
  [[nodiscard]] uint64_t digest() const;

  // ---- the leader's part ----
  /// This node leads now, and has applied an entry of its own term: every lease goes on from its checkpointed remainder, or
  /// its full time, plus `grace` (an election timeout).
  void promote(Instant now, Duration grace);
  void demote();
  [[nodiscard]] bool is_promoted() const;
  /// Renews to the full time; seconds, or nullopt: no such lease, or its revoke is under way (then the client hears TTL 0).
  /// `had_checkpoint` = a remainder is stored or on its way, which must be removed by a logged checkpoint of 0 before the
  /// client is answered, or the next leader would cut the lease short: propose it, and wait until !awaits_removal(id).
  struct Renewed {
    int64_t ttl_s = 0;
    bool had_checkpoint = false;
    Grant grant = 0;
  };
  std::optional<Renewed> renew(int64_t id, Instant now);
  [[nodiscard]] bool awaits_removal(int64_t id) const;
  /// Whole seconds left (floor, at least 0); on a follower the granted time. nullopt: unknown.
  [[nodiscard]] std::optional<int64_t> time_left_s(int64_t id, Instant now) const;
  /// At most `max` leases that have run out and whose revoke has not been handed out within `retry_after`.
  struct Due {
    int64_t id = 0;
    Grant grant = 0;
  };
  std::vector<Due> take_due(Instant now, size_t max, Duration retry_after);
  /// At most `max` leases whose remainder should be logged now, with it.
  struct Checkpoint {
    int64_t id = 0;
    Grant grant = 0;
    int64_t remaining_s = 0;
  };
  std::vector<Checkpoint> take_checkpoints(Instant now, size_t max);
  /// When take_due or take_checkpoints next has something, as far as is known.
  [[nodiscard]] std::optional<Instant> next_event() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rallypoint::lease
