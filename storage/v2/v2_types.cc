#include "storage/v2/v2_types.h"

namespace rallypoint::v2 {

const char* action_name(Action action) {
  switch (action) {
    case Action::kGet: return "get";
    case Action::kSet: return "set";
    case Action::kCreate: return "create";
    case Action::kUpdate: return "update";
    case Action::kDelete: return "delete";
    case Action::kCompareAndSwap: return "compareAndSwap";
    case Action::kCompareAndDelete: return "compareAndDelete";
    case Action::kExpire: return "expire";
  }
  return "";
}

bool Event::is_created() const {
  return action == Action::kCreate || (action == Action::kSet && !prev_node);
}

}  // namespace rallypoint::v2
