// Membership: who may decide, what it looks like in a log entry, and which one was in force where.
//
// A member is a name bound to a disk: votes and acks belong to the directory that made them. So a member
// whose directory was wiped is a stranger until a new membership binds its new directory. A membership counts
// from the moment its entry is in the log, committed or not, and no longer once the entry is cut
// (thesis 4.1).
#pragma once

#include <vector>

#include "raft/base/status.h"
#include "raft/types.h"

namespace rallypoint::raft {

[[nodiscard]] Bytes encode_membership(const Membership& membership);
/// Decodes and validates; the bytes may come from anywhere.
[[nodiscard]] Result<Membership> decode_membership(const Bytes& payload);
/// Lists sorted by id without doubles, ids not 0, nobody in two roles that exclude each other.
[[nodiscard]] Status validate_membership(const Membership& membership);

/// The member of that id in a sorted list, or null.
[[nodiscard]] const Member* find_in(const std::vector<Member>& members, NodeId id);
/// The member of that id in any role, or null. A member has the same directory in all of its roles.
[[nodiscard]] const Member* find_member(const Membership& membership, NodeId id);
/// Whether it votes: a voter of either side in joint consensus.
[[nodiscard]] inline bool is_voter(const Membership& m, NodeId id) {
  return find_in(m.voters, id) != nullptr || find_in(m.outgoing, id) != nullptr;
}
[[nodiscard]] inline bool is_joint(const Membership& m) {
  return !m.outgoing.empty();
}
/// Adds or replaces, keeping the order. / Removes if there.
void put_in(std::vector<Member>& members, Member member);
void drop_from(std::vector<Member>& members, NodeId id);

/// The memberships in the log: the one at its start and every one after, by the index of its entry.
class MembershipHistory {
 public:
  explicit MembershipHistory(Index base = {}, Membership at_base = {}) { reset(base, std::move(at_base)); }

  [[nodiscard]] const Membership& current() const { return items_.back().membership; }
  /// The index from which current() is in force; the log's start if it never changed since.
  [[nodiscard]] Index current_index() const { return items_.back().index; }
  /// What is in force at `index`; requires that it is not before the log's start.
  [[nodiscard]] const Membership& at(Index index) const;

  /// Whether the membership in force at `index`, or any later one, is such that `is_such(membership)`.
  template <class Predicate>
  [[nodiscard]] bool any_since(Index index, const Predicate& is_such) const {
    for (auto it = items_.rbegin(); it != items_.rend(); ++it) {
      if (is_such(it->membership)) return true;
      if (it->index <= index) break;
    }
    return false;
  }

  void append(Index index, Membership membership);
  /// The log was cut: entries from `from` on are gone. True if that changed current().
  bool truncate_from(Index from);
  void compact_to(Index index);
  void reset(Index base, Membership at_base);

 private:
  struct Item {
    Index index;
    Membership membership;
  };
  std::vector<Item> items_;  ///< never empty; ascending
};

}  // namespace rallypoint::raft
