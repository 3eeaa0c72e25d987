#include "server/api/v3/validate.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "server/api/v3/errors.h"

namespace rallypoint::server::v3 {
namespace {

namespace pb = etcdserverpb;
using Operations = google::protobuf::RepeatedPtrField<pb::RequestOp>;

/// Half-open ranges of keys, merged where they touch. nullopt as an end = all keys from the start on.
class KeyRanges {
 public:
  using End = std::optional<std::string_view>;

  void add(const pb::DeleteRangeRequest& request) {
    std::string_view end = request.range_end();
    if (end.empty()) {
      points_.insert(request.key());  // [k, k + "\0") would need memory for its end
    } else if (end == std::string_view("\0", 1)) {
      add(request.key(), std::nullopt);
    } else if (end > request.key()) {
      add(request.key(), end);
    }
  }
  [[nodiscard]] bool contains(std::string_view key) const {
    if (points_.contains(key)) return true;
    auto after = ranges_.upper_bound(key);
    if (after == ranges_.begin()) return false;
    const End& end = std::prev(after)->second;
    return !end || key < *end;
  }
  [[nodiscard]] bool intersects(const std::set<std::string_view>& keys) const {
    for (std::string_view point : points_)
      if (keys.contains(point)) return true;
    for (const auto& [start, end] : ranges_) {
      auto first = keys.lower_bound(start);
      if (first != keys.end() && (!end || *first < *end)) return true;
    }
    return false;
  }
  void merge(KeyRanges&& other) {
    points_.merge(other.points_);
    for (const auto& [start, end] : other.ranges_) add(start, end);
  }

 private:
  void add(std::string_view start, End end) {
    auto at = ranges_.upper_bound(start);
    if (at != ranges_.begin() && reaches(std::prev(at)->second, start)) at = std::prev(at);
    while (at != ranges_.end() && reaches(end, at->first)) {
      start = std::min(start, at->first);
      if (end && (!at->second || *at->second > *end)) end = at->second;
      at = ranges_.erase(at);
    }
    ranges_.emplace(start, end);
  }
  static bool reaches(const End& end, std::string_view key) { return !end || *end >= key; }

