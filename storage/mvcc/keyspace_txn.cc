// Transactions (contracts/etcd.md B.4). Three passes: which branches are taken, by the state before, nested ones too; whether
// all of them can be executed; then the writes, so that nothing half-applies.
#include "storage/mvcc/keyspace_state.h"

namespace rallypoint::mvcc {
namespace {

using etcdserverpb::Compare;
using etcdserverpb::DeleteRangeRequest;
using etcdserverpb::PutRequest;
using etcdserverpb::RangeRequest;
using etcdserverpb::RequestOp;
using etcdserverpb::TxnRequest;

int compare_numbers(int64_t a, int64_t b) { return a < b ? -1 : a > b ? 1 : 0; }

/// `entry` null = no such key: compares as zeros, and never by value. An engine error goes to `engine`.
bool holds_for(const Keyspace::State& state, const Compare& compare, const KeyEntry* entry, Status& engine) {
  int order = 0;
  switch (compare.target()) {
    case Compare::VERSION: order = compare_numbers(entry ? entry->version : 0, compare.target_union_case() == Compare::kVersion ? compare.version() : 0); break;
    case Compare::CREATE:
      order = compare_numbers(entry ? entry->create_revision : 0, compare.target_union_case() == Compare::kCreateRevision ? compare.create_revision() : 0);
      break;
    case Compare::MOD:
      order = compare_numbers(entry ? entry->newest.main : 0, compare.target_union_case() == Compare::kModRevision ? compare.mod_revision() : 0);
      break;
    case Compare::LEASE: order = compare_numbers(entry ? entry->lease : 0, compare.target_union_case() == Compare::kLease ? compare.lease() : 0); break;
    case Compare::VALUE: {
      if (entry == nullptr) return false;
      auto row = state.row(entry->newest.revision());
      if (!row.is_ok()) return engine = row.status(), false;
      const std::string_view wanted = compare.target_union_case() == Compare::kValue ? std::string_view(compare.value()) : std::string_view();
      order = parse_pair(row->view())->value.compare(wanted);
      break;
    }
    default: break;  // an unknown target is equal, as in etcd
  }
  switch (compare.result()) {
    case Compare::EQUAL: return order == 0;
    case Compare::NOT_EQUAL: return order != 0;
    case Compare::GREATER: return order > 0;
    case Compare::LESS: return order < 0;
    default: return true;  // as in etcd
  }
}

bool holds(const Keyspace::State& state, const Compare& compare, Status& engine) {
  bool any = false;
  bool all = true;
  state.index.visit(compare.key(), compare.range_end(), [&](const std::string&, const KeyEntry& entry) {
    if (!entry.exists()) return true;
    any = true;
    return all = holds_for(state, compare, &entry, engine);
  });
  return any ? all : holds_for(state, compare, nullptr, engine);
}

/// Which branch a transaction takes, and those nested in it, in order.
struct Decision {
  bool succeeded = true;
  std::vector<Decision> nested;
};

Decision decide(const Keyspace::State& state, const TxnRequest& request, Status& engine) {
  Decision decision;
  for (const Compare& compare : request.compare()) {
    if (holds(state, compare, engine)) continue;
    decision.succeeded = false;
    break;
  }
  for (const RequestOp& operation : decision.succeeded ? request.success() : request.failure())
    if (operation.has_request_txn()) decision.nested.push_back(decide(state, operation.request_txn(), engine));
  return decision;
}

Status check(const Keyspace::State& state, const PutRequest& put) {
  if (put.key().empty()) return key_missing();
  if (put.ignore_value() && !put.value().empty()) return Status::invalid_argument("etcdserver: value is provided");
  if (put.ignore_lease() && put.lease() != 0) return Status::invalid_argument("etcdserver: lease is provided");
  if (put.ignore_value() || put.ignore_lease()) {
    const KeyEntry* entry = state.index.find(put.key());
    if (entry == nullptr || !entry->exists()) return Status::invalid_argument("etcdserver: key not found");
  }
  if (put.lease() != 0 && !state.leases.exists(put.lease())) return Status::not_found("etcdserver: requested lease not found");
  return Status::ok();
}

Status check(const Keyspace::State& state, const TxnRequest& request, const Decision& decision) {
  const size_t limit = state.settings.txn_operations_max;
  if (static_cast<size_t>(request.compare_size()) > limit || static_cast<size_t>(request.success_size()) > limit || static_cast<size_t>(request.failure_size()) > limit)
    return Status::invalid_argument("etcdserver: too many operations in txn request");
  size_t nested = 0;
  for (const RequestOp& operation : decision.succeeded ? request.success() : request.failure()) {
    switch (operation.request_case()) {
      case RequestOp::kRequestRange:
        if (operation.request_range().key().empty()) return key_missing();
        RALLY_RETURN_IF_ERROR(state.check_revision(operation.request_range().revision()));
        break;
      case RequestOp::kRequestPut: RALLY_RETURN_IF_ERROR(check(state, operation.request_put())); break;
      case RequestOp::kRequestDeleteRange:
        if (operation.request_delete_range().key().empty()) return key_missing();
        break;
      case RequestOp::kRequestTxn: RALLY_RETURN_IF_ERROR(check(state, operation.request_txn(), decision.nested[nested++])); break;
      default: return Status::invalid_argument("etcdserver: key not found");
    }
  }
  return Status::ok();
}

/// Executes what was decided and found good. Engine errors stop it: the node stops with them.
class Execution {
 public:
  Execution(Keyspace::State& state, bool wanted) : state_(state), wanted_(wanted) {}

