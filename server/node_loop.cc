#include "server/node_loop.h"

#include <chrono>

#include "server/cluster_info.h"
#include "server/obs/logging.h"
#include "server/state/command.pb.h"

namespace rallypoint::server {
namespace {

constexpr uint8_t kForwardedCommands = 1;
constexpr uint8_t kLeaseQuestions = 2;
constexpr uint8_t kLeaseAnswers = 3;
constexpr uint8_t kMemberChange = 4;
constexpr uint8_t kMemberChangeAnswer = 5;
constexpr uint8_t kDigestReport = 6;
/// Rows that one tick's slice of physical compaction may delete.
constexpr size_t kCompactRows = 1000;
/// What an entry in memory costs besides its payload, about.
constexpr size_t kEntryOverhead = 96;
constexpr Duration kRegisterAgain = Duration::millis(500);
constexpr Duration kViewPeriod = Duration::millis(50);
/// How long a leader that was asked to stop waits for its successor: an exit has 100 ms in all.
constexpr Duration kHandOver = Duration::millis(60);

}  // namespace

NodeLoop::NodeLoop(NodeSettings settings, raft::RestoredState restored, std::unique_ptr<StateMachine> machine, Ports ports,
                   const Clock& time)
    : settings_(std::move(settings)),
      ports_(std::move(ports)),
      time_(time),
      machine_(std::move(machine)),
      core_(settings_.raft, settings_.seed, std::move(restored)),
      requests_(settings_.raft.id, settings_.requests),
      members_(settings_.raft.id),
      digests_(settings_.raft.id, settings_.digest_period),
      auto_compactor_(settings_.auto_compaction),
      now_(time.monotonic()),
      next_tick_(now_),
      compacted_(core_.first_index().is_zero() ? Index() : core_.first_index() - 1),
      start_unix_ns_(time_.wall_unix_ns()) {
  clock_.advance(now_, false);
  clock_.restart_from(machine_->cluster_time());
  publish_view(true);
}

void NodeLoop::run() {
  while (!is_done())
    turn(busy_ ? mailbox_.try_take() : mailbox_.take_until(std::chrono::steady_clock::time_point(std::chrono::microseconds(next_tick_.us))));
}

void NodeLoop::turn(std::vector<NodeEvent> events) {
  now_ = time_.monotonic();
  clock_.advance(now_, !soft_.leader.is_zero());
  for (NodeEvent& event : events) handle(event);
  if (next_tick_ <= now_) {
    // After a pause the missed ticks are not made up for: nobody was heard meanwhile either.
    next_tick_ = now_ + settings_.tick;
    tick(now_);
  }
  propose();
  drain();
  tend_members();
  ask_about_leases();
  requests_.serve_reads(*machine_, now_, clock(), position());
  if (const uint64_t read = soft_.leader.is_zero() ? 0 : requests_.take_read(now_)) {
    core_.step(raft::Read{read});
    drain();
    requests_.serve_reads(*machine_, now_, clock(), position());
    // A write whose lost compare would win by now has become a proposal.
    propose();
    drain();
  }
  for (auto& [to, answers] : requests_.lease_desk().take_answers()) ports_.send_app(to, kLeaseAnswers, std::move(answers));
  auto behind = requests_.v3().catch_up(*machine_, now_, position());
  if (!behind.is_ok()) return ports_.fatal(behind.status());
  busy_ = *behind;
  for (const SnapshotJob& job : requests_.v3().take_snapshot_jobs()) ports_.save_snapshot(job, machine_->engine(), machine_->applied());
  requests_.flush();
  publish_view(false);
}

void NodeLoop::tend_members() {
  if (!soft_.leader.is_zero()) {
    for (pb::MemberChange& change : members_.take_due(now_)) {
      if (is_leader()) lead_change(change);
      else ports_.send_app(soft_.leader, kMemberChange, Bytes(change.SerializeAsString()));
    }
  }
  for (auto& [to, answer] : members_.take_answers(now_)) ports_.send_app(to, kMemberChangeAnswer, std::move(answer));
  for (auto& [call, reply] : members_.requests().take_replies()) {
    reply.raft_index = position().applied.value();
    reply.raft_term = position().term.value();
    requests_.replies().add(call, std::move(reply));
  }
}

void NodeLoop::lead_change(const pb::MemberChange& change) {
  const bool settled = leading_since_ == soft_.term;
  if (auto event = members_.ask(change, core_, *machine_, settled)) {
    core_.step(std::move(*event));
    drain();
  }
}

void NodeLoop::members_applied() {
  const pb::ClusterInfo info = cluster_info_of(machine_->applied().membership);
  members_.requests().applied(info);
  ports_.members_changed(*machine_);
  publish_view(true);
  if (server::was_removed(info, settings_.raft.id)) was_removed("the membership says so");
}

void NodeLoop::was_removed(const std::string& why) {
  if (std::exchange(removed_, true)) return;
  members_.requests().removed_self();
  ports_.removed(why);
}

void NodeLoop::ask_about_leases() {
  if (is_leader()) return requests_.take_lease_questions_here(now_);
  if (soft_.leader.is_zero()) return;
  if (Bytes questions = requests_.take_lease_questions(now_); !questions.empty()) ports_.send_app(soft_.leader, kLeaseQuestions, std::move(questions));
}

void NodeLoop::compact_old_revisions() {
  const mvcc::Keyspace& keyspace = machine_->v3().keyspace();
  const auto to = auto_compactor_.tick(now_, keyspace.revision(), keyspace.compacted(), is_leader() && leading_since_ == soft_.term);
  if (!to) return;
  etcdserverpb::CompactionRequest compaction;
  compaction.set_revision(*to);
  pb::Command command;
  command.mutable_v3_write()->set_kind(static_cast<uint32_t>(V3WriteKind::kCompact));
  command.mutable_v3_write()->set_request(compaction.SerializeAsString());
  requests_.proposals().add({}, Proposals::Kind::kInternal, command.SerializeAsString(), now_ + Duration::seconds(60));
  log_info("automatic compaction", {{"revision", *to}});
}

void NodeLoop::compare_states() {
  if (Bytes report = digests_.take_report(); !report.empty()) {
    if (is_leader()) digests_.on_report(settings_.raft.id, report);
    else ports_.send_app(soft_.leader, kDigestReport, std::move(report));
  }
  if (!is_leader() || leading_since_ != soft_.term) return;
  if (Status same = digests_.tick(*machine_, requests_.proposals(), now_); !same.is_ok()) ports_.diverged(same);
}

void NodeLoop::move_leader(const V3MoveLeader& request) {
  const NodeId target(request.target);
  if (!is_leader()) return requests_.replies().fail(request.call, Status::failed_precondition("etcdserver: not leader"), position());
  if (!raft::is_voter(core_.membership(), target))
    return requests_.replies().fail(request.call, Status::failed_precondition("etcdserver: bad leader transferee"), position());
  if (target == settings_.raft.id) {
    etcdserverpb::MoveLeaderResponse response;
    fill_header(*response.mutable_header(), {settings_.cluster_id, target.value(), soft_.term.value()}, machine_->v3().keyspace().revision());
    return requests_.replies().add(request.call, Bytes(response.SerializeAsString()));
  }
  moves_.emplace_back(request.call, requests_.v3().deadline(request.timeout, now_));
  core_.step(raft::TransferLeadership{target});
}

void NodeLoop::defragment(const V3Defragment& request) {
  fail_if(machine_->engine()->start_compaction());
  etcdserverpb::DefragmentResponse response;
  fill_header(*response.mutable_header(), {settings_.cluster_id, settings_.raft.id.value(), soft_.term.value()}, machine_->v3().keyspace().revision());
  requests_.replies().add(request.call, Bytes(response.SerializeAsString()));
}

void NodeLoop::lead_or_follow() {
  lease::Lessor& lessor = machine_->v3().lessor();
  const bool leads = is_leader() && leading_since_ == soft_.term;
  if (leads == lessor.is_promoted()) return;
  if (leads) lessor.promote(now_, Duration::micros(settings_.tick.us * settings_.raft.election_ticks));
  else lessor.demote();
}

v2::Clock NodeLoop::clock() const { return {clock_.now(), time_.wall_unix_ns()}; }

void NodeLoop::handle(NodeEvent& event) {
  if (auto* batch = std::get_if<std::vector<Request>>(&event)) {
    requests_taken_ += batch->size();
    std::erase_if(*batch, [&](const Request& request) {
      if (auto* move = std::get_if<V3MoveLeader>(&request)) return move_leader(*move), true;
      if (auto* defragment = std::get_if<V3Defragment>(&request)) return this->defragment(*defragment), true;
      if (auto* change = std::get_if<ChangeMember>(&request)) return members_.requests().take(*change, now_), true;
      return false;
    });
    requests_.take(std::move(*batch), *machine_, now_, clock(), position());
  } else if (auto* messages = std::get_if<std::vector<raft::Message>>(&event)) {
    for (raft::Message& message : *messages) {
      if (std::holds_alternative<raft::AppendRequest>(message.body)) ++appends_received_;
      core_.step(raft::MessageReceived{std::move(message)});
    }
  } else if (auto* app = std::get_if<PeerApp>(&event)) {
    if (app->type == kLeaseQuestions && is_leader()) return requests_.lease_desk().on_questions(app->from, app->payload);
    if (app->type == kLeaseAnswers) return requests_.lease_desk().on_answers(app->payload, *machine_, position());
    if (app->type == kMemberChange && is_leader()) {
      if (auto change = MemberDesk::decode(app->from, app->payload)) lead_change(*change);
      return;
    }
    if (app->type == kDigestReport && is_leader()) return digests_.on_report(app->from, app->payload);
    if (app->type == kMemberChangeAnswer) return members_.on_answer(app->payload, now_);
    if (app->type != kForwardedCommands || !is_leader()) return;  // the origin tries again with the next leader
    auto commands = decode_commands(app->payload);
    if (!commands.is_ok()) return log_warning("dropped forwarded commands", {{"from", app->from.value()}, {"error", commands.status()}});
    std::move(commands->begin(), commands->end(), std::back_inserter(forwarded_));
  } else if (auto* lost = std::get_if<PeerLost>(&event)) {
    log_info("a peer's process is gone", {{"peer", lost->peer.value()}, {"leader", lost->peer == soft_.leader}});
    core_.step(raft::LeaderGone{lost->peer, soft_.term});
  } else if (auto* removed = std::get_if<PeerRemovedUs>(&event)) {
    was_removed("member " + std::to_string(removed->peer.value()) + " says so");
  } else if (auto* persisted = std::get_if<raft::Persisted>(&event)) {
    core_.step(*persisted);
  } else if (auto* installed = std::get_if<SnapshotInstalled>(&event)) {
    install(*installed);
  } else if (auto* ready = std::get_if<raft::SnapshotReady>(&event)) {
    core_.step(std::move(*ready));
  } else if (auto* bytes = std::get_if<raft::SnapshotBytes>(&event)) {
    core_.step(std::move(*bytes));
  } else if (auto* part = std::get_if<SnapshotPart>(&event)) {
    requests_.v3().snapshot_part(std::move(*part), *machine_, position());
  } else if (auto* failed = std::get_if<SnapshotFailed>(&event)) {
    log_error("no snapshot could be made for a follower; free disk space if it is full", {{"error", failed->status}});
  } else if (std::holds_alternative<Shutdown>(event)) {
    shutting_down_ = true;
    shutdown_until_ = now_ + kHandOver;
    const bool alone = core_.membership().voters.size() <= 1;
    if (is_leader() && !alone) core_.step(raft::TransferLeadership{NodeId()});
    else shutdown_until_ = now_ - Duration::micros(1);
  }
}

void NodeLoop::drain() {
  for (;;) {
    raft::Output output = core_.take_output();
    if (output.empty()) return;
    carry_out(output);
  }
}

void NodeLoop::carry_out(raft::Output& output) {
  if (!output.writes.empty()) ports_.write(std::move(output.writes));
  if (!output.messages.empty()) {
    for (const raft::Message& message : output.messages)
      if (std::holds_alternative<raft::AppendRequest>(message.body)) ++appends_sent_;
    ports_.send(std::move(output.messages));
  }
  if (output.soft_state) soft_state_changed(*output.soft_state);
  for (const raft::MembershipResult& result : output.membership_results) members_.decided(result);
  if (!output.committed.empty()) apply(output.committed);
  for (const raft::ReadResult& read : output.reads) {
    if (read.status.is_ok()) requests_.read_confirmed(read.id, read.index);
    else requests_.read_failed(read.id);
  }
  for (const raft::TransferResult& result : output.transfer_results) {
    log_info("leadership transfer", {{"result", result.status}});
    if (result.status.is_ok()) continue;  // told when the new leader is known
    for (const auto& [call, deadline] : std::exchange(moves_, {})) requests_.replies().fail(call, result.status, position());
  }
  if (output.snapshot_wanted) ports_.make_snapshot(machine_->engine(), machine_->applied());
  for (const raft::SnapshotRead& read : output.snapshot_reads) ports_.read_snapshot(read);
}

void NodeLoop::apply(std::vector<raft::Entry>& committed) {
  Effects effects;
  for (const raft::Entry& entry : committed) {
    fail_if(machine_->apply(entry, effects));
    log_sizes_.emplace_back(entry.index.value(), entry.payload.size() + kEntryOverhead);
    log_bytes_ += log_sizes_.back().second;
  }
  fail_if(machine_->write_batch());
  committed_entries_ += committed.size();
  clock_.at_least(machine_->cluster_time());
  core_.step(raft::Applied{machine_->applied().index});
  if (requests_.incarnation() == 0) {
    const uint64_t incarnation = machine_->sessions().incarnation_of(settings_.raft.id, settings_.nonce);
    if (incarnation != 0) {
      requests_.set_incarnation(incarnation);
      members_.requests().set_incarnation(incarnation);
      machine_->set_local(settings_.raft.id, incarnation);
    }
  }
  if (is_leader() && machine_->applied().term == soft_.term) leading_since_ = soft_.term;
  lead_or_follow();
  requests_.applied(effects, *machine_, now_, position());
  for (const Effects::DigestMark& mark : effects.digest_marks)
    if (Status same = digests_.applied(mark); !same.is_ok()) return ports_.diverged(same);
  if (effects.members_changed) members_applied();
}

void NodeLoop::propose() {
  if (soft_.leader.is_zero()) return;
  if (requests_.incarnation() == 0 && registered_at_ + kRegisterAgain < now_) {
    registered_at_ = now_;
    pb::Command command;
    command.set_node(settings_.raft.id.value());
    auto* registration = command.mutable_register_node();
    registration->set_nonce(settings_.nonce);
    registration->set_name(settings_.name);
    for (const std::string& url : settings_.client_urls) registration->add_client_urls(url);
    Bytes encoded(command.SerializeAsString());
    if (is_leader()) forwarded_.push_back(std::move(encoded));
    else ports_.send_app(soft_.leader, kForwardedCommands, encode_commands({encoded}));
  }
  std::vector<Bytes> commands = requests_.take_proposals(now_);
  if (!is_leader()) {
    forwarded_.clear();
    if (!commands.empty()) ports_.send_app(soft_.leader, kForwardedCommands, encode_commands(commands));
    return;
  }
  std::move(forwarded_.begin(), forwarded_.end(), std::back_inserter(commands));
  forwarded_.clear();
  if (commands.empty()) return;
  raft::Propose proposal;
  std::vector<Bytes> part;
  size_t bytes = 0;
  const EntryTime time{clock_.now(), time_.wall_unix_ns()};
  const auto close = [&] {
    if (part.empty()) return;
    proposal.batch.push_back({0, encode_entry(time, part)});
    part.clear();
    bytes = 0;
  };
  for (Bytes& command : commands) {
    bytes += command.size();
    part.push_back(std::move(command));
    if (bytes >= kEntryBytesTarget) close();
  }
  close();
  // A rejection (no longer leader, too much under way) needs no answer: what is outstanding is proposed again.
  core_.step(std::move(proposal));
}

void NodeLoop::tick(Instant now) {
  ++ticks_;
  core_.tick();
  requests_.expire(now, position());
  if (ticks_ % 10 == 0) requests_.tick(*machine_, now, position());
  members_.requests().tick(now);
  if (!soft_.leader.is_zero()) compare_states();
  compact_old_revisions();
  // Deadlines run only under a leader that has caught up with its own state.
  if (is_leader() && leading_since_ == soft_.term && machine_->applied().index >= expiry_proposed_at_) {
    if (auto deadline = machine_->tree().next_deadline(); deadline && *deadline <= clock_.now()) {
      core_.step(raft::Propose{{{0, encode_entry({clock_.now(), time_.wall_unix_ns()}, {})}}});
      expiry_proposed_at_ = core_.last_index();
    }
  }
  if (is_leader() && leading_since_ == soft_.term) {
    requests_.lease_desk().tick(*machine_, now, soft_.term);
    if (ticks_ % 10 == 0) requests_.v3().clear_quota_alarm(*machine_, now);
  }
  fail_if(machine_->compact_slice(kCompactRows));
  std::erase_if(moves_, [&](const auto& move) {
    const bool done = !is_leader() && !soft_.leader.is_zero();
    if (done) {
      etcdserverpb::MoveLeaderResponse response;
      fill_header(*response.mutable_header(), {settings_.cluster_id, settings_.raft.id.value(), soft_.term.value()}, machine_->v3().keyspace().revision());
      requests_.replies().add(move.first, Bytes(response.SerializeAsString()));
    } else if (move.second < now) {
      requests_.replies().fail(move.first, Status::unavailable("etcdserver: request timed out"), position());
    }
    return done || move.second < now;
  });
  if (ticks_ % 100 == 0) compact();
}

/// Cuts the log behind what the engine holds durably. The flush runs beside; what it reached is looked at a second later.
void NodeLoop::compact() {
  const Index applied = machine_->applied().index;
  const bool too_many = applied.value() >= compacted_.value() + settings_.compact_entries + settings_.keep_entries;
  if (!too_many && log_bytes_ < settings_.compact_bytes) return;
  if (!flush_started_) {
    fail_if(machine_->engine()->start_flush());
    flush_started_ = true;
    return;
  }
  flush_started_ = false;
  auto persisted = machine_->persisted_index();
  if (!persisted.is_ok()) return ports_.fatal(persisted.status());
  // Behind the cut stay so many entries, or so many bytes of them if they are large.
  uint64_t keep_from = applied.value() - std::min(applied.value(), settings_.keep_entries);
  uint64_t bytes = log_bytes_;
  for (const auto& [index, size] : log_sizes_) {
    if (bytes <= settings_.compact_bytes / 2) break;
    bytes -= size;
    keep_from = std::max(keep_from, index);
  }
  const Index to(std::min(persisted->value(), keep_from));
  if (to <= compacted_) return;
  core_.step(raft::Compact{to});
  compacted_ = to;
  for (; !log_sizes_.empty() && log_sizes_.front().first <= to.value(); log_sizes_.pop_front()) log_bytes_ -= log_sizes_.front().second;
}

void NodeLoop::install(SnapshotInstalled& installed) {
  auto machine = StateMachine::open(std::move(installed.engine), installed.meta.membership, settings_.state);
  if (!machine.is_ok()) return ports_.fatal(machine.status());
  if ((*machine)->applied().index != installed.meta.index)
    return ports_.fatal(Status::data_loss("the installed snapshot's state is at index " + std::to_string((*machine)->applied().index.value()) +
                                          ", but it was sent as " + std::to_string(installed.meta.index.value())));
  machine_ = std::move(*machine);
  machine_->set_local(settings_.raft.id, requests_.incarnation());
  compacted_ = std::max(compacted_, installed.meta.index);
  log_sizes_.clear();
  log_bytes_ = 0;
  clock_.at_least(machine_->cluster_time());
  requests_.state_replaced(*machine_, now_, position());
  members_applied();
}

void NodeLoop::soft_state_changed(const raft::SoftState& state) {
  const bool new_leader = state.leader != soft_.leader || state.term != soft_.term;
  soft_ = state;
  set_log_term(state.term.value());
  lead_or_follow();
  if (state.role == raft::Role::kLeader || new_leader)
    log_info("role", {{"role", raft::role_name(state.role)}, {"leader", state.leader.value()}});
  if (new_leader && !state.leader.is_zero()) {
    ++leader_changes_;
    leader_start_unix_ns_ = time_.wall_unix_ns();
    clock_.restart_from(machine_->cluster_time());
    expiry_proposed_at_ = Index();
    digests_.leader_changed();
    registered_at_ = Instant();
    requests_.propose_again();
    members_.requests().send_again();
    propose();
  }
  publish_view(true);
}

ClusterView NodeLoop::view() const {
  std::lock_guard lock(view_mutex_);
  return view_;
}

/// Until then the log that this member has applied speaks of the directory that it lost.
bool NodeLoop::is_bound_to_us(const raft::Membership& membership) const {
  const raft::Member* self = raft::find_member(membership, settings_.raft.id);
  if (self == nullptr) return false;
  const bool not_yet = self->directory.is_zero() && raft::find_in(membership.learners, self->id) != nullptr;  // bound when it is promoted
  return self->directory == settings_.raft.directory || not_yet;
}

void NodeLoop::publish_view(bool at_once) {
  if (!at_once && now_ - view_at_ < kViewPeriod) return;
  view_at_ = now_;
  ClusterView view;
  view.cluster_id = settings_.cluster_id;
  view.member_id = settings_.raft.id.value();
  const raft::Membership& membership = machine_->applied().membership;
  const pb::ClusterInfo cluster = cluster_info_of(membership);
  for (const auto& info : cluster.members()) {
    const NodeId id(info.id());
    Member member{info.id(), info.name(), {info.peer_urls().begin(), info.peer_urls().end()}, {}, is_learner_by_choice(membership, id)};
    if (auto it = machine_->attributes().find(id); it != machine_->attributes().end()) member.name = it->second.name, member.client_urls = it->second.client_urls;
    else if (id == settings_.raft.id) member.client_urls = settings_.client_urls;  // what it is about to register
    view.members.push_back(std::move(member));
  }
  if (requests_.incarnation() == 0) view.unhealthy_reason = "not registered with a leader yet";
  else if (!is_bound_to_us(membership) || will_vote(membership, settings_.raft.id)) view.unhealthy_reason = "catching up with the leader; this member does not vote yet";
  std::sort(view.members.begin(), view.members.end(), [](const Member& a, const Member& b) { return a.id < b.id; });
  view.removed_members.assign(cluster.removed().begin(), cluster.removed().end());
  view.leader_id = soft_.leader.value();
  view.role = is_leader() ? ViewRole::kLeader
              : soft_.role != raft::Role::kFollower ? ViewRole::kCandidate
              : is_learner_by_choice(membership, settings_.raft.id) ? ViewRole::kLearner : ViewRole::kFollower;
  view.raft_term = soft_.term.value();
  view.commit_index = core_.commit().value();
  view.applied_index = machine_->applied().index.value();
  view.leader_changes = leader_changes_;
  view.proposals_committed = core_.commit().value();
  view.proposals_applied = committed_entries_;
  view.proposals_pending = requests_.writes_waiting();
  view.proposals_failed = requests_.failed();
  view.append_requests_received = appends_received_;
  view.append_requests_sent = appends_sent_;
  view.start_unix_ns = start_unix_ns_;
  view.leader_start_unix_ns = leader_start_unix_ns_;
  if (ports_.log_stats != nullptr) {
    view.wal_syncs = ports_.log_stats->syncs;
    view.wal_bytes_written = ports_.log_stats->bytes;
    view.wal_sync_us_total = ports_.log_stats->sync_us;
  }
  if (is_leader())
    for (const Member& member : view.members)
      if (member.id != view.member_id) view.followers.push_back({.id = member.id});
  view.db_bytes = machine_->engine()->bytes_used();
  view.db_bytes_in_use = static_cast<uint64_t>(machine_->v3().keyspace().live_bytes());
  view.quota_bytes = requests_.v3().quota_bytes();
  for (const auto& [alarm, by_quota] : machine_->v3().alarms()) view.alarms.push_back({alarm.first, alarm.second});
  view.v2 = machine_->tree().stats();
  view.v2_watchers = requests_.watchers();
  std::lock_guard lock(view_mutex_);
  view_ = std::move(view);
}

}  // namespace rallypoint::server