  std::set<std::string_view> points_;
  std::map<std::string_view, End> ranges_;
};

/// What a list of operations would change.
struct Changes {
  std::set<std::string_view> puts;
  KeyRanges deletes;
};

/// Adds what `operations` change; false if a key would be put twice, or put and deleted.
bool collect(const Operations& operations, Changes& all) {
  for (const pb::RequestOp& operation : operations)
    if (operation.has_request_delete_range()) all.deletes.add(operation.request_delete_range());
  for (const pb::RequestOp& operation : operations) {
    if (!operation.has_request_txn()) continue;
    // Only one of the branches will happen, so each is held against the rest but not against the other.
    Changes success, failure;
    if (!collect(operation.request_txn().success(), success) || !collect(operation.request_txn().failure(), failure)) return false;
    for (const Changes* branch : {&success, &failure}) {
      for (std::string_view key : branch->puts)
        if (all.puts.contains(key) || all.deletes.contains(key)) return false;
      if (branch->deletes.intersects(all.puts)) return false;
    }
    all.puts.merge(success.puts);
    all.puts.merge(failure.puts);
    all.deletes.merge(std::move(success.deletes));
    all.deletes.merge(std::move(failure.deletes));
  }
  for (const pb::RequestOp& operation : operations) {
    if (!operation.has_request_put()) continue;
    const std::string_view key = operation.request_put().key();
    if (all.deletes.contains(key) || !all.puts.insert(key).second) return false;
  }
  return true;
}

Status validate_shape(const pb::TxnRequest& request, size_t operations_max);

Status validate_operation(const pb::RequestOp& operation, size_t operations_left) {
  switch (operation.request_case()) {
    case pb::RequestOp::kRequestRange: return validate(operation.request_range());
    case pb::RequestOp::kRequestPut: return validate(operation.request_put());
    case pb::RequestOp::kRequestDeleteRange: return validate(operation.request_delete_range());
    case pb::RequestOp::kRequestTxn: return validate_shape(operation.request_txn(), operations_left);
    case pb::RequestOp::REQUEST_NOT_SET: break;
  }
  return kKeyNotFound;
}

/// All but the rule of duplicates, which is for the whole.
Status validate_shape(const pb::TxnRequest& request, size_t operations_max) {
  const auto longest = static_cast<size_t>(std::max({request.compare_size(), request.success_size(), request.failure_size()}));
  if (longest > operations_max) return kTooManyOps;
  for (const pb::Compare& compare : request.compare())
    if (compare.key().empty()) return kEmptyKey;
  for (const Operations* branch : {&request.success(), &request.failure()})
    for (const pb::RequestOp& operation : *branch) RALLY_RETURN_IF_ERROR(validate_operation(operation, operations_max - longest));
  return Status::ok();
}

bool all_serializable(const pb::TxnRequest& request, size_t& ranges) {
  for (const Operations* branch : {&request.success(), &request.failure()}) {
    for (const pb::RequestOp& operation : *branch) {
      if (operation.has_request_txn() ? !all_serializable(operation.request_txn(), ranges) : !operation.request_range().serializable())
        return false;
      ranges += operation.has_request_range() ? 1 : 0;
    }
  }
  return true;
}

}  // namespace

Status validate(const pb::RangeRequest& request) {
  if (request.key().empty()) return kEmptyKey;
  if (!pb::RangeRequest::SortOrder_IsValid(request.sort_order()) || !pb::RangeRequest::SortTarget_IsValid(request.sort_target()))
    return kInvalidSortOption;
  return Status::ok();
}

Status validate(const pb::PutRequest& request) {
  if (request.key().empty()) return kEmptyKey;
  if (request.ignore_value() && !request.value().empty()) return kValueProvided;
  if (request.ignore_lease() && request.lease() != 0) return kLeaseProvided;
  return Status::ok();
}

Status validate(const pb::DeleteRangeRequest& request) {
  if (request.key().empty()) return kEmptyKey;
  return Status::ok();
}

Status validate(const pb::TxnRequest& request, size_t operations_max) {
  RALLY_RETURN_IF_ERROR(validate_shape(request, operations_max));
  for (const Operations* branch : {&request.success(), &request.failure()}) {
    Changes changes;
    if (!collect(*branch, changes)) return kDuplicateKey;
  }
  return Status::ok();
}

Status validate(const pb::LeaseGrantRequest& request) {
  if (request.ttl() > kLeaseTtlMax) return kLeaseTtlTooLarge;
  return Status::ok();
}

Status validate(const pb::AlarmRequest& request) {
  if (!pb::AlarmRequest::AlarmAction_IsValid(request.action()) || !pb::AlarmType_IsValid(request.alarm())) return kUnknownAlarm;
  return Status::ok();
}

Status validate(const pb::DowngradeRequest& request) {
  if (request.action() == pb::DowngradeRequest::CANCEL) return Status::ok();
  if (!pb::DowngradeRequest::DowngradeAction_IsValid(request.action())) return kUnknownDowngradeAction;
  // major.minor or major.minor.patch
  size_t numbers = 0;
  bool in_number = false;
  for (const char c : request.version()) {
    if (c >= '0' && c <= '9') {
      if (!in_number) ++numbers;
      in_number = true;
    } else if (c == '.' && in_number) {
      in_number = false;
    } else {
      return kWrongDowngradeFormat;
    }
  }
  if (!in_number || numbers < 2 || numbers > 3) return kWrongDowngradeFormat;
  return Status::ok();
}

Status validate_stream(const pb::RangeRequest& request) {
  RALLY_RETURN_IF_ERROR(validate(request));
  const bool natural = request.sort_target() == pb::RangeRequest::KEY && request.sort_order() != pb::RangeRequest::DESCEND;
  if (!natural) return kStreamSortUnsupported;
  if (request.min_mod_revision() != 0 || request.max_mod_revision() != 0 || request.min_create_revision() != 0 ||
      request.max_create_revision() != 0)
    return kStreamFilterUnsupported;
  return Status::ok();
}

bool reads_only(const pb::TxnRequest& request) {
  for (const Operations* branch : {&request.success(), &request.failure()})
    for (const pb::RequestOp& operation : *branch)
      if (operation.has_request_txn() ? !reads_only(operation.request_txn()) : !operation.has_request_range()) return false;
  return true;
}

bool is_serializable(const pb::TxnRequest& request) {
  size_t ranges = 0;
  return all_serializable(request, ranges) && ranges != 0;
}

}  // namespace rallypoint::server::v3
