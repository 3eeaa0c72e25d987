// The node's process: start and end, the loop around the core, ticks, messages.
#include "tests/sim/node.h"

#include <algorithm>
#include <sstream>
#include <type_traits>
#include <utility>

#include "raft/invariants.h"
#include "tests/sim/clients.h"
#include "tests/sim/oracle.h"
#include "tests/sim/violation.h"

namespace rallypoint::sim {
namespace {
constexpr size_t kBacklogMax = 3000;  ///< what waits for a paused process; beyond it messages are lost

std::string message_text(const raft::Message& message) {
  std::ostringstream out;
  out << raft::message_name(message) << " t" << message.term;
  const auto id = [](const raft::EntryId& e) {
    return std::to_string(e.term.value()) + "/" + std::to_string(e.index.value());
  };
  std::visit(
      [&](const auto& body) {
        using B = std::decay_t<decltype(body)>;
        if constexpr (std::is_same_v<B, raft::VoteRequest>) {
          out << (body.pre_vote ? " pre" : "") << " last " << id(body.last) << (body.blank ? " blank" : "");
        } else if constexpr (std::is_same_v<B, raft::VoteReply>) {
          out << (body.pre_vote ? " pre" : "") << (body.granted ? " granted" : " refused");
        } else if constexpr (std::is_same_v<B, raft::AppendRequest>) {
          out << " after " << id(body.previous) << " +" << body.entries.size() << " commit " << body.commit;
        } else if constexpr (std::is_same_v<B, raft::AppendReply>) {
          out << (body.accepted ? " match " : " refused ")
              << (body.accepted ? body.match : body.request_previous);
          if (!body.accepted) out << " hint " << id(body.hint);
        } else if constexpr (std::is_same_v<B, raft::Heartbeat>) {
          out << " commit " << body.commit << " round " << body.round;
        } else if constexpr (std::is_same_v<B, raft::HeartbeatReply>) {
          out << " round " << body.round << " last " << body.last;
        } else if constexpr (std::is_same_v<B, raft::InstallSnapshot>) {
          out << " " << id({body.meta.term, body.meta.index}) << " at " << body.offset << " +"
              << body.data.size() << (body.last ? " last" : "");
        } else if constexpr (std::is_same_v<B, raft::InstallSnapshotReply>) {
          out << " " << id(body.snapshot) << " next " << body.next_offset
              << (body.installed ? " installed" : "");
        } else if constexpr (std::is_same_v<B, raft::ReadIndexRequest> ||
                             std::is_same_v<B, raft::ReadIndexReply>) {
          out << " id " << body.id;
        }
      },
      message.body);
  return out.str();
}
}  // namespace

Node::Node(World& world, NodeId id, raft::Membership bootstrap)
    : world_(world), id_(id), bootstrap_(std::move(bootstrap)), added_later_(bootstrap_.voters.empty()) {
  make_disk();
}

void Node::make_disk() {
  const DirectoryId directory((world_.random.next() << 8) | id_.value());
  disk_ = std::make_shared<Disk>(directory, id_, bootstrap_, world_.profile.real_log, world_.random,
                                 world_.coverage);
  world_.oracle->directory_made(disk_);
}

void Node::start() {
  SIM_REQUIRE(!running() && !retired_, property::kCoreCheck, "start of", id_);
  ++life_;
  raft::Config config = world_.profile.core;
  config.id = id_;
  config.directory = disk_->id();
  const raft::RestoredState restored = disk_->recover();
  engine_ = disk_->flushed();
  if (restored.applied < restored.hard_state.commit) world_.coverage.add(Counter::kFallbacksToFlush);
  world_.trace.say(id_, "starts: directory ", disk_->id().value() & 0xffffff, " term ",
                   restored.hard_state.term, " log ", restored.snapshot.index, "..",
                   restored.snapshot.index + restored.entries.size(), " applied ", restored.applied);
  world_.trace.mix(id_.value(), 1001, restored.hard_state.term.value(), restored.entries.size());
  raft::Observer* observer = this;
  core_ = std::make_unique<raft::Core>(config, world_.random.next(), restored, observer);
  world_.coverage.add(Counter::kRestarts);
  world_.oracle->process_started(*this);
  drain();
  schedule_tick();
  schedule_flush();
}

void Node::crash() {
  world_.trace.say(id_, "crashes");
  world_.trace.mix(id_.value(), 1002);
  core_.reset();
  ++life_;
  paused_ = undrained_ = transfer_pending_ = install_untold_ = applying_ = false;
  backlog_.clear();
  to_apply_.clear();
  reads_.clear();
  snapshots_.clear();
  ticks_ = steps_in_output_ = 0;
  stalled_until_ = {};
  disk_->crash();
  world_.coverage.add(Counter::kCrashes);
}

void Node::wipe(bool keeps_bootstrap) {
  SIM_REQUIRE(!running(), property::kCoreCheck, "wipe of", id_);
  world_.trace.say(id_, "loses its disk");
  world_.trace.mix(id_.value(), 1003);
  world_.coverage.add(Counter::kWipes);
  wiped_ = true;
  if (!keeps_bootstrap) bootstrap_ = {};
  disk_->bury();
  make_disk();
}

void Node::resume() {
  if (!paused_) return;
  paused_ = false;
  world_.trace.say(id_, "resumes; waiting ", backlog_.size());
  // What it does next may pause or end it again.
  const uint64_t life = life_;
  while (life == life_ && !paused_ && !backlog_.empty()) {
    Action action = std::move(backlog_.front());
    backlog_.pop_front();
    action();
  }
}

void Node::stall_disk(Duration how_long) {
  world_.trace.say(id_, "disk stalls for ", how_long);
  stalled_until_ = std::max(stalled_until_, world_.scheduler.now() + how_long);
}

void Node::post(Duration delay, Action action) {
  world_.scheduler.after(delay, [this, life = life_, action = std::move(action)]() mutable {
    if (life != life_) return;
    if (paused_)
      backlog_.push_back(std::move(action));
    else
      action();
  });
}

void Node::schedule_tick() {
  const int64_t period = world_.profile.tick.us * (100 + drift_percent_) / 100;
  post(Duration::micros(period), [this] {
    ++ticks_;
    enter("tick", nullptr, [this] { core_->tick(); });
    schedule_tick();
  });
}

void Node::receive(raft::Message message) {
  if (!running()) return;
  if (paused_) {
    if (backlog_.size() < kBacklogMax) {
      backlog_.push_back([this, message = std::move(message)]() mutable { receive(std::move(message)); });
    }
    return;
  }
  if (world_.trace.messages()) world_.trace.say(id_, "<- n", message.from, " ", message_text(message));
  world_.trace.mix(id_.value(), 1004, message.from.value(), message.term.value(), message.body.index());
  raft::Message head = message;  // what the oracle looks at; the payloads are shared
  if (auto* append = std::get_if<raft::AppendRequest>(&head.body)) append->entries.clear();
  enter("message", &head, [&] { core_->step(raft::MessageReceived{std::move(message)}); });
}

void Node::step(raft::Event event, const char* name) {
  world_.trace.mix(id_.value(), 1005, event.index());
  enter(name, nullptr, [&] { core_->step(std::move(event)); });
}

void Node::enter(const char* name, const raft::Message* message, const std::function<void()>& call) {
  world_.oracle->before_call(*this);
  call();
  undrained_ = true;
  ++steps_in_output_;
  world_.oracle->after_call(*this, name, message);
  if (world_.profile.batch_percent > 0 && world_.random.chance(world_.profile.batch_percent, 100)) {
    world_.coverage.add(Counter::kBatchedSteps);
    return;  // the next call takes this one's output too; ticks make sure that there is one
  }
  drain();
}

void Node::drain() {
  undrained_ = false;
  raft::Output output = core_->take_output();
  Oracle& oracle = *world_.oracle;
  for (raft::Write& write : output.writes) {
    world_.trace.mix(write.number.value(), write.entries.size());
    oracle.check_write(*this, write);
    if (disk_->submit(std::move(write))) start_sync();
  }
  oracle.check_drained(*this);
  raft::check_invariants(core_->state());
  for (raft::Message& message : output.messages) {
    if (world_.trace.messages()) world_.trace.say(id_, "-> n", message.to, " ", message_text(message));
    oracle.check_message(*this, message);
    world_.trace.mix(message.to.value(), message.term.value(), message.body.index());
    world_.network.send(std::move(message));
  }
  for (raft::Entry& entry : output.committed) {
    oracle.check_to_apply(*this, entry);
    to_apply_.push_back(std::move(entry));
  }
  start_apply();
  for (const raft::ReadResult& result : output.reads) take_read_result(result);
  for (const raft::Rejection& rejection : output.rejections) world_.clients->rejected(*this, rejection);
  for (const raft::MembershipResult& result : output.membership_results) {
    world_.trace.say(id_, "membership change ", result.tag, ": ", result.status);
  }
  for (const raft::TransferResult& result : output.transfer_results) {
    transfer_pending_ = false;
    world_.trace.say(id_, "transfer: ", result.status);
  }
  steps_in_output_ = 0;
  if (output.snapshot_wanted) {
    post(around(world_.random, world_.profile.snapshot_latency), [this] { make_snapshot(); });
  }
  for (const raft::SnapshotRead& request : output.snapshot_reads) read_snapshot(request);
  if (output.soft_state) {
    const raft::SoftState& soft = *output.soft_state;
    world_.trace.mix(static_cast<uint64_t>(soft.role), soft.term.value(), soft.leader.value());
    if (soft.role != raft::Role::kLeader) transfer_pending_ = false;
  }
}

void Node::propose(std::vector<raft::Propose::Item> batch) {
  if (paused_) {
    backlog_.push_back([this, batch = std::move(batch)]() mutable { propose(std::move(batch)); });
    return;
  }
  step(raft::Propose{std::move(batch)}, "propose");
}

void Node::read(uint32_t key) {
  if (paused_) {  // asked for once it is heard: that is the stricter time
    backlog_.push_back([this, key] { read(key); });
    return;
  }
  const uint64_t id = next_read_++;
  reads_[id] = {id, world_.oracle->read_floor(), key, std::nullopt};
  world_.coverage.add(Counter::kReads);
  if (!is_leader()) world_.coverage.add(Counter::kReadsAtFollowers);
  step(raft::Read{id}, "read");
}

void Node::transfer_to(NodeId to) {
  transfer_pending_ = true;  // until the core tells how it ended
  step(raft::TransferLeadership{to}, "transfer");
}

void Node::hint_leader_gone(NodeId node, Duration delay) {
  post(delay, [this, node] {
    const raft::SoftState now = core_->soft_state();
    if (now.leader != node || node == id_) return;
    world_.oracle->told_leader_gone(*this);
    world_.coverage.add(Counter::kLeaderGoneHints);
    step(raft::LeaderGone{node, now.term}, "leader gone");
  });
}

}  // namespace rallypoint::sim
