#include "storage/v2/v2_stats.h"

namespace rallypoint::v2 {

Action action_of(const WriteRequest& request) {
  const bool compares = request.prev_index != 0 || request.prev_value.has_value();
  switch (request.method) {
    case WriteRequest::Method::kPost: return Action::kCreate;
    case WriteRequest::Method::kDelete: return compares ? Action::kCompareAndDelete : Action::kDelete;
    case WriteRequest::Method::kPut: break;
  }
  // prevExist=false makes etcd forget the other two compares.
  if (request.prev_exist == false) return Action::kCreate;
  if (compares) return Action::kCompareAndSwap;
  return request.prev_exist == true ? Action::kUpdate : Action::kSet;
}

StoreStats::Count& StoreStats::of(const WriteRequest& request) {
  switch (action_of(request)) {
    case Action::kCreate: return creates;
    case Action::kUpdate: return updates;
    case Action::kCompareAndSwap: return compare_and_swaps;
    case Action::kCompareAndDelete: return compare_and_deletes;
    case Action::kDelete: return deletes;
    default: return sets;
  }
}

}  // namespace rallypoint::v2
