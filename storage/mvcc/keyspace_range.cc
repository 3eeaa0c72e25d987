// Reads: ranges of any revision with etcd's options, and cursors for long ones (contracts/etcd.md B.2).
#include <algorithm>

#include "storage/mvcc/keyspace_state.h"

namespace rallypoint::mvcc {
namespace {

using etcdserverpb::RangeRequest;

/// A pair that a range has found. The numbers are filled when the request needs them.
struct Found {
  const std::string* key = nullptr;
  const Version* version = nullptr;
  const KeyEntry* entry = nullptr;
  int64_t create_revision = 0;
  int64_t number = 0;  ///< its version
  Bytes row;
};

bool has_bounds(const RangeRequest& request) {
  return request.min_mod_revision() != 0 || request.max_mod_revision() != 0 || request.min_create_revision() != 0 || request.max_create_revision() != 0;
}
bool natural_order(const RangeRequest& request) {
  return request.sort_target() == RangeRequest::KEY && request.sort_order() != RangeRequest::DESCEND;
}

Status check_sort(const RangeRequest& request) {
  if (!RangeRequest::SortOrder_IsValid(request.sort_order()) || !RangeRequest::SortTarget_IsValid(request.sort_target()))
    return Status::invalid_argument("etcdserver: invalid sort option");
  return Status::ok();
}

/// Fills create_revision and number; of an older version they are in its row only.
Status fill_numbers(const Keyspace::State& state, Found& found) {
  if (found.version == &found.entry->newest) {
    found.create_revision = found.entry->create_revision;
    found.number = found.entry->version;
    return Status::ok();
  }
  auto row = state.row(found.version->revision());
  if (!row.is_ok()) return row.status();
  found.row = std::move(*row);
  const auto pair = parse_pair(found.row.view());
  if (!pair) return Status::data_loss("a row of the keyspace is malformed");
  found.create_revision = pair->create_revision;
  found.number = pair->version;
  return Status::ok();
}

void sort(std::vector<Found>& found, const RangeRequest& request) {
  const auto by = [&](const Found& a, const Found& b) {
    switch (request.sort_target()) {
      case RangeRequest::VERSION: return a.number < b.number;
      case RangeRequest::CREATE: return a.create_revision < b.create_revision;
      case RangeRequest::MOD: return a.version->main < b.version->main;
      case RangeRequest::VALUE: return parse_pair(a.row.view())->value < parse_pair(b.row.view())->value;
      default: return *a.key < *b.key;
    }
  };
  if (request.sort_order() == RangeRequest::DESCEND) std::stable_sort(found.begin(), found.end(), [&](const Found& a, const Found& b) { return by(b, a); });
  else std::stable_sort(found.begin(), found.end(), by);
}

void append_pair(std::string& out, const Bytes& row, bool keys_only) {
  if (!keys_only) return wire::append_message(out, 2, row.view());
  Pair pair = *parse_pair(row.view());
  pair.value = {};
  wire::append_message(out, 2, encode_pair(pair));
}

}  // namespace

Status append_range(const Keyspace::State& state, const RangeRequest& request, int64_t newest, std::string& out, Status& engine) {
  const int64_t revision = request.revision() <= 0 ? newest : request.revision();
  const auto each = [&](auto&& visit) { state.index.visit(request.key(), request.range_end(), visit); };
  const int64_t limit = request.limit() > 0 ? request.limit() : INT64_MAX;
  int64_t count = 0;
  bool more = false;
  if (request.count_only()) {
    each([&](const std::string&, const KeyEntry& entry) { return count += entry.at(revision) != nullptr ? 1 : 0, true; });
    wire::append_number(out, 4, count);
    return Status::ok();
  }
  const auto append = [&](const Version& version) {
    auto row = state.row(version.revision());
    if (!row.is_ok()) return engine = row.status(), false;
    append_pair(out, *row, request.keys_only());
    return true;
  };
  if (natural_order(request) && !has_bounds(request)) {
    each([&](const std::string&, const KeyEntry& entry) {
      const Version* version = entry.at(revision);
      if (version == nullptr) return true;
      if (count++ < limit) return append(*version);
      return more = true;
    });
    if (!engine.is_ok()) return Status::ok();
  } else {
    std::vector<Found> found;
    each([&](const std::string& key, const KeyEntry& entry) {
      const Version* version = entry.at(revision);
      if (version == nullptr) return true;
      ++count;
      Found one{&key, version, &entry, 0, 0, {}};
      if (engine = fill_numbers(state, one); !engine.is_ok()) return false;
      if (request.min_mod_revision() != 0 && version->main < request.min_mod_revision()) return true;
      if (request.max_mod_revision() != 0 && version->main > request.max_mod_revision()) return true;
      if (request.min_create_revision() != 0 && one.create_revision < request.min_create_revision()) return true;
      if (request.max_create_revision() != 0 && one.create_revision > request.max_create_revision()) return true;
      if (request.sort_target() == RangeRequest::VALUE && one.row.empty()) {
        auto row = state.row(version->revision());
        if (!row.is_ok()) return engine = row.status(), false;
        one.row = std::move(*row);
      }
      found.push_back(std::move(one));
      return true;
    });
    if (!engine.is_ok()) return Status::ok();
    if (!natural_order(request)) sort(found, request);
    more = static_cast<int64_t>(found.size()) > limit;
    if (more) found.resize(static_cast<size_t>(limit));
    for (const Found& one : found)
      if (!append(*one.version)) return Status::ok();
  }
  wire::append_bool(out, 3, more);
  wire::append_number(out, 4, count);
  return Status::ok();
}

Result<Outcome> Keyspace::range(const RangeRequest& request, const HeaderInfo& header) const {
  if (request.key().empty()) return Outcome{key_missing(), {}};
  if (Status status = check_sort(request); !status.is_ok()) return Outcome{status, {}};
  if (Status status = state_->check_revision(request.revision()); !status.is_ok()) return Outcome{status, {}};
  Outcome outcome;
  wire::append_message(outcome.response, 1, encode_header(header, state_->revision));
  Status engine;
  outcome.status = append_range(*state_, request, state_->revision, outcome.response, engine);
  if (!engine.is_ok()) return engine;
  return outcome;
}

namespace {

class RangeCursor final : public Keyspace::Cursor {
 public:
  RangeCursor(const Keyspace::State& state, const RangeRequest& request)
      : state_(state), pins_(state.pins), pin_(pins_->insert(state.read_revision(request.revision()))), revision_(*pin_), request_(request) {
    state.index.visit(request.key(), request.range_end(), [&](const std::string&, const KeyEntry& entry) { return count_ += entry.at(revision_) != nullptr ? 1 : 0, true; });
    left_ = request.count_only() ? 0 : request.limit() > 0 ? std::min(request.limit(), count_) : count_;
    more_ = !request.count_only() && left_ < count_;
    next_key_ = request.key();
  }
  ~RangeCursor() override { pins_->erase(pin_); }

