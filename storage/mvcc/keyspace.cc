#include "storage/mvcc/keyspace.h"

#include "raft/base/crc32c.h"
#include "storage/mvcc/keyspace_state.h"

namespace rallypoint::mvcc {

Status key_missing() { return Status::invalid_argument("etcdserver: key is not provided"); }
Status compacted_error() { return {Code::kOutOfRange, "etcdserver: mvcc: required revision has been compacted"}; }
Status future_error() { return {Code::kOutOfRange, "etcdserver: mvcc: required revision is a future revision"}; }

std::string encode_header(const HeaderInfo& header, int64_t revision) {
  std::string out;
  wire::append_number(out, 1, static_cast<int64_t>(header.cluster_id));
  wire::append_number(out, 2, static_cast<int64_t>(header.member_id));
  wire::append_number(out, 3, revision);
  wire::append_number(out, 4, static_cast<int64_t>(header.raft_term));
  return out;
}

Status Keyspace::State::check_revision(int64_t wanted) const {
  if (wanted > revision) return future_error();
  if (wanted > 0 && wanted < compacted) return compacted_error();
  return Status::ok();
}

Result<Bytes> Keyspace::State::row(const Revision& at) const {
  if (const Bytes* cached = cache.find(at)) return *cached;
  auto value = engine->get(row_key(at, false));
  if (!value.is_ok()) return value.status();
  if (!value->has_value())
    return Status::data_loss("the keyspace has no row for revision " + std::to_string(at.main) + "." + std::to_string(at.sub) + ", which its index names");
  Bytes bytes(std::move(**value));
  cache.add(at, bytes);
  return bytes;
}

void Keyspace::State::store(std::string_view key, std::string_view value, int64_t lease, const Revision& at) {
  const KeyEntry* old = index.find(key);
  const bool is_create = old == nullptr || !old->exists();
  const int64_t create = is_create ? at.main : old->create_revision;
  const int64_t version = is_create ? 1 : old->version + 1;
  const Revision previous = old == nullptr ? Revision{} : old->newest.revision();
  if (!is_create && old->lease != 0) leases.detach(old->lease, key);
  if (lease != 0) leases.attach(lease, key);
  Bytes bytes(encode_pair({key, create, at.main, version, value, lease}));
  const uint32_t crc = crc32c(0, bytes.view());
  const uint32_t row_bytes = static_cast<uint32_t>(bytes.size() + kRowKeyBytes);
  index.put(key, {at.main, static_cast<uint32_t>(at.sub), row_bytes, crc, false}, create, version, lease);
  live_bytes += row_bytes;
  digest = digest * 0x100000001b3u ^ crc;
  cache.add(at, bytes);
  rows.put(row_key(at, false), bytes.to_string());
  // The key's bytes are the first field of the row, right behind a tag and its length.
  const size_t offset = static_cast<size_t>(parse_pair(bytes.view())->key.data() - bytes.data());
  events.push_back({at, bytes.slice(offset, key.size()), bytes, false, is_create, is_create && (old == nullptr || previous.main == 0) ? Revision{} : previous});
  if (is_create) events.back().previous = {};
}

void Keyspace::State::erase(const std::string& key, const Revision& at) {
  const KeyEntry* old = index.find(key);
  const Revision previous = old->newest.revision();
  if (old->lease != 0) leases.detach(old->lease, key);
  Bytes bytes(encode_pair({key, 0, at.main, 0, {}, 0}));
  const uint32_t crc = crc32c(0, bytes.view());
  const uint32_t row_bytes = static_cast<uint32_t>(bytes.size() + kRowKeyBytes);
  index.remove(key, {at.main, static_cast<uint32_t>(at.sub), row_bytes, crc, true});
  live_bytes += row_bytes;
  digest = digest * 0x100000001b3u ^ ~crc;
  rows.put(row_key(at, true), bytes.to_string());
  const size_t offset = static_cast<size_t>(parse_pair(bytes.view())->key.data() - bytes.data());
  events.push_back({at, bytes.slice(offset, key.size()), bytes, true, false, previous});
}

Keyspace::Keyspace(std::unique_ptr<State> state) : state_(std::move(state)) {}
Keyspace::~Keyspace() = default;

Result<std::unique_ptr<Keyspace>> Keyspace::open(std::shared_ptr<storage::Engine> engine, Settings settings, LeaseBook& leases) {
  auto state = std::make_unique<State>(engine, settings, leases);
  auto meta = engine->get(kMetaRow);
  if (!meta.is_ok()) return meta.status();
  if (meta->has_value()) {
    if ((*meta)->size() != 24) return Status::data_loss("the keyspace's meta row is malformed");
    state->revision = static_cast<int64_t>(big_endian_at(**meta, 0, 8));
    state->compacted = static_cast<int64_t>(big_endian_at(**meta, 8, 8));
    state->digest = big_endian_at(**meta, 16, 8);
  }
  Status damage;
  const auto load = [&](std::string_view key, std::string_view value) {
    const auto name = parse_row_key(key);
    const auto pair = parse_pair(value);
    if (!name || !pair || name->revision.main > state->revision) {
      damage = Status::data_loss("a row of the keyspace is malformed");
      return false;
    }
    const Version version{name->revision.main, static_cast<uint32_t>(name->revision.sub), static_cast<uint32_t>(value.size() + kRowKeyBytes),
                          crc32c(0, value), name->is_delete};
    if (name->is_delete) state->index.remove(pair->key, version);
    else state->index.put(pair->key, version, pair->create_revision, pair->version, pair->lease);
    state->live_bytes += version.row_bytes;
    return true;
  };
  RALLY_RETURN_IF_ERROR(engine->scan(std::string(1, kRowPrefix), std::string(1, kRowPrefix + 1), load));
  RALLY_RETURN_IF_ERROR(damage);
  for (const auto& [key, entry] : state->index.map()) {
    if (entry.lease == 0) continue;
    if (!leases.exists(entry.lease)) return Status::data_loss("a key of the keyspace hangs on a lease that does not exist");
    leases.attach(entry.lease, key);
  }
  state->cache.written(state->revision);
  return std::unique_ptr<Keyspace>(new Keyspace(std::move(state)));
}

Result<Outcome> Keyspace::put(const etcdserverpb::PutRequest& request, const HeaderInfo* header) {
  // A put is a transaction of one; this form of it saves the copies.
  State& state = *state_;
  if (request.key().empty()) return Outcome{key_missing(), {}};
  const KeyEntry* old = state.index.find(request.key());
  const bool exists = old != nullptr && old->exists();
  if (request.ignore_value() && !request.value().empty()) return Outcome{Status::invalid_argument("etcdserver: value is provided"), {}};
  if (request.ignore_lease() && request.lease() != 0) return Outcome{Status::invalid_argument("etcdserver: lease is provided"), {}};
  if ((request.ignore_value() || request.ignore_lease()) && !exists) return Outcome{Status::invalid_argument("etcdserver: key not found"), {}};
  if (request.lease() != 0 && !state.leases.exists(request.lease())) return Outcome{Status::not_found("etcdserver: requested lease not found"), {}};
  Bytes before;
  if (exists && (request.ignore_value() || (request.prev_kv() && header != nullptr))) {
    auto row = state.row(old->newest.revision());
    if (!row.is_ok()) return row.status();
    before = std::move(*row);
  }
  std::string_view value = request.value();
  if (request.ignore_value()) value = parse_pair(before.view())->value;
  state.store(request.key(), value, request.ignore_lease() ? old->lease : request.lease(), {state.revision + 1, 0});
  ++state.revision;
  state.meta_changed = true;
  if (header == nullptr) return Outcome{};
  Outcome outcome;
  wire::append_message(outcome.response, 1, encode_header(*header, state.revision));
  if (request.prev_kv() && exists) wire::append_message(outcome.response, 2, before.view());
  return outcome;
}

Status Keyspace::delete_keys(const std::vector<std::string>& keys) {
  State& state = *state_;
  int64_t sub = 0;
  for (const std::string& key : keys) {
    const KeyEntry* entry = state.index.find(key);
    if (entry != nullptr && entry->exists()) state.erase(key, {state.revision + 1, sub++});
  }
  if (sub > 0) {
    ++state.revision;
    state.meta_changed = true;
  }
  return Status::ok();
}

std::vector<Event> Keyspace::take_events() { return std::exchange(state_->events, {}); }

void Keyspace::collect_changes(storage::WriteBatch& batch) {
  State& state = *state_;
  if (state.meta_changed) {
    std::string meta;
    append_big_endian(meta, static_cast<uint64_t>(state.revision));
    append_big_endian(meta, static_cast<uint64_t>(state.compacted));
    append_big_endian(meta, state.digest);
    batch.put(std::string(kMetaRow), std::move(meta));
    state.meta_changed = false;
  }
  batch.append(std::move(state.rows));
  state.rows.clear();
  state.collected = state.revision;
}

void Keyspace::changes_written() { state_->cache.written(state_->collected); }

int64_t Keyspace::revision() const { return state_->revision; }
int64_t Keyspace::compacted() const { return state_->compacted; }
int64_t Keyspace::live_bytes() const { return state_->live_bytes; }
size_t Keyspace::keys() const { return state_->index.live(); }
uint64_t Keyspace::digest() const { return state_->digest * 31 + static_cast<uint64_t>(state_->revision) * 7 + static_cast<uint64_t>(state_->compacted); }

Result<std::optional<Bytes>> Keyspace::pair_at(const Revision& revision) const {
  if (const Bytes* cached = state_->cache.find(revision)) return std::optional<Bytes>(*cached);
  auto row = state_->engine->get(row_key(revision, false));
  if (!row.is_ok()) return row.status();
  if (!row->has_value()) return std::optional<Bytes>();
  return std::optional<Bytes>(Bytes(std::move(**row)));
}

Result<int64_t> Keyspace::history(int64_t from, int64_t to, size_t bytes_max, const std::function<void(Event&&)>& visit) const {
  const State& state = *state_;
  RALLY_CHECK(from >= state.compacted, "from", from, "compacted", state.compacted);
  RALLY_CHECK(state.rows.empty(), "revision", state.revision);  // read between batches only: all rows are in the engine
  Status damage;
  int64_t next = to + 1;
  int64_t current = 0;
  size_t bytes = 0;
  const Status scanned = state.engine->scan(rows_from(from), rows_from(to + 1), [&](std::string_view key, std::string_view value) {
    const auto name = parse_row_key(key);
    if (!name) return damage = Status::data_loss("a row of the keyspace is malformed"), false;
    if (current != 0 && name->revision.main != current && bytes >= bytes_max) {
      next = name->revision.main;
      return false;
    }
    current = name->revision.main;
    bytes += value.size() + kRowKeyBytes;
    Bytes row = Bytes::copy_of(value);
    const auto pair = parse_pair(row.view());
    if (!pair) return damage = Status::data_loss("a row of the keyspace is malformed"), false;
    Event event{name->revision, row.slice(static_cast<size_t>(pair->key.data() - row.data()), pair->key.size()), row, name->is_delete,
                !name->is_delete && pair->version == 1, {}};
    if (!event.is_create) {
      if (const KeyEntry* entry = state.index.find(pair->key)) {
        if (const Version* previous = entry->before(name->revision); previous != nullptr && !previous->is_tombstone) event.previous = previous->revision();
      }
    }
    visit(std::move(event));
    return true;
  });
  RALLY_RETURN_IF_ERROR(scanned);
  RALLY_RETURN_IF_ERROR(damage);
  return next;
}

}  // namespace rallypoint::mvcc
