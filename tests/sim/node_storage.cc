// The node's disk and state machine side: group commit, applying, reads, flushes, snapshots; and what it
// tells of itself.
#include <algorithm>
#include <type_traits>
#include <utility>

#include "tests/sim/clients.h"
#include "tests/sim/node.h"
#include "tests/sim/oracle.h"
#include "tests/sim/violation.h"

namespace rallypoint::sim {

void Node::start_sync() {
  disk_->begin_sync();
  Duration latency = around(world_.random, world_.profile.sync_latency);
  latency = std::max(latency, stalled_until_ - world_.scheduler.now());
  // Not post(): the kernel goes on while the process is stopped.
  world_.scheduler.after(latency, [this, life = life_] {
    if (life == life_) sync_done();
  });
}

void Node::sync_done() {
  std::optional<EngineState> installed;
  const raft::WriteNumber number = disk_->finish_sync(installed);
  if (installed) {
    SIM_REQUIRE(installed->at.index >= engine_.at.index, property::kSnapshot, "node", id_, "installs",
                installed->at.index, "over applied", engine_.at.index);
    engine_ = *installed;
    install_untold_ = true;
    world_.oracle->check_snapshot(engine_.at, engine_.digest);
    while (!to_apply_.empty() && to_apply_.front().index <= engine_.at.index) to_apply_.pop_front();
    world_.trace.say(id_, "installed snapshot ", engine_.at.index);
  }
  if (disk_->has_waiting()) start_sync();
  post(Duration::micros(static_cast<int64_t>(world_.random.between(1, 30))),
       [this, number, told = installed.has_value()] {
         if (told) install_untold_ = false;
         step(raft::Persisted{number}, "persisted");
         if (running()) serve_reads();
       });
}

void Node::start_apply() {
  if (applying_ || to_apply_.empty()) return;
  applying_ = true;
  post(around(world_.random, world_.profile.apply_latency), [this] { apply_some(); });
}

void Node::apply_some() {
  applying_ = false;
  bool any = false;
  for (uint64_t left = world_.random.between(1, 32); left > 0 && !to_apply_.empty(); --left) {
    const raft::Entry entry = std::move(to_apply_.front());
    to_apply_.pop_front();
    if (entry.index <= engine_.at.index) continue;  // a snapshot brought it
    engine_.apply(entry);
    any = true;
    if (entry.kind != raft::EntryKind::kCommand) continue;
    world_.clients->applied(*this, Command::decode(entry.payload.view()).id, entry.index);
  }
  world_.oracle->check_engine(*this);
  serve_reads();
  start_apply();
  if (any) step(raft::Applied{engine_.at.index}, "applied");
}

void Node::take_read_result(const raft::ReadResult& result) {
  const auto it = reads_.find(result.id);
  SIM_REQUIRE(it != reads_.end(), property::kReads, "node", id_, "answers unknown read", result.id);
  if (!result.status.is_ok()) {
    world_.coverage.add(Counter::kReadsFailed);
    reads_.erase(it);
    return;
  }
  world_.oracle->check_read_index(*this, it->second.floor, result.index);
  if (result.index > it->second.floor) world_.coverage.add(Counter::kReadsAboveFloor);
  it->second.index = result.index;
  serve_reads();
}

void Node::serve_reads() {
  for (auto it = reads_.begin(); it != reads_.end();) {
    const PendingRead& read = it->second;
    if (!read.index || *read.index > engine_.at.index) {
      ++it;
      continue;
    }
    world_.oracle->check_register(*this, read.key, engine_.registers[read.key % kRegisters],
                                  engine_.at.index);
    it = reads_.erase(it);
  }
}

void Node::schedule_flush() {
  post(around(world_.random, world_.profile.flush_interval), [this] {
    disk_->flush(engine_);
    disk_->release(disk_->flushed().at.index);
    const uint64_t keep = world_.random.between(0, world_.profile.flush_keeps_max);
    const Index flushed = disk_->flushed().at.index;
    // An installed snapshot counts as applied once the core has heard of it.
    if (flushed.value() > keep && !install_untold_) step(raft::Compact{flushed - keep}, "compact");
    schedule_flush();
  });
}

void Node::make_snapshot() {
  // Snapshots that one node makes of one index have the same bytes, however often it makes them: pieces of
  // two may mix.
  const uint64_t padding = (engine_.at.index.value() * 37 + id_.value() * 11) % 200;
  Snapshot snapshot{engine_.at, Bytes(engine_.serialize(padding))};
  const raft::SnapshotReady ready{snapshot.meta, snapshot.data.size()};
  snapshots_.push_back(std::move(snapshot));
  if (snapshots_.size() > 2) snapshots_.pop_front();
  world_.coverage.add(Counter::kSnapshotsMade);
  world_.trace.say(id_, "made snapshot ", ready.meta.index, " of ", ready.size, " bytes");
  step(ready, "snapshot ready");
}

void Node::read_snapshot(const raft::SnapshotRead& request) {
  post(around(world_.random, world_.profile.snapshot_latency), [this, request] {
    raft::SnapshotBytes answer{request.to, request.index, request.offset, {}, false, true};
    for (const Snapshot& snapshot : snapshots_) {
      if (snapshot.meta.index != request.index || request.offset > snapshot.data.size()) continue;
      const size_t bytes = std::min<size_t>(request.bytes, snapshot.data.size() - request.offset);
      answer.data = snapshot.data.slice(request.offset, bytes);
      answer.last = request.offset + bytes == snapshot.data.size();
      answer.failed = world_.random.chance(1, 50);
    }
    if (answer.failed) {
      answer.data = {};
      answer.last = false;
    }
    step(std::move(answer), "snapshot bytes");
  });
}

namespace {

const char* reason_name(raft::trace::ElectionReason reason) {
  constexpr const char* kNames[] = {"time-out", "leader gone", "transfer", "first election", "single voter"};
  return kNames[static_cast<size_t>(reason)];
}
const char* reason_name(raft::trace::StepDownReason reason) {
  constexpr const char* kNames[] = {"higher term", "quorum lost", "disk stalled", "removed"};
  return kNames[static_cast<size_t>(reason)];
}
const char* reason_name(raft::trace::RefusalReason reason) {
  constexpr const char* kNames[] = {"old term",        "voted already", "log behind", "leader alive",
                                    "wrong directory", "not a voter",   "not blank"};
  return kNames[static_cast<size_t>(reason)];
}

}  // namespace

void Node::on_event(const raft::TraceEvent& event) {
  using namespace raft::trace;
  Coverage& coverage = world_.coverage;
  Trace& trace = world_.trace;
  std::visit(
      [&](const auto& e) {
        using E = std::decay_t<decltype(e)>;
        if constexpr (std::is_same_v<E, PreVoteStarted>) {
          trace.say(id_, "asks for pre-votes, term ", e.term, " (", reason_name(e.reason), ")");
        } else if constexpr (std::is_same_v<E, ElectionStarted>) {
          trace.say(id_, "campaigns, term ", e.term, " (", reason_name(e.reason), ")");
          if (e.reason == ElectionReason::kLeaderGone) coverage.add(Counter::kElectionsByLeaderGone);
          if (e.reason == ElectionReason::kTransfer) coverage.add(Counter::kElectionsByTransfer);
        } else if constexpr (std::is_same_v<E, VoteGranted>) {
          trace.say(id_, e.pre_vote ? "pre-votes for n" : "votes for n", e.candidate, ", term ", e.term);
        } else if constexpr (std::is_same_v<E, VoteRefused>) {
          trace.say(id_, e.pre_vote ? "refuses a pre-vote to n" : "refuses a vote to n", e.candidate,
                    ", term ", e.term, " (", reason_name(e.reason), ")");
        } else if constexpr (std::is_same_v<E, BecameLeader>) {
          trace.say(id_, "LEADS, term ", e.term, " last ", e.last);
          coverage.add(Counter::kElections);
        } else if constexpr (std::is_same_v<E, BecameFollower>) {
          trace.say(id_, "follows n", e.leader, ", term ", e.term);
        } else if constexpr (std::is_same_v<E, SteppedDown>) {
          trace.say(id_, "steps down, term ", e.term, " (", reason_name(e.reason), ")");
          coverage.add(static_cast<Counter>(static_cast<int>(Counter::kStepDownsHigherTerm) +
                                            static_cast<int>(e.reason)));
        } else if constexpr (std::is_same_v<E, LogTruncated>) {
          trace.say(id_, "cuts its log from ", e.from, ", was ", e.old_last);
        } else if constexpr (std::is_same_v<E, LogConflict>) {
          coverage.add(Counter::kLogConflicts);
        } else if constexpr (std::is_same_v<E, CommitAdvanced>) {
          trace.say(id_, "commit ", e.commit);
        } else if constexpr (std::is_same_v<E, ProgressChanged>) {
          trace.say(id_, "n", e.follower, " is ", e.state, ", next ", e.next);
        } else if constexpr (std::is_same_v<E, MembershipApplied>) {
          trace.say(id_, "membership of ", e.index, ": ", membership_text(e.membership));
        } else if constexpr (std::is_same_v<E, MembershipRolledBack>) {
          trace.say(id_, "membership rolled back to ", e.index, ": ", membership_text(e.membership));
          coverage.add(Counter::kMembershipRollbacks);
        } else if constexpr (std::is_same_v<E, SnapshotSendStarted>) {
          trace.say(id_, "sends snapshot ", e.snapshot.index, " to n", e.follower);
        } else if constexpr (std::is_same_v<E, SnapshotSendEnded>) {
          trace.say(id_, "snapshot ", e.snapshot.index, " to n", e.follower,
                    e.installed ? " done" : " given up");
        } else if constexpr (std::is_same_v<E, TransferStarted>) {
          trace.say(id_, "hands over to n", e.to);
        } else if constexpr (std::is_same_v<E, TransferEnded>) {
          if (e.done) coverage.add(Counter::kTransfersDone);
        } else if constexpr (std::is_same_v<E, WrongDirectory>) {
          trace.say(id_, "n", e.node, " speaks from directory ", e.got.value() & 0xffffff, ", not ",
                    e.expected.value() & 0xffffff);
          coverage.add(Counter::kWrongDirectories);
        } else if constexpr (std::is_same_v<E, MemberReturned>) {
          trace.say(id_, "n", e.node, " is back with directory ", e.directory.value() & 0xffffff);
          coverage.add(Counter::kMembersReturned);
        }
      },
      event);
}

}  // namespace rallypoint::sim