  Result<bool> next(size_t bytes_max, std::vector<Bytes>& pairs) override {
    size_t bytes = 0;
    auto it = state_.index.map().lower_bound(next_key_);
    for (; left_ > 0; ++it) {
      RALLY_CHECK(it != state_.index.map().end(), "left", left_);  // all counted keys are still there: the revision is pinned
      const Version* version = it->second.at(revision_);
      if (version == nullptr) continue;
      if (bytes >= bytes_max) {
        next_key_ = it->first;
        return true;
      }
      auto row = state_.row(version->revision());
      if (!row.is_ok()) return row.status();
      --left_;
      bytes += row->size();
      if (request_.keys_only()) {
        Pair pair = *parse_pair(row->view());
        pair.value = {};
        pairs.emplace_back(encode_pair(pair));
      } else {
        pairs.push_back(std::move(*row));
      }
    }
    return false;
  }
  [[nodiscard]] int64_t revision() const override { return revision_; }
  [[nodiscard]] int64_t count() const override { return count_; }
  [[nodiscard]] bool more() const override { return more_; }

 private:
  const Keyspace::State& state_;
  std::shared_ptr<std::multiset<int64_t>> pins_;
  std::multiset<int64_t>::iterator pin_;
  int64_t revision_;
  RangeRequest request_;
  std::string next_key_;
  int64_t count_ = 0;
  int64_t left_ = 0;
  bool more_ = false;
};

}  // namespace

Result<std::unique_ptr<Keyspace::Cursor>> Keyspace::open_cursor(const RangeRequest& request) const {
  if (request.key().empty()) return key_missing();
  RALLY_RETURN_IF_ERROR(check_sort(request));
  RALLY_RETURN_IF_ERROR(state_->check_revision(request.revision()));
  if (!natural_order(request) || has_bounds(request)) return Status::unimplemented("etcdserver: a range in parts has keys in ascending order and no bounds");
  return std::unique_ptr<Cursor>(std::make_unique<RangeCursor>(*state_, request));
}

}  // namespace rallypoint::mvcc
