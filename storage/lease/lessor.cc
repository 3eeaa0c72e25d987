#include "storage/lease/lessor.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "raft/base/check.h"
#include "storage/lease/deadline_heap.h"

namespace rallypoint::lease {
namespace {

// Rows: 'l' + id:be64 (sign bit flipped) -> granted_s:be64 remaining_s:be64 grant:be64
//       'l' + "#"                        -> the number of the newest grant:be64
constexpr char kRowPrefix = 'l';
constexpr std::string_view kGrantsRow = "l#";

/// Negative ids are legal (etcd#14239): the sign bit is flipped, so that rows lie in the order of the numbers.
std::string row_key(int64_t id) {
  const uint64_t number = static_cast<uint64_t>(id) ^ uint64_t{1} << 63;
  std::string key(1, kRowPrefix);
  for (int shift = 56; shift >= 0; shift -= 8) key.push_back(static_cast<char>(number >> shift));
  return key;
}

void append_number(std::string& out, int64_t number) {
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(static_cast<uint64_t>(number) >> shift));
}
int64_t number_at(std::string_view bytes, size_t offset) {
  uint64_t number = 0;
  for (size_t i = 0; i < 8; ++i) number = number << 8 | static_cast<uint8_t>(bytes[offset + i]);
  return static_cast<int64_t>(number);
}

constexpr int64_t kSecond = 1'000'000;
/// Times that do not fit the clock: as good as never.
constexpr int64_t kFarSeconds = int64_t{1} << 40;

uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  return x ^ x >> 33;
}

}  // namespace

struct Lessor::State {
  struct Lease {
    int64_t granted_s = 0;
    int64_t remaining_s = 0;                        ///< checkpointed; 0 = none
    Grant grant = 0;
    std::unique_ptr<std::set<std::string, std::less<>>> keys;  ///< null = none
    // The leader's part. A lease stays where it is in a heap when it is renewed: when its time there comes it is looked
    // at, and put off. So renewing costs no more than finding it.
    Instant expires;                                ///< 0 = not looked at since it was granted
    Instant checkpoint_at;                          ///< when the remainder should be logged next
    uint32_t expiry_place = UINT32_MAX;
    uint32_t checkpoint_place = UINT32_MAX;
    bool revoke_handed_out = false;
    bool checkpoint_under_way = false;              ///< handed out, not applied yet
    bool removal_under_way = false;                 ///< renew() has asked for the removal of the note, it is not applied yet
  };
  using Named = std::pair<const int64_t, Lease>;
  struct ExpiryPlace {
    uint32_t& operator()(Named& named) const { return named.second.expiry_place; }
  };
  struct CheckpointPlace {
    uint32_t& operator()(Named& named) const { return named.second.checkpoint_place; }
  };

  explicit State(const Settings& s) : settings(s) {}
  Settings settings;
  std::unordered_map<int64_t, Lease> leases;
  std::set<int64_t> changed;
  Grant grants = 0;  ///< number of the newest
  bool grants_changed = false;
  uint64_t digest = 0;
  bool promoted = false;
  DeadlineHeap<Named, ExpiryPlace> expiries;
  DeadlineHeap<Named, CheckpointPlace> checkpoints;

  static uint64_t digest_of(int64_t id, const Lease& lease) {
    return mix(static_cast<uint64_t>(id) * 31 + mix(static_cast<uint64_t>(lease.granted_s) + mix(lease.grant)) + static_cast<uint64_t>(lease.remaining_s));
  }
  static Instant after(Instant now, int64_t seconds) { return now + Duration::micros(std::min(seconds, kFarSeconds) * kSecond); }
  /// Clients renew in a third of the time, so that a short lease gets a note only when it has been left alone; without one
  /// a leader that changes more often than it runs out would keep it for ever.
  [[nodiscard]] Duration checkpoint_every(const Lease& lease) const {
    return std::min(settings.checkpoint_every, Duration::micros(std::min(lease.granted_s, kFarSeconds) * kSecond / 2));
  }
  /// It has `seconds` from now on, and `extra`.
  void start(Named& named, Instant now, int64_t seconds, Duration extra) {
    Lease& lease = named.second;
    lease.expires = after(now, seconds) + extra;
    lease.revoke_handed_out = false;
    if (lease.expiry_place == UINT32_MAX) expiries.push(lease.expires, named);
    lease.checkpoint_at = now + checkpoint_every(lease);
    if (lease.checkpoint_place == UINT32_MAX) checkpoints.push(lease.checkpoint_at, named);
  }
  void stop_clock() {
    promoted = false;
    expiries.clear();
    checkpoints.clear();
    for (auto& [id, lease] : leases) {
      lease.expires = Instant();
      lease.revoke_handed_out = lease.checkpoint_under_way = lease.removal_under_way = false;
    }
  }
};

Lessor::Lessor(Settings settings) : state_(std::make_unique<State>(settings)) {}
Lessor::~Lessor() = default;