  /// TxnResponse without its header.
  std::string run(const TxnRequest& request, const Decision& decision) {
    std::string out;
    wire::append_bool(out, 2, decision.succeeded);
    size_t nested = 0;
    for (const RequestOp& operation : decision.succeeded ? request.success() : request.failure()) {
      if (!engine.is_ok()) return {};
      std::string response;
      uint32_t field = 0;
      switch (operation.request_case()) {
        case RequestOp::kRequestRange: response = range(operation.request_range()), field = 1; break;
        case RequestOp::kRequestPut: response = put(operation.request_put()), field = 2; break;
        case RequestOp::kRequestDeleteRange: response = erase(operation.request_delete_range()), field = 3; break;
        case RequestOp::kRequestTxn:
          // A nested answer has an empty header, as in etcd.
          wire::append_message(response, 1, {});
          response += run(operation.request_txn(), decision.nested[nested++]);
          field = 4;
          break;
        default: break;
      }
      if (!wanted_) continue;
      std::string wrapped;
      wire::append_message(wrapped, field, response);
      wire::append_message(out, 3, wrapped);
    }
    return out;
  }

  /// The revision that a read inside sees and that inner headers show.
  [[nodiscard]] int64_t revision() const { return sub_ > 0 ? state_.revision + 1 : state_.revision; }
  [[nodiscard]] bool changed() const { return sub_ > 0; }
  /// `with_header`: the short one of an answer inside a transaction.
  std::string erase(const DeleteRangeRequest& request, bool with_header = true) {
    std::string out;
    std::vector<std::string> keys;
    state_.index.visit(request.key(), request.range_end(), [&](const std::string& key, const KeyEntry& entry) {
      if (entry.exists()) keys.push_back(key);
      return true;
    });
    std::string before;
    for (const std::string& key : keys) {
      if (request.prev_kv() && wanted_) {
        auto row = state_.row(state_.index.find(key)->newest.revision());
        if (!row.is_ok()) return engine = row.status(), std::string();
        wire::append_message(before, 3, row->view());
      }
      state_.erase(key, {state_.revision + 1, sub_++});
    }
    if (!wanted_) return out;
    if (with_header) append_header(out);
    wire::append_number(out, 2, static_cast<int64_t>(keys.size()));
    return out += before;
  }

  Status engine;

 private:
  void append_header(std::string& out) {
    std::string header;
    wire::append_number(header, 3, revision());
    wire::append_message(out, 1, header);
  }
  std::string range(const RangeRequest& request) {
    std::string out;
    if (!wanted_) return out;
    append_header(out);
    (void)append_range(state_, request, revision(), out, engine);
    return out;
  }
  std::string put(const PutRequest& request) {
    std::string out;
    const KeyEntry* old = state_.index.find(request.key());
    const bool exists = old != nullptr && old->exists();
    Bytes before;
    if (exists && (request.ignore_value() || (request.prev_kv() && wanted_))) {
      auto row = state_.row(old->newest.revision());
      if (!row.is_ok()) return engine = row.status(), out;
      before = std::move(*row);
    }
    // What is to be kept of a key is gone if the same transaction has deleted it: duplicate keys are refused before.
    const std::string_view value = request.ignore_value() ? (exists ? parse_pair(before.view())->value : std::string_view()) : std::string_view(request.value());
    const int64_t lease = request.ignore_lease() ? (exists ? old->lease : 0) : request.lease();
    state_.store(request.key(), value, lease, {state_.revision + 1, sub_++});
    if (!wanted_) return out;
    append_header(out);
    if (request.prev_kv() && exists) wire::append_message(out, 2, before.view());
    return out;
  }

  Keyspace::State& state_;
  bool wanted_;
  int64_t sub_ = 0;
};

void finish(Keyspace::State& state, const Execution& execution) {
  if (!execution.changed()) return;
  ++state.revision;
  state.meta_changed = true;
}

bool reads_only(const google::protobuf::RepeatedPtrField<RequestOp>& operations) {
  for (const RequestOp& operation : operations) {
    if (operation.has_request_range()) continue;
    if (operation.has_request_txn() && Keyspace::is_read_only(operation.request_txn())) continue;
    return false;
  }
  return true;
}

}  // namespace

Result<Outcome> Keyspace::delete_range(const DeleteRangeRequest& request, const HeaderInfo* header) {
  if (request.key().empty()) return Outcome{key_missing(), {}};
  Execution execution(*state_, header != nullptr);
  const std::string body = execution.erase(request, false);
  if (!execution.engine.is_ok()) return execution.engine;
  finish(*state_, execution);
  if (header == nullptr) return Outcome{};
  Outcome outcome;
  wire::append_message(outcome.response, 1, encode_header(*header, state_->revision));
  outcome.response += body;
  return outcome;
}

Result<Outcome> Keyspace::txn(const TxnRequest& request, const HeaderInfo* header) {
  Status engine;
  const Decision decision = decide(*state_, request, engine);
  RALLY_RETURN_IF_ERROR(engine);
  if (Status status = check(*state_, request, decision); !status.is_ok()) return Outcome{status, {}};
  Execution execution(*state_, header != nullptr);
  const std::string body = execution.run(request, decision);
  if (!execution.engine.is_ok()) return execution.engine;
  finish(*state_, execution);
  if (header == nullptr) return Outcome{};
  Outcome outcome;
  wire::append_message(outcome.response, 1, encode_header(*header, state_->revision));
  outcome.response += body;
  return outcome;
}

bool Keyspace::is_read_only(const TxnRequest& request) { return reads_only(request.success()) && reads_only(request.failure()); }

Result<Outcome> Keyspace::read_txn(const TxnRequest& request, const HeaderInfo& header) const {
  RALLY_CHECK(is_read_only(request), "operations", request.success_size());
  // Reads alone change nothing, so the state stays what it is.
  return const_cast<Keyspace*>(this)->txn(request, &header);
}

}  // namespace rallypoint::mvcc
