// The oracle's half about logs: writes, acks, commits, memberships, applied state.
#include <algorithm>

#include "tests/sim/engine.h"
#include "tests/sim/node.h"
#include "tests/sim/oracle.h"
#include "tests/sim/violation.h"

namespace rallypoint::sim {
namespace {

bool has_unbound(const raft::Membership& membership) {
  return std::ranges::any_of(membership.voters, [](const raft::Member& m) { return m.directory.is_zero(); });
}

size_t missing_from(const std::vector<raft::Member>& list, const std::vector<raft::Member>& other) {
  return static_cast<size_t>(
      std::ranges::count_if(list, [&](const raft::Member& m) { return !std::ranges::count(other, m); }));
}

/// True if every quorum of `from` meets every quorum of `to`, by the two ways that Raft knows.
bool may_follow(const raft::Membership& from, const raft::Membership& to) {
  if (to.voters.empty()) return false;
  if (!from.outgoing.empty()) return to.outgoing.empty() && to.voters == from.voters;
  if (!to.outgoing.empty()) return to.outgoing == from.voters;
  if (has_unbound(from)) {  // binding: the same members, now with their directories
    return from.voters.size() == to.voters.size() &&
           std::ranges::equal(from.voters, to.voters, [](auto& a, auto& b) {
             return a.id == b.id && (a.directory.is_zero() || a.directory == b.directory);
           });
  }
  return missing_from(from.voters, to.voters) + missing_from(to.voters, from.voters) <= 1;
}

}  // namespace

void Oracle::check_write(const Node& node, const raft::Write& write) {
  const LogModel& log = node.disk().issued();
  Process& process = processes_[node.id()];
  const raft::SoftState now = node.core().soft_state();
  process.wrote_entries |= !write.entries.empty();
  if (!write.entries.empty() && write.entries.front().index <= log.last_index()) {
    const Index cut = write.entries.front().index;
    world_.coverage.add(Counter::kLogTruncations);
    SIM_REQUIRE(cut > process.commit_drained, property::kStateMachine, "node", node.id(), "cuts at", cut,
                "commit", process.commit_drained);
    SIM_REQUIRE(process.acked_term != now.term || cut > process.acked_match, property::kAckedStay, "node",
                node.id(), "cuts at", cut, "acked", process.acked_match, "term", now.term);
  }
  Term previous =
      write.entries.empty() ? Term() : log.term_at(write.entries.front().index - 1).value_or(Term());
  for (const raft::Entry& entry : write.entries) {
    const KnownEntry seen{digest_after(0, entry), previous};
    const auto [it, fresh] = known_.try_emplace(raft::EntryId{entry.term, entry.index}, seen);
    SIM_REQUIRE(fresh || it->second.content == seen.content, property::kLogMatching, "node", node.id(),
                "term", entry.term, "index", entry.index, "differs from what another log holds", "");
    SIM_REQUIRE(fresh || it->second.previous == seen.previous || entry.index == log.start().index + 1,
                property::kLogMatching, "node", node.id(), "term", entry.term, "index", entry.index,
                "follows term", previous, "elsewhere", it->second.previous);
    if (fresh) {
      SIM_REQUIRE(
          entry.kind != raft::EntryKind::kCommand || !node.transfer_pending() || node.steps_in_output() > 1,
          property::kTransfer, "leader", node.id(), "appends", entry.index);
      SIM_REQUIRE(now.term >= entry.term, property::kLogMatching, "node", node.id(), "invents term",
                  entry.term, "in term", now.term);
      if (entry.kind == raft::EntryKind::kMembership) check_leader_append(node, entry);
    }
    previous = entry.term;
  }
  if (write.compact_to) {
    const raft::SnapshotMeta& meta = *write.compact_to;
    SIM_REQUIRE(meta.index <= node.disk().flushed().at.index, property::kCompaction, "node", node.id(),
                "cuts up to", meta.index, "flushed", node.disk().flushed().at.index);
    check_snapshot(meta, digest_at(meta.index));
    world_.coverage.add(Counter::kCompactions);
  }
  if (write.chunk) {
    SIM_REQUIRE(write.chunk->meta.index > process.commit_drained, property::kSnapshot, "node", node.id(),
                "stages", write.chunk->meta.index, "commit", process.commit_drained);
    check_snapshot(write.chunk->meta, digest_at(write.chunk->meta.index));
  }
}

void Oracle::check_leader_append(const Node& node, const raft::Entry& entry) {
  const LogModel& log = node.disk().issued();
  const raft::Membership next = parse_membership(entry.payload);
  const raft::Membership& present =
      log.membership_index() < entry.index ? log.membership() : memberships_.rbegin()->second;
  SIM_REQUIRE(may_follow(present, next), property::kConfig, "node", node.id(), "index", entry.index, "term",
              entry.term);
  if (!has_unbound(present)) {
    const Index commit = node.core().commit();
    SIM_REQUIRE(log.membership_index() <= commit, property::kConfig, "node", node.id(), "index", entry.index,
                "another change is under way at", log.membership_index(), "commit", commit);
    SIM_REQUIRE(!commit.is_zero() && commit <= committed() && records_[commit - Index(1)].term == entry.term,
                property::kConfig, "node", node.id(), "index", entry.index,
                "nothing of the own term is committed; commit", commit);
  }
  if (present.outgoing.empty() && !next.outgoing.empty()) world_.coverage.add(Counter::kJointChanges);
  world_.coverage.add(Counter::kMembershipChanges);
}

bool Oracle::vouches(const raft::Member& member, raft::EntryId id) const {
  for (const auto& [directory, disk] : directories_) {
    if (disk->owner() != member.id) continue;
    if (!member.directory.is_zero() && directory != member.directory) continue;
    if (disk->durable().holds(id) && disk->durable().last_index() >= id.index) return true;
  }
  return false;
}

void Oracle::check_commit(const Node& node, Process& process) {
  const Index commit = node.core().commit();
  SIM_REQUIRE(commit >= process.commit_before, property::kCommitMonotonic, "node", node.id(), "commit",
              commit, "before", process.commit_before);
  if (commit <= committed()) return;
  const raft::SoftState now = node.core().soft_state();
  const LogModel& log = node.disk().issued();
  const bool leads = now.role == raft::Role::kLeader;
  SIM_REQUIRE(leads || process.before.role == raft::Role::kLeader, property::kCommitRule, "node", node.id(),
              "commits before any leader did", commit, "committed", committed());
  const Term term = leads ? now.term : process.before.term;
  SIM_REQUIRE(log.term_at(commit) == term, property::kCommitRule, "node", node.id(), "commits", commit,
              "of term", log.term_at(commit).value_or(Term()), "in term", term);
  const raft::EntryId id{term, commit};
  const auto quorum = [&](const std::vector<raft::Member>& list) {
    const auto have = std::ranges::count_if(list, [&](const raft::Member& m) { return vouches(m, id); });
    return list.empty() || static_cast<size_t>(have) >= list.size() / 2 + 1;
  };
  const auto decided_by = [&](const raft::Membership& m) { return quorum(m.voters) && quorum(m.outgoing); };
  SIM_REQUIRE(decided_by(log.membership()) || decided_by(node.core().membership()), property::kCommitRule,
              "node", node.id(), "commits without a durable quorum", commit, "term", term);
  while (committed() < commit) record(node, log.at(committed() + 1), term);
  for (const auto& other : *world_.nodes) {
    if (!other->is_leader() || other->core().soft_state().term <= term) continue;
    SIM_REQUIRE(other->disk().issued().holds(id), property::kLeaderCompleteness, "leader", other->id(),
                "of term", other->core().soft_state().term, "lacks", commit, "committed in term", term);
  }
}

void Oracle::record(const Node& node, const raft::Entry& entry, Term leader_term) {
  const uint64_t before = digest_at(committed());
  records_.push_back(
      {entry.term, leader_term, entry.kind, digest_after(0, entry), digest_after(before, entry)});
  world_.coverage.add(Counter::kCommits);
  if (entry.kind == raft::EntryKind::kMembership) memberships_[entry.index] = parse_membership(entry.payload);
  if (entry.kind != raft::EntryKind::kCommand) return;
  const Command command = Command::decode(entry.payload.view());
  const auto it = proposals_.find(command.id);
  SIM_REQUIRE(it != proposals_.end(), property::kProposals, "node", node.id(), "commits unknown proposal",
              command.id);
  SIM_REQUIRE(!it->second.refused, property::kProposals, "node", node.id(), "commits refused proposal",
              command.id);
  SIM_REQUIRE(it->second.index.is_zero(), property::kProposals, "node", node.id(), "commits again",
              command.id);
  it->second.index = entry.index;
  registers_[command.key % kRegisters].push_back({entry.index, command.value});
}

void Oracle::check_to_apply(const Node& node, const raft::Entry& entry) {
  SIM_REQUIRE(entry.index <= committed() && !entry.index.is_zero(), property::kStateMachine, "node",
              node.id(), "applies", entry.index, "committed", committed());
  const Record& known = records_[entry.index - Index(1)];
  SIM_REQUIRE(known.term == entry.term && known.content == digest_after(0, entry), property::kStateMachine,
              "node", node.id(), "index", entry.index, "applies term", entry.term, "committed term",
              known.term);
  SIM_REQUIRE(node.disk().durable().holds({entry.term, entry.index}) &&
                  node.disk().durable().last_index() >= entry.index,
              property::kDurableApply, "node", node.id(), "index", entry.index, "durable last",
              node.disk().durable().last_index());
}

void Oracle::check_engine(const Node& node) const {
  SIM_REQUIRE(node.engine().digest == digest_at(node.engine().at.index), property::kStateMachine, "node",
              node.id(), "digest differs at", node.engine().at.index);
}

void Oracle::check_snapshot(const raft::SnapshotMeta& meta, uint64_t digest) const {
  SIM_REQUIRE(meta.index <= committed() && !meta.index.is_zero(), property::kSnapshot, "covers", meta.index,
              "committed", committed());
  SIM_REQUIRE(records_[meta.index - Index(1)].term == meta.term, property::kSnapshot, "index", meta.index,
              "has term", meta.term, "committed term", records_[meta.index - Index(1)].term);
  const auto in_force = std::prev(memberships_.upper_bound(meta.index));
  SIM_REQUIRE(in_force->second == meta.membership, property::kSnapshot, "index", meta.index,
              "other membership than that of", in_force->first);
  SIM_REQUIRE(digest == digest_at(meta.index), property::kSnapshot, "index", meta.index, "digest differs",
              "");
}

void Oracle::check_drained(const Node& node) {
  processes_[node.id()].commit_drained = node.core().commit();
  if (node.install_untold()) return;
  const LogModel& log = node.disk().issued();
  SIM_REQUIRE(node.core().last_index() == log.last_index(), property::kLogMatching, "node", node.id(),
              "core's last", node.core().last_index(), "written last", log.last_index());
  SIM_REQUIRE(node.core().membership() == log.membership(), property::kConfig, "node", node.id(), "has",
              membership_text(node.core().membership()), "its log at", log.membership_index(), "has",
              membership_text(log.membership()));
}

bool Oracle::all_bound() const {
  return memberships_.size() > 1 && !has_unbound(membership());
}

bool Oracle::was_member(NodeId id) const {
  return std::ranges::any_of(memberships_, [&](const auto& committed) {
    const raft::Membership& m = committed.second;
    for (const auto* list : {&m.voters, &m.outgoing, &m.learners}) {
      if (std::ranges::any_of(*list, [&](const raft::Member& member) { return member.id == id; }))
        return true;
    }
    return false;
  });
}

bool Oracle::is_lost(const raft::Member& member) const {
  const auto it = directories_.find(member.directory);
  return it != directories_.end() && it->second->dead();
}

bool Oracle::survives(const raft::Membership& next, NodeId extra) const {
  const auto live = [&](const std::vector<raft::Member>& list) {
    const auto lost =
        std::ranges::count_if(list, [&](const raft::Member& m) { return m.id == extra || is_lost(m); });
    return list.empty() || list.size() - static_cast<size_t>(lost) >= list.size() / 2 + 1;
  };
  return live(next.voters) && live(next.outgoing);
}

bool Oracle::survives_loss_of(NodeId extra) const {
  // A member on its way back becomes a voter at any moment, without being asked.
  const auto keeps_quorum = [&](raft::Membership now) {
    if (!survives(now, extra)) return false;
    for (const raft::Member& learner : now.learners) {
      if (std::ranges::count(now.returning, learner.id)) now.voters.push_back(learner);
    }
    return survives(now, extra);
  };
  if (!keeps_quorum(membership())) return false;
  const Index latest = memberships_.rbegin()->first;
  for (const auto& [id, disk] : directories_) {
    if (disk->dead()) continue;
    for (const LogModel* log : {&disk->issued(), &disk->durable()}) {
      for (const auto& [index, next] : log->memberships()) {
        if (index > latest && !keeps_quorum(next)) return false;
      }
    }
  }
  return true;
}

Index Oracle::index_of(uint64_t proposal) const {
  const auto it = proposals_.find(proposal);
  return it == proposals_.end() ? Index() : it->second.index;
}

void Oracle::refused(uint64_t id, const Status& status) {
  if (status.code() == Code::kOutcomeUnknown) return;
  Proposal& proposal = proposals_[id];
  SIM_REQUIRE(proposal.index.is_zero(), property::kProposals, "refused after commit", id, "status", status);
  proposal.refused = true;
}

void Oracle::check_read_index(const Node& node, Index floor, Index index) const {
  SIM_REQUIRE(index >= floor, property::kReads, "node", node.id(), "reads at", index,
              "though committed before it was asked was", floor);
  SIM_REQUIRE(index <= committed(), property::kReads, "node", node.id(), "reads at", index, "committed",
              committed());
}

void Oracle::check_register(const Node& node, uint32_t key, uint64_t value, Index at) const {
  const auto& history = registers_[key % kRegisters];
  const auto after = std::ranges::upper_bound(history, at, {}, &Register::index);
  const uint64_t expected = after == history.begin() ? 0 : std::prev(after)->value;
  SIM_REQUIRE(value == expected, property::kReads, "node", node.id(), "key", key, "value", value, "expected",
              expected, "at", at);
}

}  // namespace rallypoint::sim
