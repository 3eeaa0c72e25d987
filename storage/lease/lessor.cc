#include "storage/lease/lessor.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "raft/base/check.h"
#include "raft/base/crc32c.h"

namespace rallypoint::lease {
namespace {

constexpr char kRowPrefix = 'l';

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
    int64_t remaining_s = 0;             ///< checkpointed; 0 = none
    std::unique_ptr<std::unordered_set<std::string>> keys;
    // The leader's part.
    Instant expires;
    Instant checkpoint_at;               ///< when the remainder should be logged; 0 = the lease is too short for it
    bool revoke_handed_out = false;
    Instant handed_out_at;
    bool queued = false;                 ///< it has its place in `expiries`
    bool checkpoint_queued = false;      ///< likewise in `checkpoints`
  };
  /// One place per lease: when its time comes it is looked at, and goes back if it was renewed meanwhile. So renewing
  /// costs nothing here and the queue does not grow.
  struct Deadline {
    Instant at;
    int64_t id = 0;
    bool operator<(const Deadline& other) const { return other.at < at; }
  };

  explicit State(const Settings& s) : settings(s) {}
  Settings settings;
  std::unordered_map<int64_t, Lease> leases;
  std::set<int64_t> changed;
  uint64_t digest = 0;
  bool promoted = false;
  Duration grace;
  std::priority_queue<Deadline> expiries;
  std::priority_queue<Deadline> checkpoints;

  static uint64_t digest_of(int64_t id, const Lease& lease) {
    return mix(static_cast<uint64_t>(id) * 31 + mix(static_cast<uint64_t>(lease.granted_s)) + static_cast<uint64_t>(lease.remaining_s));
  }
  static Instant after(Instant now, int64_t seconds) { return now + Duration::micros(std::min(seconds, kFarSeconds) * kSecond); }
  void start(int64_t id, Lease& lease, Instant now, int64_t seconds, Duration extra) {
    lease.expires = after(now, seconds) + extra;
    lease.revoke_handed_out = false;
    lease.checkpoint_at = Instant();
    if (lease.granted_s * kSecond > settings.checkpoint_every.us) {
      lease.checkpoint_at = now + settings.checkpoint_every;
      if (!lease.checkpoint_queued) checkpoints.push({lease.checkpoint_at, id});
      lease.checkpoint_queued = true;
    }
    if (!lease.queued) {
      lease.queued = true;
      expiries.push({lease.expires, id});
    }
  }
};

Lessor::Lessor(Settings settings) : state_(std::make_unique<State>(settings)) {}
Lessor::~Lessor() = default;

