#include "raft/output.h"

#include <algorithm>

#include "raft/base/check.h"
#include "raft/core.h"
#include "raft/planted_bug.h"

namespace rallypoint::raft {

bool Output::empty() const {
  return writes.empty() && messages.empty() && committed.empty() && reads.empty() && rejections.empty() &&
         membership_results.empty() && transfer_results.empty() && snapshot_reads.empty() &&
         !snapshot_wanted && !soft_state.has_value();
}

WriteNumber WriteTracker::hand_over(Index last, uint64_t now, std::optional<SnapshotMeta> installs) {
  ++last_;
  under_way_.push_back({last_, last, now, std::move(installs)});
  return last_;
}

void WriteTracker::truncate_from(Index from) {
  if (RALLY_PLANTED_BUG(kPersistedIgnoresTruncation)) return;
  for (UnderWay& write : under_way_)
    if (from <= write.last) write.last = from - 1;
}

std::vector<WriteTracker::Done> WriteTracker::persisted_to(WriteNumber number) {
  RALLY_CHECK(number <= last_, "persisted", number, "handed over", last_);
  std::vector<Done> done;
  while (!under_way_.empty() && under_way_.front().number <= number) {
    UnderWay& write = under_way_.front();
    Done item;
    if (!write.last.is_zero()) item.durable = write.last;
    item.installed = std::move(write.installs);
    if (item.durable.has_value() || item.installed.has_value()) done.push_back(std::move(item));
    under_way_.pop_front();
  }
  persisted_ = std::max(persisted_, number);
  return done;
}

void WriteTracker::hold(WriteNumber after, Message message) {
  if (!held_.empty() && held_.back().message.to == message.to) {
    auto* ack = std::get_if<AppendReply>(&held_.back().message.body);
    const auto* newer = std::get_if<AppendReply>(&message.body);
    if (ack != nullptr && newer != nullptr && ack->accepted && newer->accepted &&
        ack->match <= newer->match && held_.back().after == after) {
      ack->match = newer->match;
      return;
    }
  }
  // Of the pieces of a snapshot only the newest says where the staging stands: it may have begun anew.
  if (std::holds_alternative<InstallSnapshotReply>(message.body))
    std::erase_if(held_, [&](const Held& held) {
      return held.message.to == message.to && std::holds_alternative<InstallSnapshotReply>(held.message.body);
    });
  held_.push_back({after, std::move(message)});
}

void WriteTracker::release(std::vector<Message>& out) {
  while (!held_.empty() && held_.front().after <= persisted_) {
    out.push_back(std::move(held_.front().message));
    held_.pop_front();
  }
}

}  // namespace rallypoint::raft