Status Lessor::load(const storage::EngineView& view) {
  State& state = *state_;
  state.stop_clock();
  state.leases.clear();
  state.changed.clear();
  state.grants = 0;
  state.grants_changed = false;
  state.digest = 0;
  Status damage;
  RALLY_RETURN_IF_ERROR(view.scan(std::string(1, kRowPrefix), std::string(1, kRowPrefix + 1), [&](std::string_view key, std::string_view value) {
    if (key == kGrantsRow && value.size() == 8) return state.grants = static_cast<Grant>(number_at(value, 0)), true;
    if (key.size() != 9 || value.size() != 24) return damage = Status::data_loss("a lease row of the state is malformed"), false;
    const int64_t id = static_cast<int64_t>(static_cast<uint64_t>(number_at(key, 1)) ^ uint64_t{1} << 63);
    auto& lease = state.leases[id];
    lease.granted_s = number_at(value, 0);
    lease.remaining_s = number_at(value, 8);
    lease.grant = static_cast<Grant>(number_at(value, 16));
    if (lease.granted_s <= 0 || lease.remaining_s < 0 || lease.remaining_s > lease.granted_s)
      return damage = Status::data_loss("a lease row of the state has impossible times"), false;
    state.digest += State::digest_of(id, lease);
    return true;
  }));
  return damage;
}

Result<int64_t> Lessor::grant(int64_t id, int64_t ttl_s) {
  State& state = *state_;
  RALLY_CHECK(id != 0);
  if (ttl_s > state.settings.ttl_max_s) return Status(Code::kOutOfRange, "etcdserver: too large lease TTL");
  if (state.leases.contains(id)) return Status::failed_precondition("etcdserver: lease already exists");
  auto& named = *state.leases.try_emplace(id).first;
  State::Lease& lease = named.second;
  lease.granted_s = std::max(ttl_s, state.settings.ttl_min_s);
  lease.grant = ++state.grants;
  state.grants_changed = true;
  state.digest += State::digest_of(id, lease);
  state.changed.insert(id);
  // At the leader it runs from the leader's next look at the clock (next_event), which is a tick at most.
  if (state.promoted) state.expiries.push(Instant(), named);
  return lease.granted_s;
}

Result<std::vector<std::string>> Lessor::revoke(int64_t id) {
  State& state = *state_;
  auto it = state.leases.find(id);
  if (it == state.leases.end()) return Status::not_found("etcdserver: requested lease not found");
  std::vector<std::string> keys = this->keys(id);
  state.digest -= State::digest_of(id, it->second);
  state.expiries.erase(*it);
  state.checkpoints.erase(*it);
  state.leases.erase(it);
  state.changed.insert(id);
  return keys;
}

std::optional<std::vector<std::string>> Lessor::expire(int64_t id, Grant grant) {
  auto it = state_->leases.find(id);
  if (it == state_->leases.end() || it->second.grant != grant) return std::nullopt;
  return *revoke(id);
}

void Lessor::checkpoint(int64_t id, Grant grant, int64_t remaining_s) {
  State& state = *state_;
  auto it = state.leases.find(id);
  if (it == state.leases.end() || it->second.grant != grant) return;
  State::Lease& lease = it->second;
  state.digest -= State::digest_of(id, lease);
  lease.remaining_s = std::clamp<int64_t>(remaining_s, 0, lease.granted_s);
  state.digest += State::digest_of(id, lease);
  (remaining_s == 0 ? lease.removal_under_way : lease.checkpoint_under_way) = false;
  state.changed.insert(id);
}

bool Lessor::exists(int64_t lease) const { return state_->leases.contains(lease); }

void Lessor::attach(int64_t lease, std::string_view key) {
  auto it = state_->leases.find(lease);
  // The keyspace may still hold the lease's keys for a moment while it is being revoked: then it deletes them next.
  if (it == state_->leases.end()) return;
  if (!it->second.keys) it->second.keys = std::make_unique<std::set<std::string, std::less<>>>();
  it->second.keys->emplace(key);
}

void Lessor::detach(int64_t lease, std::string_view key) {
  auto it = state_->leases.find(lease);
  if (it == state_->leases.end() || !it->second.keys) return;
  if (auto found = it->second.keys->find(key); found != it->second.keys->end()) it->second.keys->erase(found);
  if (it->second.keys->empty()) it->second.keys.reset();
}

void Lessor::collect_changes(storage::WriteBatch& batch) {
  if (std::exchange(state_->grants_changed, false)) {
    std::string number;
    append_number(number, static_cast<int64_t>(state_->grants));
    batch.put(std::string(kGrantsRow), std::move(number));
  }
  for (int64_t id : state_->changed) {
    auto it = state_->leases.find(id);
    if (it == state_->leases.end()) {
      batch.erase(row_key(id));
      continue;
    }
    std::string row;
    append_number(row, it->second.granted_s);
    append_number(row, it->second.remaining_s);
    append_number(row, static_cast<int64_t>(it->second.grant));
    batch.put(row_key(id), std::move(row));
  }
  state_->changed.clear();
}

