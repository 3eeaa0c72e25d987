#include "raft/invariants.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "raft/membership_change.h"

namespace rallypoint::raft {
namespace {

/// "node 1: <property> name=value ...".
template <class... Pairs>
std::string broken(const CoreState& state, const char* property, const Pairs&... pairs) {
  std::ostringstream out;
  out << "node " << state.config.id << " term " << state.term << ": " << property;
  check_detail::append_pairs(out, pairs...);
  return out.str();
}

std::string broken_marks(const CoreState& s) {
  const Log& log = s.log;
  if (log.commit() < log.base().index) return broken(s, "commit is before the log", "commit", log.commit());
  if (log.last_index() < log.commit()) return broken(s, "commit is beyond the log", "commit", log.commit());
  if (log.last_index() < log.durable())
    return broken(s, "durable is beyond the log", "durable", log.durable());
  if (log.deliverable() < s.delivered)
    return broken(s, "delivered what is not committed and durable", "delivered", s.delivered, "commit",
                  log.commit(), "durable", log.durable());
  if (s.delivered < s.applied) return broken(s, "applied what was not delivered", "applied", s.applied);
  if (s.applied < log.base().index)
    return broken(s, "the log was cut beyond what is applied", "base", log.base().index);
  if (s.term < log.last_id().term)
    return broken(s, "an entry is newer than the term", "entry", log.last_id().term);
  return {};
}

std::string broken_role(const CoreState& s) {
  if ((s.role == Role::kLeader) != s.leading.has_value()) return broken(s, "role and leader's state differ");
  if (s.role == Role::kLeader && (s.leader != s.config.id || s.vote != s.config.id))
    return broken(s, "a leader that did not vote for itself", "vote", s.vote, "leader", s.leader);
  if (s.role == Role::kCandidate && (s.vote != s.config.id || !s.leader.is_zero()))
    return broken(s, "a candidate that did not vote for itself or has a leader", "vote", s.vote, "leader",
                  s.leader);
  if (s.role == Role::kPreCandidate && !s.leader.is_zero()) return broken(s, "a pre-candidate has a leader");
  if (s.snapshots.installing && s.role != Role::kFollower)
    return broken(s, "installs a snapshot but does not follow");
  return {};
}

std::string broken_leadership(const CoreState& s) {
  const Leadership& leading = *s.leading;
  if (s.log.last_index() < leading.first_of_term) return broken(s, "a leader without an entry of its term");
  if (s.log.base().index < leading.first_of_term && s.log.term_at(leading.first_of_term) != s.term)
    return broken(s, "the leader's first entry is of another term", "index", leading.first_of_term);
  NodeId before;
  for (const Progress& follower : leading.followers) {
    if (follower.id <= before || follower.id == s.config.id)
      return broken(s, "followers are not sorted", "id", follower.id);
    before = follower.id;
    if (follower.next <= follower.match) return broken(s, "match < next is broken", "follower", follower.id);
    if (s.log.last_index() < follower.match)
      return broken(s, "a follower matches more than there is", "follower", follower.id);
    if (s.log.last_index() + 1 < follower.next)
      return broken(s, "next is beyond the log", "follower", follower.id);
    if (find_member(s.membership(), follower.id) == nullptr)
      return broken(s, "follows a stranger", "follower", follower.id);
  }
  return {};
}

std::string broken_membership(const CoreState& s) {
  const Membership& m = s.memberships.current();
  if (s.log.last_index() < s.memberships.current_index())
    return broken(s, "a membership in force is not in the log", "index", s.memberships.current_index());
  if (!s.is_blank() && s.log.base().index < s.memberships.current_index() &&
      s.log.at(s.memberships.current_index()).kind != EntryKind::kMembership)
    return broken(s, "a membership in force is not in the log", "index", s.memberships.current_index());
  if (const Status status = validate_membership(m); !status.is_ok())
    return broken(s, "bad membership", "status", status);
  if (s.is_blank()) return {};
  for (const Member& voter : m.voters)
    if (voter.directory.is_zero())
      return broken(s, "an unbound voter after the first election", "voter", voter.id);
  return {};
}

uint64_t content_of(const Entry& entry) {
  const std::string_view bytes = entry.payload.view();
  return std::hash<std::string_view>{}(bytes)*31 + static_cast<uint64_t>(entry.kind) + bytes.size() * 1000003;
}

}  // namespace

std::string broken_in(const CoreState& state) {
  std::string text = broken_marks(state);
  if (text.empty()) text = broken_role(state);
  if (text.empty()) text = broken_membership(state);
  if (text.empty() && state.leading.has_value()) text = broken_leadership(state);
  return text;
}

void check_invariants(const CoreState& state) {
  const std::string text = broken_in(state);
  RALLY_CHECK(text.empty(), "property", text);
}

StateSummary::StateSummary(const CoreState& s)
    : term(s.term),
      vote(s.vote),
      leader(s.leader),
      role(s.role),
      base(s.log.base().index),
      commit(s.log.commit()),
      delivered(s.delivered),
      applied(s.applied),
      last(s.log.last_index()),
      rewrites(s.log.rewrites()) {}

std::string broken_between(const StateSummary& before, const CoreState& after) {
  if (after.term < before.term) return broken(after, "the term fell", "before", before.term);
  if (after.log.commit() < before.commit)
    return broken(after, "the commit index fell", "before", before.commit, "after", after.log.commit());
  if (after.delivered < before.delivered) return broken(after, "delivered fell", "before", before.delivered);
  if (after.applied < before.applied) return broken(after, "applied fell", "before", before.applied);
  if (after.log.base().index < before.base)
    return broken(after, "the log's start fell", "before", before.base);
  if (after.term != before.term) return {};
  if (!before.vote.is_zero() && after.vote != before.vote)
    return broken(after, "the vote changed within a term", "before", before.vote, "after", after.vote);
  if (!before.leader.is_zero() && !after.leader.is_zero() && before.leader != after.leader)
    return broken(after, "two leaders in a term", "before", before.leader, "after", after.leader);
  if (before.role == Role::kLeader && after.role == Role::kLeader &&
      (after.log.rewrites() != before.rewrites || after.log.last_index() < before.last))
    return broken(after, "Leader Append-Only: a leader cut its log", "before", before.last, "after",
                  after.log.last_index());
  return {};
}

std::string ClusterInvariants::check(const std::vector<const CoreState*>& states) {
  for (const CoreState* state : states) {
    Seen& seen = seen_[state->config.id];
    std::string text = check_log(*state, seen);
    if (text.empty()) text = check_commit(*state, seen, states);
    if (text.empty()) text = check_memberships(*state, seen);
    if (text.empty() && state->role == Role::kLeader) {
      text = check_leader(*state);
      if (text.empty()) text = check_acks(*state, states);
    }
    if (!text.empty()) return text;
  }
  return {};
}

std::string ClusterInvariants::check_log(const CoreState& state, Seen& seen) {
  const Log& log = state.log;
  if (log.rewrites() != seen.rewrites) {
    // What is committed was compared; all after it may be new.
    seen.last = std::min(seen.last, seen.commit);
    seen.rewrites = log.rewrites();
  }
  for (Index i = std::max(seen.last, log.base().index) + 1; i <= log.last_index(); ++i) {
    const Entry& entry = log.at(i);
    const Known now{*log.term_at(i - 1), content_of(entry)};
    const auto [it, is_new] = known_.try_emplace(EntryId{entry.term, i}, now);
    if (!is_new && (it->second.previous != now.previous || it->second.content != now.content))
      return broken(state, "Log Matching: one id, two entries or two pasts", "index", i, "entry term",
                    entry.term);
  }
  seen.last = log.last_index();
  return {};
}

std::string ClusterInvariants::check_commit(const CoreState& state, Seen& seen,
                                            const std::vector<const CoreState*>& states) {
  const Log& log = state.log;
  for (Index i = std::max(seen.commit, log.base().index) + 1; i <= log.commit(); ++i) {
    const EntryId id{*log.term_at(i), i};
    if (i <= committed()) {
      const EntryId known = committed_[i.value() - 1];
      if (!known.term.is_zero() && known != id)
        return broken(state, "State Machine Safety: two entries are committed at one index", "index", i,
                      "term", id.term, "other", known.term);
      committed_[i.value() - 1] = id;
      continue;
    }
    committed_.resize(i.value());
    committed_[i.value() - 1] = id;
    for (const CoreState* other : states)
      if (other->role == Role::kLeader && state.term < other->term && id.term < other->term &&
          other->log.base().index < i && other->log.term_at(i) != id.term)
        return broken(*other, "Leader Completeness: a leader lacks a committed entry", "index", i, "term",
                      id.term);
  }
  seen.commit = std::max(seen.commit, log.commit());
  return {};
}

std::string ClusterInvariants::check_leader(const CoreState& state) {
  const Member self{state.config.id, state.config.directory};
  const auto [it, is_new] = leaders_.try_emplace(state.term, self);
  if (it->second != self)
    return broken(state, "Election Safety: two leaders in a term", "other", it->second.id, "its disk",
                  it->second.directory);
  if (!is_new) return {};
  const Log& log = state.log;
  if (log.last_index() < committed())
    return broken(state, "Leader Completeness: a new leader lacks entries", "last", log.last_index(),
                  "committed", committed());
  for (Index i = log.first_index(); i <= committed(); ++i) {
    const EntryId known = committed_[i.value() - 1];
    if (!known.term.is_zero() && known.term < state.term && log.term_at(i) != known.term)
      return broken(state, "Leader Completeness: a new leader lacks a committed entry", "index", i, "term",
                    known.term);
  }
  return {};
}

std::string ClusterInvariants::check_memberships(const CoreState& state, Seen& seen) {
  const Index index = state.memberships.current_index();
  if (index == seen.membership_index) return {};
  const Membership& now = state.memberships.current();
  // Neighbours in a leader's log: one voter more or less, or into or out of a joint phase. (A follower may
  // get several at once.)
  if (state.role == Role::kLeader && Index(1) < index && state.log.base().index < index &&
      state.log.term_at(index) == state.term) {
    const Membership& before = state.memberships.at(index - 1);
    const bool enters = now.outgoing == before.voters,
               leaves = is_joint(before) && now.voters == before.voters;
    if (!enters && !leaves && membership_change::voters_changed(before, now) > 1)
      return broken(state, "Config Safety: two voters changed in one step", "index", index);
    if (is_joint(before) && is_joint(now))
      return broken(state, "Config Safety: joint upon joint", "index", index);
    size_t uncommitted = 0;
    for (Index i = state.log.commit() + 1; i <= state.log.last_index(); ++i)
      uncommitted += state.log.at(i).kind == EntryKind::kMembership && state.log.at(i).term == state.term;
    if (uncommitted > 1) return broken(state, "Config Safety: two changes are under way", "index", index);
    if (state.log.commit() < state.leading->first_of_term && state.leading->first_of_term < index)
      return broken(state, "Config Safety: a change before the leader committed in its term", "index", index);
  }
  seen.membership_index = index;
  return {};
}

std::string ClusterInvariants::check_acks(const CoreState& leader,
                                          const std::vector<const CoreState*>& states) const {
  for (const Progress& follower : leader.leading->followers)
    for (const CoreState* other : states) {
      if (other->config.id != follower.id || other->config.directory != follower.directory) continue;
      if (other->term != leader.term || other->role == Role::kLeader) continue;
      if (other->log.durable() < follower.match)
        return broken(leader, "an ack was not durable", "follower", follower.id, "match", follower.match,
                      "durable", other->log.durable());
    }
  return {};
}

}  // namespace rallypoint::raft
