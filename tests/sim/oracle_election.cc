// The oracle's half about elections: votes, leaders, stickiness, step-downs, and what is sent.
#include <algorithm>
#include <variant>

#include "tests/sim/node.h"
#include "tests/sim/oracle.h"
#include "tests/sim/violation.h"

namespace rallypoint::sim {
namespace {

bool contains_id(const std::vector<raft::Member>& list, NodeId id) {
  return std::ranges::any_of(list, [&](const raft::Member& m) { return m.id == id; });
}

bool comes_from_leader(const raft::Message& message) {
  return std::holds_alternative<raft::AppendRequest>(message.body) ||
         std::holds_alternative<raft::Heartbeat>(message.body) ||
         std::holds_alternative<raft::InstallSnapshot>(message.body);
}

}  // namespace

void Oracle::process_started(const Node& node) {
  processes_[node.id()] = Process{};
  processes_[node.id()].before = node.core().soft_state();
  processes_[node.id()].commit_before = processes_[node.id()].commit_drained = node.core().commit();
  SIM_REQUIRE(node.core().commit() <= committed(), property::kCommitMonotonic, "node", node.id(), "starts at",
              node.core().commit(), "committed", committed());
}

void Oracle::before_call(const Node& node) {
  Process& process = processes_[node.id()];
  process.before = node.core().soft_state();
  process.commit_before = node.core().commit();
  process.wrote_entries = false;
}

void Oracle::after_call(const Node& node, const char*, const raft::Message* message) {
  Process& process = processes_[node.id()];
  const raft::SoftState now = node.core().soft_state();
  SIM_REQUIRE(now.term >= process.before.term, property::kVotes, "node", node.id(), "term falls to", now.term,
              "from", process.before.term);
  if (message != nullptr) {
    const auto* vote = std::get_if<raft::VoteRequest>(&message->body);
    if (vote != nullptr && vote->pre_vote) {
      SIM_REQUIRE(now.term == process.before.term, property::kPreVote, "node", node.id(), "term", now.term,
                  "before", process.before.term);
    }
    if (message->term < process.before.term) {
      SIM_REQUIRE(now == process.before && node.core().commit() == process.commit_before, property::kOldTerm,
                  "node", node.id(), "of term", process.before.term, "heeds", raft::message_name(*message),
                  "of term", message->term);
    }
    if (message->term == now.term) process.heard_tick[message->from] = node.ticks();
    if (comes_from_leader(*message) && message->term == now.term && now.leader == message->from) {
      process.leader_heard_tick = node.ticks() + 1;
      process.leader_heard_term = now.term;
      process.told_leader_gone = false;
    }
  }
  if (now.role == raft::Role::kLeader &&
      (process.before.role != now.role || process.before.term != now.term)) {
    process.leading_since_tick = node.ticks();
    process.outside_since_tick = 0;
    check_election(node, now);
  }
  check_commit(node, process);
  if (now.role == raft::Role::kLeader) check_leader_health(node, process);
}

void Oracle::told_leader_gone(const Node& node) {
  processes_[node.id()].told_leader_gone = true;
}

void Oracle::check_election(const Node& node, const raft::SoftState& now) {
  const auto [it, fresh] = leaders_.try_emplace(now.term, Leader{node.id(), node.disk().id(), node.life()});
  SIM_REQUIRE(fresh || (it->second.node == node.id() && it->second.life == node.life()),
              property::kElectionSafety, "term", now.term, "leads", node.id(), "and", it->second.node);
  const LogModel& log = node.disk().issued();
  // What leaders of older terms committed. (One may be elected late, by votes that were long under way, when
  // leaders of newer terms have committed already.)
  Index theirs = committed();
  while (!theirs.is_zero() && records_[theirs - Index(1)].committed_in >= now.term) theirs = theirs - 1;
  if (!theirs.is_zero()) {
    const raft::EntryId last{records_[theirs - Index(1)].term, theirs};
    SIM_REQUIRE(log.holds(last) && log.last_index() >= last.index, property::kLeaderCompleteness, "leader",
                node.id(), "of term", now.term, "lacks", last.index, "of term", last.term, "its last",
                log.last_index());
  }
  const raft::HardState& own = node.disk().durable().hard_state;
  if (own.term == now.term && own.vote == node.id())
    add_grant(now.term, {node.id(), node.disk().id(), node.id()});
  const auto& grants = grants_[now.term];
  bool unbound = false;
  const auto voted = [&](const raft::Member& member) {
    unbound |= member.directory.is_zero();
    return std::ranges::any_of(grants, [&](const Grant& grant) {
      return grant.candidate == node.id() && grant.voter == member.id &&
             (member.directory.is_zero() || member.directory == grant.directory);
    });
  };
  const auto elected_by = [&](const std::vector<raft::Member>& list) {
    const auto votes = static_cast<size_t>(std::ranges::count_if(list, voted));
    return list.empty() || votes >= (unbound ? list.size() : list.size() / 2 + 1);
  };
  SIM_REQUIRE(elected_by(log.membership().voters) && elected_by(log.membership().outgoing),
              property::kElectorate, "leader", node.id(), "term", now.term, "grants", grants.size(),
              "unbound", unbound);
}

void Oracle::check_leader_health(const Node& node, Process& process) {
  const raft::Membership& membership = node.core().membership();
  const uint64_t patience = 3 * world_.profile.core.election_ticks + 3;
  const auto hears = [&](const raft::Member& member) {
    if (member.id == node.id()) return true;
    const auto it = process.heard_tick.find(member.id);
    const uint64_t heard = it == process.heard_tick.end() ? 0 : it->second;
    return std::max(heard, process.leading_since_tick) + patience >= node.ticks();
  };
  for (const auto* list : {&membership.voters, &membership.outgoing}) {
    const auto count = static_cast<size_t>(std::ranges::count_if(*list, hears));
    SIM_REQUIRE(list->empty() || count >= list->size() / 2 + 1, property::kCheckQuorum, "leader", node.id(),
                "term", node.core().soft_state().term, "hears", count, "of", list->size());
  }
  const bool inside =
      contains_id(membership.voters, node.id()) || contains_id(membership.outgoing, node.id());
  const bool settled = node.disk().issued().membership_index() <= node.core().commit();
  if (inside || !settled) {
    process.outside_since_tick = 0;
  } else if (process.outside_since_tick == 0) {
    process.outside_since_tick = node.ticks() + 1;
  } else {
    SIM_REQUIRE(node.ticks() <= process.outside_since_tick + 2 * world_.profile.core.election_ticks,
                property::kRemovedLeader, "leader", node.id(), "outside since tick",
                process.outside_since_tick);
  }
}

void Oracle::add_grant(Term term, const Grant& grant) {
  auto& grants = grants_[term];
  for (const Grant& known : grants) {
    if (known.directory != grant.directory) continue;
    SIM_REQUIRE(known.candidate == grant.candidate, property::kVotes, "node", grant.voter, "term", term,
                "votes for", grant.candidate, "after", known.candidate);
    return;
  }
  grants.push_back(grant);
}

void Oracle::check_granted_vote(const Node& node, const raft::Message& message, bool pre_vote) {
  const raft::HardState& durable = node.disk().durable().hard_state;
  if (!pre_vote) {
    SIM_REQUIRE(durable.term > message.term || (durable.term == message.term && durable.vote == message.to),
                property::kVotes, "node", node.id(), "grants", message.to, "in term", message.term,
                "but durable is term", durable.term, "vote", durable.vote);
    add_grant(message.term, {node.id(), node.disk().id(), message.to});
    return;
  }
  if (node.steps_in_output() > 1) return;  // of a batch only the end is seen here
  const Process& process = processes_[node.id()];
  const raft::SoftState now = node.core().soft_state();
  SIM_REQUIRE(now.role != raft::Role::kLeader, property::kStickiness, "leader", node.id(), "pre-votes for",
              message.to);
  const bool hears = process.leader_heard_tick > 0 && process.leader_heard_term == now.term &&
                     !process.told_leader_gone &&
                     node.ticks() + 1 - process.leader_heard_tick < world_.profile.core.election_ticks;
  SIM_REQUIRE(!hears, property::kStickiness, "node", node.id(), "pre-votes for", message.to,
              "though it heard its leader", node.ticks() + 1 - process.leader_heard_tick, "ticks ago", "");
}

void Oracle::check_message(const Node& node, const raft::Message& message) {
  SIM_REQUIRE(message.from == node.id() && message.from_directory == node.disk().id() &&
                  !message.to.is_zero() && message.to != node.id(),
              property::kCoreCheck, "node", node.id(), "sends as", message.from, "to", message.to);
  const LogModel& durable = node.disk().durable();
  const LogModel& issued = node.disk().issued();
  if (const auto* vote = std::get_if<raft::VoteReply>(&message.body)) {
    if (vote->granted) check_granted_vote(node, message, vote->pre_vote);
  } else if (const auto* append = std::get_if<raft::AppendReply>(&message.body)) {
    if (!append->accepted) return;
    const bool current = message.term == issued.hard_state.term;
    SIM_REQUIRE(durable.hard_state.term >= message.term, property::kAcks, "node", node.id(), "acks in term",
                message.term, "durable term", durable.hard_state.term);
    SIM_REQUIRE(durable.last_index() >= append->match || !current, property::kAcks, "node", node.id(), "acks",
                append->match, "durable last", durable.last_index());
    SIM_REQUIRE(!current || append->match <= durable.start().index ||
                    durable.term_at(append->match) == issued.term_at(append->match) ||
                    append->match <= issued.start().index,
                property::kAcks, "node", node.id(), "acks", append->match, "durable is another entry", "");
    Process& process = processes_[node.id()];
    if (process.acked_term != message.term) process.acked_match = Index();
    process.acked_term = message.term;
    process.acked_match = std::max(process.acked_match, append->match);
  } else if (const auto* beat = std::get_if<raft::HeartbeatReply>(&message.body)) {
    if (node.install_untold() || node.steps_in_output() > 1) return;
    SIM_REQUIRE(beat->last <= durable.last_index() || message.term != issued.hard_state.term, property::kAcks,
                "node", node.id(), "says it holds", beat->last, "durable last", durable.last_index());
  } else if (const auto* install = std::get_if<raft::InstallSnapshotReply>(&message.body)) {
    if (install->installed) {
      SIM_REQUIRE(durable.last_index() >= install->snapshot.index, property::kAcks, "node", node.id(),
                  "says it installed", install->snapshot.index, "durable last", durable.last_index());
    } else {
      SIM_REQUIRE(install->next_offset <= node.disk().staged_of(install->snapshot), property::kAcks, "node",
                  node.id(), "says staged", install->next_offset, "staged",
                  node.disk().staged_of(install->snapshot));
    }
  }
}

}  // namespace rallypoint::sim