std::optional<Lessor::Info> Lessor::find(int64_t id) const {
  auto it = state_->leases.find(id);
  if (it == state_->leases.end()) return std::nullopt;
  return Info{it->second.granted_s, it->second.remaining_s, it->second.grant};
}

std::vector<std::string> Lessor::keys(int64_t id) const {
  auto it = state_->leases.find(id);
  if (it == state_->leases.end() || !it->second.keys) return {};
  return {it->second.keys->begin(), it->second.keys->end()};
}

std::vector<int64_t> Lessor::leases() const {
  std::vector<int64_t> ids;
  ids.reserve(state_->leases.size());
  for (const auto& [id, lease] : state_->leases) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

size_t Lessor::size() const { return state_->leases.size(); }
uint64_t Lessor::digest() const { return state_->digest; }

void Lessor::promote(Instant now, Duration grace) {
  State& state = *state_;
  state.stop_clock();
  state.promoted = true;
  for (auto& named : state.leases) {
    const State::Lease& lease = named.second;
    state.start(named, now, lease.remaining_s != 0 ? lease.remaining_s : lease.granted_s, grace);
  }
}

void Lessor::demote() { state_->stop_clock(); }

bool Lessor::is_promoted() const { return state_->promoted; }

std::optional<Lessor::Renewed> Lessor::renew(int64_t id, Instant now) {
  State& state = *state_;
  RALLY_CHECK(state.promoted, "lease", id);
  auto it = state.leases.find(id);
  // A lease that has run out is gone, also before its revoke is through: its client was told nothing else meanwhile.
  if (it == state.leases.end() || it->second.revoke_handed_out) return std::nullopt;
  if (it->second.expires.us != 0 && it->second.expires <= now) return std::nullopt;
  State::Lease& lease = it->second;
  state.start(*it, now, lease.granted_s, {});
  // A checkpoint that is on its way counts: it would be stored behind this renewal and say too little.
  lease.removal_under_way |= lease.remaining_s != 0 || lease.checkpoint_under_way;
  return Renewed{lease.granted_s, lease.removal_under_way, lease.grant};
}

bool Lessor::awaits_removal(int64_t id) const {
  auto it = state_->leases.find(id);
  return it != state_->leases.end() && it->second.removal_under_way;
}

std::optional<int64_t> Lessor::time_left_s(int64_t id, Instant now) const {
  auto it = state_->leases.find(id);
  if (it == state_->leases.end()) return std::nullopt;
  if (!state_->promoted || it->second.expires.us == 0) return it->second.granted_s;
  return std::max<int64_t>(0, (it->second.expires - now).us / kSecond);
}

std::vector<Lessor::Due> Lessor::take_due(Instant now, size_t max, Duration retry_after) {
  State& state = *state_;
  std::vector<Due> due;
  while (!state.expiries.empty() && state.expiries.next() <= now && due.size() < max) {
    auto& [id, lease] = state.expiries.top();
    if (lease.expires.us == 0) {  // new: its time begins here
      state.start(state.expiries.top(), now, lease.granted_s, {});
    } else if (lease.expires <= now) {
      due.push_back({id, lease.grant});
      lease.revoke_handed_out = true;
    }
    state.expiries.put_off(lease.revoke_handed_out ? now + retry_after : lease.expires);
  }
  return due;
}

std::vector<Lessor::Checkpoint> Lessor::take_checkpoints(Instant now, size_t max) {
  State& state = *state_;
  std::vector<Checkpoint> checkpoints;
  while (!state.checkpoints.empty() && state.checkpoints.next() <= now && checkpoints.size() < max) {
    auto& named = state.checkpoints.top();
    auto& [id, lease] = named;
    if (lease.revoke_handed_out || lease.expires <= now) {
      state.checkpoints.erase(named);  // it ends
      continue;
    }
    if (lease.checkpoint_at <= now) {
      // Rounded up: a new leader must never give less than what was left. One note under way at a time, so that a
      // removal is always behind the note that it removes.
      if (!lease.checkpoint_under_way && !lease.removal_under_way) {
        checkpoints.push_back({id, lease.grant, std::min(lease.granted_s, ((lease.expires - now).us + kSecond - 1) / kSecond)});
        lease.checkpoint_under_way = true;
      }
      lease.checkpoint_at = now + state.checkpoint_every(lease);
    }
    state.checkpoints.put_off(lease.checkpoint_at);
  }
  return checkpoints;
}

std::optional<Instant> Lessor::next_event() const {
  if (!state_->promoted) return std::nullopt;
  std::optional<Instant> next;
  if (!state_->expiries.empty()) next = state_->expiries.next();
  if (!state_->checkpoints.empty() && (!next || state_->checkpoints.next() < *next)) next = state_->checkpoints.next();
  return next;
}

}  // namespace rallypoint::lease
