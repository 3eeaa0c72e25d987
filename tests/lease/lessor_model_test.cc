// Leases through changes of the leader, as the node drives them: grants, revokes and checkpoints are entries of a log that
// every lessor applies; an entry is lost or void when its leader is gone; renewals are acknowledged as the lease desk does.
// What must hold, whatever happens: a lease whose renewal was acknowledged does not end before its time; a lease that nobody
// renews ends within its time, plus for every change of the leader the grace and one checkpoint interval; the lessors of all
// members agree. Seeded: a failure prints the seed.
#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "raft/base/random.h"
#include "tests/lease/support.h"

namespace rallypoint::lease {
namespace {

using namespace testing;

class LeaseModel {
 public:
  explicit LeaseModel(uint64_t seed) : random_(seed) {
    settings_.ttl_min_s = 2;
    settings_.checkpoint_every = Duration::seconds(static_cast<int64_t>(5 + random_.below(20)));
    grace_ = Duration::millis(static_cast<int64_t>(random_.below(1000)));
    change_odds_ = 20 + random_.below(500);
    ttl_most_s_ = 10 + random_.below(600);
    for (int i = 0; i < 3; ++i) members_.push_back(std::make_unique<Lessor>(settings_));
    members_[0]->promote(now_, grace_);
  }

  void run() {
    for (int step = 0; step < 6000 && !::testing::Test::HasFatalFailure(); ++step) {
      now_ = now_ + Duration::micros(static_cast<int64_t>(random_.below(1'000'000)));
      if (random_.below(change_odds_) == 0) change_leader();
      act();
      tend();
      apply_some();
      check();
    }
  }

 private:
  struct Entry {
    enum class Kind { kGrant, kRevoke, kExpire, kCheckpoint } kind;
    int64_t id = 0;
    Lessor::Grant grant = 0;
    int64_t seconds = 0;
  };
  struct Twin {
    int64_t ttl_s = 0;
    Instant safe_until;  ///< by the last acknowledged renewal
    Instant ends_by;     ///< at the latest
  };
  struct Held {
    Instant renewed_at;
    int64_t id = 0;
  };

  Lessor& leader() { return *members_[leader_]; }
  void propose(Entry::Kind kind, int64_t id, Lessor::Grant grant, int64_t seconds = 0) { pending_.push_back({kind, id, grant, seconds}); }

