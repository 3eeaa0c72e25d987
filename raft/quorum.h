// Quorum: the arithmetic of majorities, over one list of voters or both of a joint membership (thesis 4.3: a
// decision then needs a majority of the old and a majority of the new). Pure functions; who counts as having
// voted or acked, and from which disk, is the caller's to say.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "raft/planted_bug.h"
#include "raft/types.h"

namespace rallypoint::raft::quorum {

/// Members needed out of `count`.
[[nodiscard]] constexpr size_t majority(size_t count) {
  return count / 2 + 1;
}

enum class Vote : uint8_t { kPending, kWon, kLost };

/// The highest value that a majority of `voters` has reached; `value_of(member)` may be any ordered type.
/// Default-constructed (nothing reached) if there are no voters.
template <class Value, class ValueOf>
[[nodiscard]] Value majority_value(const std::vector<Member>& voters, const ValueOf& value_of,
                                   size_t needed) {
  if (voters.empty()) return Value{};
  std::array<Value, 16> small;
  std::vector<Value> large;
  Value* values = small.data();
  if (voters.size() > small.size()) {
    large.resize(voters.size());
    values = large.data();
  }
  for (size_t i = 0; i < voters.size(); ++i) values[i] = value_of(voters[i]);
  // Sorted downwards, the value at place `needed` is reached by that many.
  const size_t place = needed == 0 ? 0 : needed - 1;
  std::nth_element(values, values + place, values + voters.size(), [](Value a, Value b) { return b < a; });
  return values[place];
}

/// The same over a whole membership.
template <class Value, class ValueOf>
[[nodiscard]] Value agreed_value(const Membership& membership, const ValueOf& value_of, size_t fewer = 0) {
  const Value incoming =
      majority_value<Value>(membership.voters, value_of, majority(membership.voters.size()) - fewer);
  if (membership.outgoing.empty() || RALLY_PLANTED_BUG(kJointUsesSingleQuorum)) return incoming;
  return std::min(incoming, majority_value<Value>(membership.outgoing, value_of,
                                                  majority(membership.outgoing.size()) - fewer));
}

/// How a ballot stands; `vote_of(member)` is empty while nothing (that counts) was heard.
template <class VoteOf>
[[nodiscard]] Vote ballot_of(const std::vector<Member>& voters, const VoteOf& vote_of, size_t needed) {
  size_t yes = 0, no = 0;
  for (const Member& voter : voters) {
    const std::optional<bool> vote = vote_of(voter);
    if (vote.has_value()) ++(*vote ? yes : no);
  }
  if (!voters.empty() && yes >= needed) return Vote::kWon;
  return voters.size() - no < needed || voters.empty() ? Vote::kLost : Vote::kPending;
}

template <class VoteOf>
[[nodiscard]] Vote ballot(const Membership& membership, const VoteOf& vote_of, size_t fewer = 0) {
  const Vote incoming = ballot_of(membership.voters, vote_of, majority(membership.voters.size()) - fewer);
  if (membership.outgoing.empty() || RALLY_PLANTED_BUG(kJointUsesSingleQuorum)) return incoming;
  const Vote outgoing = ballot_of(membership.outgoing, vote_of, majority(membership.outgoing.size()) - fewer);
  if (incoming == Vote::kLost || outgoing == Vote::kLost) return Vote::kLost;
  return incoming == Vote::kWon && outgoing == Vote::kWon ? Vote::kWon : Vote::kPending;
}

/// Whether those for whom `holds(member)` is true can decide.
template <class Holds>
[[nodiscard]] bool is_quorum(const Membership& membership, const Holds& holds) {
  return ballot(membership, [&](const Member& member) { return std::optional<bool>(holds(member)); }) ==
         Vote::kWon;
}

}  // namespace rallypoint::raft::quorum