Status Lessor::load(const storage::EngineView& view) {
  State& state = *state_;
  state.leases.clear();
  state.digest = 0;
  Status damage;
  RALLY_RETURN_IF_ERROR(view.scan(std::string(1, kRowPrefix), std::string(1, kRowPrefix + 1), [&](std::string_view key, std::string_view value) {
    if (key.size() != 9 || value.size() != 16) return damage = Status::data_loss("a lease row of the state is malformed"), false;
    const int64_t id = static_cast<int64_t>(static_cast<uint64_t>(number_at(key, 1)) ^ uint64_t{1} << 63);
    auto& lease = state.leases[id];
    lease.granted_s = number_at(value, 0);
    lease.remaining_s = number_at(value, 8);
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
  auto& lease = state.leases[id];
  lease.granted_s = std::max(ttl_s, state.settings.ttl_min_s);
  state.digest += State::digest_of(id, lease);
  state.changed.insert(id);
  // At the leader it runs from the leader's next look at the clock (next_event), which is a tick at most.
  if (state.promoted) state.expiries.push({Instant(), id}), lease.queued = true;
  return lease.granted_s;
}

Result<std::vector<std::string>> Lessor::revoke(int64_t id) {
  State& state = *state_;
  auto it = state.leases.find(id);
  if (it == state.leases.end()) return Status::not_found("etcdserver: requested lease not found");
  std::vector<std::string> keys = this->keys(id);
  state.digest -= State::digest_of(id, it->second);
  state.leases.erase(it);
  state.changed.insert(id);
  return keys;
}

void Lessor::checkpoint(int64_t id, int64_t remaining_s) {
  State& state = *state_;
  auto it = state.leases.find(id);
  if (it == state.leases.end()) return;
  state.digest -= State::digest_of(id, it->second);
  it->second.remaining_s = std::clamp<int64_t>(remaining_s, 0, it->second.granted_s);
  state.digest += State::digest_of(id, it->second);
  state.changed.insert(id);
}

bool Lessor::exists(int64_t lease) const { return state_->leases.contains(lease); }

void Lessor::attach(int64_t lease, std::string_view key) {
  auto it = state_->leases.find(lease);
  // The keyspace may still hold the lease's keys for a moment while it is being revoked: then it deletes them next.
  if (it == state_->leases.end()) return;
  if (!it->second.keys) it->second.keys = std::make_unique<std::unordered_set<std::string>>();
  it->second.keys->emplace(key);
}

void Lessor::detach(int64_t lease, std::string_view key) {
  auto it = state_->leases.find(lease);
  if (it == state_->leases.end() || !it->second.keys) return;
  it->second.keys->erase(std::string(key));
  if (it->second.keys->empty()) it->second.keys.reset();
}

void Lessor::collect_changes(storage::WriteBatch& batch) {
  for (int64_t id : state_->changed) {
    auto it = state_->leases.find(id);
    if (it == state_->leases.end()) {
      batch.erase(row_key(id));
      continue;
    }
    std::string row;
    append_number(row, it->second.granted_s);
    append_number(row, it->second.remaining_s);
    batch.put(row_key(id), std::move(row));
  }
  state_->changed.clear();
}

std::optional<Lessor::Info> Lessor::find(int64_t id) const {
  auto it = state_->leases.find(id);
  if (it == state_->leases.end()) return std::nullopt;
  return Info{it->second.granted_s, it->second.remaining_s};
}

std::vector<std::string> Lessor::keys(int64_t id) const {
  auto it = state_->leases.find(id);
  if (it == state_->leases.end() || !it->second.keys) return {};
  std::vector<std::string> keys(it->second.keys->begin(), it->second.keys->end());
  std::sort(keys.begin(), keys.end());
  return keys;
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
  state.promoted = true;
  state.grace = grace;
  state.expiries = {};
  state.checkpoints = {};
  for (auto& [id, lease] : state.leases) {
    lease.queued = lease.checkpoint_queued = false;
    state.start(id, lease, now, lease.remaining_s != 0 ? lease.remaining_s : lease.granted_s, grace);
  }
}

void Lessor::demote() {
  state_->promoted = false;
  state_->expiries = {};
  state_->checkpoints = {};
  for (auto& [id, lease] : state_->leases) lease.queued = lease.checkpoint_queued = false, lease.expires = Instant();
}

bool Lessor::is_promoted() const { return state_->promoted; }

std::optional<Lessor::Renewed> Lessor::renew(int64_t id, Instant now) {
  State& state = *state_;
  RALLY_CHECK(state.promoted, "lease", id);
  auto it = state.leases.find(id);
  // A lease that has run out is gone, also before its revoke is through: its client was told nothing else meanwhile.
  if (it == state.leases.end() || it->second.revoke_handed_out) return std::nullopt;
  if (it->second.expires.us != 0 && it->second.expires <= now) return std::nullopt;
  state.start(id, it->second, now, it->second.granted_s, {});
  return Renewed{it->second.granted_s, it->second.remaining_s != 0};
}

std::optional<int64_t> Lessor::time_left_s(int64_t id, Instant now) const {
  auto it = state_->leases.find(id);
  if (it == state_->leases.end()) return std::nullopt;
  if (!state_->promoted || it->second.expires.us == 0) return it->second.granted_s;
  return std::max<int64_t>(0, (it->second.expires - now).us / kSecond);
}

std::vector<int64_t> Lessor::take_due(Instant now, size_t max, Duration retry_after) {
  State& state = *state_;
  std::vector<int64_t> due;
  while (!state.expiries.empty() && state.expiries.top().at <= now && due.size() < max) {
    const int64_t id = state.expiries.top().id;
    state.expiries.pop();
    auto it = state.leases.find(id);
    if (it == state.leases.end()) continue;  // revoked meanwhile
    State::Lease& lease = it->second;
    lease.queued = false;
    if (lease.expires.us == 0) {  // new: its time begins here
      state.start(id, lease, now, lease.granted_s, {});
      continue;
    }
    Instant again = lease.expires;
    if (lease.expires <= now) {
      due.push_back(id);
      lease.revoke_handed_out = true;
      again = now + retry_after;
    }
    lease.queued = true;
    state.expiries.push({again, id});
  }
  return due;
}

std::vector<Lessor::Checkpoint> Lessor::take_checkpoints(Instant now, size_t max) {
  State& state = *state_;
  std::vector<Checkpoint> checkpoints;
  while (!state.checkpoints.empty() && state.checkpoints.top().at <= now && checkpoints.size() < max) {
    const int64_t id = state.checkpoints.top().id;
    state.checkpoints.pop();
    auto it = state.leases.find(id);
    if (it == state.leases.end()) continue;
    State::Lease& lease = it->second;
    lease.checkpoint_queued = false;
    const int64_t left = (lease.expires - now).us / kSecond;
    if (lease.revoke_handed_out || left <= 0) continue;
    if (lease.checkpoint_at <= now) {
      checkpoints.push_back({id, left});
      lease.checkpoint_at = now + state.settings.checkpoint_every;
    }
    lease.checkpoint_queued = true;
    state.checkpoints.push({lease.checkpoint_at, id});
  }
  return checkpoints;
}

std::optional<Instant> Lessor::next_event() const {
  if (!state_->promoted) return std::nullopt;
  std::optional<Instant> next;
  if (!state_->expiries.empty()) next = state_->expiries.top().at;
  if (!state_->checkpoints.empty() && (!next || state_->checkpoints.top().at < *next)) next = state_->checkpoints.top().at;
  return next;
}

}  // namespace rallypoint::lease
