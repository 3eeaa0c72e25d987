#include "tests/sim/cluster.h"

#include <algorithm>
#include <utility>

#include "tests/sim/violation.h"

namespace rallypoint::sim {
namespace {
/// After healing, this many election time-outs must be enough for each of the demands below.
constexpr int64_t kPatienceElections = 60;
constexpr size_t kNodesEverMax = 14;
}  // namespace

Cluster::Cluster(uint64_t seed, const RunOptions& options)
    : random_(seed),
      profile_(Profile::draw(random_)),
      trace_(scheduler_, options.story, options.story && options.messages),
      network_(profile_, random_, scheduler_, coverage_, [this](raft::Message m) { deliver(std::move(m)); }),
      world_{profile_, random_, scheduler_, network_, trace_, coverage_},
      oracle_(world_),
      clients_(world_),
      nemesis_(world_, [this] { return add_node(); }) {
  world_.oracle = &oracle_;
  world_.clients = &clients_;
  world_.nodes = &nodes_;
  if (options.nodes > 0) profile_.nodes = options.nodes;
  if (options.chaos.us > 0) profile_.chaos = options.chaos;
  if (!options.real_log) profile_.real_log = false;
  if (profile_.real_log) coverage_.add(Counter::kRealLogRuns);
  raft::Membership bootstrap;
  for (uint64_t i = 1; i <= profile_.nodes; ++i) bootstrap.voters.push_back({NodeId(i), DirectoryId()});
  oracle_.start_from(bootstrap);
  for (uint64_t i = 1; i <= profile_.nodes; ++i) {
    nodes_.push_back(std::make_unique<Node>(world_, NodeId(i), bootstrap));
  }
}

void Cluster::deliver(raft::Message message) {
  if (Node* node = world_.node(message.to)) node->receive(std::move(message));
}

Node* Cluster::add_node() {
  if (nodes_.size() >= kNodesEverMax) return nullptr;
  nodes_.push_back(std::make_unique<Node>(world_, NodeId(nodes_.size() + 1), raft::Membership{}));
  nodes_.back()->start();
  return nodes_.back().get();
}

void Cluster::run_until(Instant end) {
  while (scheduler_.run_one(end)) {
  }
}

void Cluster::play() {
  for (const auto& node : nodes_) {
    scheduler_.after(around(random_, Duration::millis(30)), [&node = *node] {
      if (!node.running() && !node.retired()) node.start();
    });
  }
  clients_.start();
  nemesis_.start();
  run_until(Instant{} + profile_.chaos);
  trace_.say(NodeId(), "healing");
  nemesis_.stop();
  nemesis_.heal();
  clients_.stop();
  profile_.batch_percent = 0;
  profile_.apply_latency = std::min(profile_.apply_latency, Duration::micros(200));
  demand_progress();
  clients_.check_acknowledged();
}

Node* Cluster::one_leader() {
  Node* leader = nullptr;
  for (const auto& node : nodes_) {
    if (node->is_leader() &&
        (leader == nullptr || node->core().soft_state().term > leader->core().soft_state().term)) {
      leader = node.get();
    }
  }
  return leader;
}

bool Cluster::all_equal() const {
  return std::ranges::all_of(oracle_.membership().voters, [&](const raft::Member& member) {
    const Node* node = world_.node(member.id);
    return node->running() && node->engine().at.index == oracle_.committed() &&
           node->engine().digest == oracle_.digest_at(oracle_.committed());
  });
}

std::string Cluster::standing() const {
  std::string text = "committed " + std::to_string(oracle_.committed().value()) + " " +
                     membership_text(oracle_.membership());
  for (const auto& node : nodes_) {
    if (node->retired() || !node->running()) continue;
    const raft::SoftState soft = node->core().soft_state();
    text += "; n" + std::to_string(node->id().value()) + " " + raft::role_name(soft.role) + " t" +
            std::to_string(soft.term.value()) + " last " + std::to_string(node->core().last_index().value()) +
            " commit " + std::to_string(node->core().commit().value()) + " applied " +
            std::to_string(node->engine().at.index.value());
  }
  return text;
}

void Cluster::demand_progress() {
  // One more write and one more read must get through, all members must become voters with equal state.
  const Duration election =
      Duration::micros(profile_.tick.us * static_cast<int64_t>(2 * profile_.core.election_ticks));
  const Instant deadline = scheduler_.now() + Duration::micros(election.us * kPatienceElections);
  uint64_t last_write = 0;
  bool settled = false;
  while (scheduler_.now() < deadline) {
    run_until(scheduler_.now() + election);
    nemesis_.tend();
    Node* leader = one_leader();
    if (leader == nullptr || leader->undrained()) continue;
    settled = settled || nemesis_.settled();
    if (!settled) continue;
    if (!oracle_.index_of(last_write).is_zero() && all_equal()) {
      trace_.say(NodeId(), "healed: ", standing());
      return;
    }
    if (oracle_.index_of(last_write).is_zero()) last_write = clients_.propose_at(*leader);
  }
  SIM_REQUIRE(false, property::kLiveness, "settled", settled, "state", standing());
}

RunResult Cluster::run() {
  RunResult result;
  try {
    play();
    result.passed = true;
  } catch (const Violation& violation) {
    result.property = violation.property();
    result.message = violation.what();
  }
  result.end = scheduler_.now();
  result.steps = scheduler_.actions_run();
  result.hash = trace_.hash();
  result.coverage = coverage_;
  return result;
}

RunResult run_seed(uint64_t seed, const RunOptions& options) {
  // A failed check in the core ends the run like a violation of ours; what it leaves behind is only
  // destroyed.
  set_check_failure_hook([](const std::string& message) { throw Violation(property::kCoreCheck, message); });
  auto cluster = std::make_unique<Cluster>(seed, options);
  return cluster->run();
}

}  // namespace rallypoint::sim
