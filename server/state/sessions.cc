#include "server/state/sessions.h"

#include "raft/base/crc32c.h"
#include "server/state/command.pb.h"
#include "server/state/rows.h"

namespace rallypoint::server {

bool Sessions::Session::holds(uint64_t sequence) const {
  auto it = runs.upper_bound(sequence);
  if (it == runs.begin()) return false;
  return std::prev(it)->second >= sequence;
}

void Sessions::Session::add(uint64_t sequence) {
  auto next = runs.upper_bound(sequence);
  if (next != runs.begin()) {
    auto before = std::prev(next);
    if (before->second + 1 == sequence) {
      before->second = sequence;
      if (next != runs.end() && next->first == sequence + 1) {
        before->second = next->second;
        runs.erase(next);
      }
      return;
    }
  }
  uint64_t last = sequence;
  if (next != runs.end() && next->first == sequence + 1) {
    last = next->second;
    runs.erase(next);
  }
  runs[sequence] = last;
}

void Sessions::Session::raise(uint64_t mark) {
  if (mark <= low_water) return;
  low_water = mark;
  while (!runs.empty() && runs.begin()->first < mark) {
    const uint64_t last = runs.begin()->second;
    runs.erase(runs.begin());
    if (last >= mark) runs[mark] = last;
  }
}

uint64_t Sessions::register_node(NodeId node, uint64_t nonce, Index index) {
  Session& session = sessions_[node];
  if (session.incarnation != 0 && session.nonce == nonce) return session.incarnation;
  session = Session{index.value(), nonce, 1, {}};
  changed_.insert(node);
  return session.incarnation;
}

Sessions::Verdict Sessions::admit(NodeId node, uint64_t incarnation, uint64_t sequence, uint64_t low_water) {
  auto it = sessions_.find(node);
  if (it == sessions_.end() || it->second.incarnation != incarnation) return Verdict::kVoid;
  Session& session = it->second;
  if (sequence < session.low_water) return Verdict::kVoid;
  if (session.holds(sequence)) return Verdict::kDuplicate;
  session.add(sequence);
  // A mark above the command itself would void what was just admitted; a sane origin never sends one.
  session.raise(std::min(low_water, sequence));
  changed_.insert(node);
  return Verdict::kApply;
}

bool Sessions::was_applied(NodeId node, uint64_t incarnation, uint64_t sequence) const {
  auto it = sessions_.find(node);
  return it != sessions_.end() && it->second.incarnation == incarnation && it->second.holds(sequence);
}

uint64_t Sessions::incarnation_of(NodeId node, uint64_t nonce) const {
  auto it = sessions_.find(node);
  return it != sessions_.end() && it->second.nonce == nonce ? it->second.incarnation : 0;
}

std::string Sessions::encode(const Session& session) {
  pb::Session row;
  row.set_incarnation(session.incarnation);
  row.set_nonce(session.nonce);
  row.set_low_water(session.low_water);
  for (const auto& [first, last] : session.runs) {
    row.add_applied(first);
    row.add_applied(last);
  }
  return row.SerializeAsString();
}

void Sessions::collect_changes(storage::WriteBatch& batch) {
  for (NodeId node : changed_) batch.put(rows::numbered(rows::kSession, node.value()), encode(sessions_[node]));
  changed_.clear();
}

Status Sessions::load(const storage::EngineView& view) {
  sessions_.clear();
  changed_.clear();
  Status damage;
  const Status scanned = view.scan(rows::kSession, rows::end_of(rows::kSession), [&](auto key, auto value) {
    pb::Session row;
    if (key.size() != rows::kSession.size() + 8 || !row.ParseFromArray(value.data(), static_cast<int>(value.size())) ||
        row.applied_size() % 2 != 0) {
      damage = Status::data_loss("a session row of the state is malformed");
      return false;
    }
    Session& session = sessions_[NodeId(rows::number_of(key))];
    session.incarnation = row.incarnation();
    session.nonce = row.nonce();
    session.low_water = row.low_water();
    for (int i = 0; i < row.applied_size(); i += 2) session.runs[row.applied(i)] = row.applied(i + 1);
    return true;
  });
  return damage.is_ok() ? scanned : damage;
}

uint64_t Sessions::digest() const {
  uint64_t sum = 0;
  for (const auto& [node, session] : sessions_) sum = sum * 1000003 + node.value() + crc32c(0, encode(session));
  return sum;
}

}  // namespace rallypoint::server