  void act() {
    const auto id = static_cast<int64_t>(random_.below(12)) - 6;
    if (id == 0) return;
    switch (random_.below(10)) {
      case 0: return propose(Entry::Kind::kGrant, id, 0, static_cast<int64_t>(1 + random_.below(ttl_most_s_)));
      case 1:
        if (random_.chance(1, 10)) propose(Entry::Kind::kRevoke, id, 0);
        return;
      case 2:
      case 3:
      case 4:
      case 5:
        // Everybody forgets its lease for a while now and then.
        if ((static_cast<uint64_t>(now_.us) / 200'000'000 + static_cast<uint64_t>(id * 5)) % 3 != 0) renew(id);
        return;
      default: return;
    }
  }
  void renew(int64_t id) {
    const auto renewed = leader().renew(id, now_);
    if (!renewed) return;
    // It ends at its full time from now at the earliest, acknowledged or not: that raises the upper bound.
    Twin& twin = twins_.at(id);
    twin.ends_by = now_ + Duration::seconds(twin.ttl_s);
    if (!renewed->had_checkpoint) return acknowledge({now_, id});
    bool proposed = false;
    for (const Held& held : held_) proposed |= held.id == id;
    if (!proposed) propose(Entry::Kind::kCheckpoint, id, renewed->grant, 0);
    held_.push_back({now_, id});
  }
  void acknowledge(const Held& held) {
    if (auto it = twins_.find(held.id); it != twins_.end())
      it->second.safe_until = std::max(it->second.safe_until, held.renewed_at + Duration::seconds(it->second.ttl_s));
  }
  void tend() {
    if (random_.chance(1, 3)) return;  // a slow turn
    for (const auto& [id, grant] : leader().take_due(now_, 1 + random_.below(5), Duration::seconds(3))) propose(Entry::Kind::kExpire, id, grant);
    for (const auto& [id, grant, seconds] : leader().take_checkpoints(now_, 1 + random_.below(5))) propose(Entry::Kind::kCheckpoint, id, grant, seconds);
  }
  void change_leader() {
    // What was proposed is appended by the old term or lost; some of it comes in a later term and is void then.
    const size_t kept = random_.below(pending_.size() + 1);
    pending_.resize(kept);
    while (!pending_.empty()) apply_one();
    leader().demote();
    leader_ = random_.below(members_.size());
    held_.clear();
    now_ = now_ + Duration::micros(static_cast<int64_t>(random_.below(3'000'000)));
    leader().promote(now_, grace_);
    // The time without a leader passed unseen, too: a lease restarts from its last note.
    for (auto& [id, twin] : twins_)
      twin.ends_by = std::max(twin.ends_by, now_) + grace_ + std::min(settings_.checkpoint_every, Duration::micros(twin.ttl_s * 500'000)) + Duration::seconds(1) + Duration::seconds(3);
  }
  void apply_some() {
    if (stalled_ > 0 || random_.chance(1, 15)) {  // the log does not move for a while
      stalled_ = stalled_ > 0 ? stalled_ - 1 : random_.below(10);
      return;
    }
    for (uint64_t n = 2 + random_.below(4); n > 0 && !pending_.empty(); --n) apply_one();
    for (auto it = held_.begin(); it != held_.end();) {
      if (leader().awaits_removal(it->id)) {
        ++it;
        continue;
      }
      acknowledge(*it);
      it = held_.erase(it);
    }
  }
  void apply_one() {
    const Entry entry = pending_.front();
    pending_.pop_front();
    for (auto& member : members_) apply(*member, entry);
    switch (entry.kind) {
      case Entry::Kind::kGrant:
        if (const auto info = leader().find(entry.id); info && !twins_.contains(entry.id))
          twins_[entry.id] = {info->granted_s, now_ + Duration::seconds(info->granted_s), now_ + Duration::seconds(info->granted_s)};
        break;
      case Entry::Kind::kExpire:
        if (auto it = twins_.find(entry.id); it != twins_.end() && !leader().exists(entry.id)) {
          ASSERT_GE(now_, it->second.safe_until) << "lease " << entry.id << " ended before its time";
          twins_.erase(it);
        }
        break;
      case Entry::Kind::kRevoke: twins_.erase(entry.id); break;
      case Entry::Kind::kCheckpoint: break;
    }
  }
  static void apply(Lessor& lessor, const Entry& entry) {
    switch (entry.kind) {
      case Entry::Kind::kGrant: (void)lessor.grant(entry.id, entry.seconds); break;
      case Entry::Kind::kRevoke: (void)lessor.revoke(entry.id); break;
      case Entry::Kind::kExpire: (void)lessor.expire(entry.id, entry.grant); break;
      case Entry::Kind::kCheckpoint: lessor.checkpoint(entry.id, entry.grant, entry.seconds); break;
    }
  }
  void check() {
    for (auto& member : members_) ASSERT_EQ(member->digest(), members_[0]->digest());
    ASSERT_EQ(leader().size(), twins_.size());
    // Turns are slow here, and proposals wait up to ten of them: the slack is theirs.
    for (const auto& [id, twin] : twins_) {
      ASSERT_LE(now_, twin.ends_by + Duration::seconds(25)) << "lease " << id << " does not end";
      ASSERT_LE(*leader().time_left_s(id, now_), twin.ttl_s + grace_.us / 1'000'000 + 1);
    }
  }

  Random random_;
  Lessor::Settings settings_;
  Duration grace_;
  uint64_t change_odds_ = 0;
  uint64_t ttl_most_s_ = 0;
  uint64_t stalled_ = 0;
  std::vector<std::unique_ptr<Lessor>> members_;
  size_t leader_ = 0;
  Instant now_ = at(0);
  std::deque<Entry> pending_;
  std::vector<Held> held_;
  std::map<int64_t, Twin> twins_;
};

TEST(LessorModel, NoLeaseEndsEarlyAndNoneLivesForEver) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    LeaseModel(seed).run();
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace rallypoint::lease
