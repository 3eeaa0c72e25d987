#include "tests/raft/support/scenario.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/raft/support/cluster.h"
#include "tests/raft/support/text.h"

namespace rallypoint::raft::test {
namespace {

using Words = std::vector<std::string>;
using Kind = ChangeMembership::Kind;

class Player {
 public:
  std::string play(const std::string& line) {
    out_.str("");
    std::istringstream in(line);
    Words words;
    for (std::string word; in >> word;) words.push_back(word);
    if (words.empty() || !perform(words.front(), Words(words.begin() + 1, words.end())))
      out_ << "?? unknown command\n";
    return out_.str();
  }

 private:
  static uint64_t number(const std::string& word) { return std::strtoull(word.c_str(), nullptr, 10); }

  void make(const Words& args) {
    std::vector<uint64_t> ids;
    for (const std::string& arg : args) ids.push_back(number(arg));
    Config config;
    config.snapshot_chunk_bytes = 8;
    cluster_ = std::make_unique<Cluster>(ids, config);
    cluster_->trace = [this](NodeId id, const std::string& text) {
      const bool noise =
          text.find("heartbeat") != std::string::npos || text.find("alive round") != std::string::npos;
      if (!noise) out_ << id << ": " << text << '\n';
    };
  }

  void show() {
    for (auto& [id, node] : cluster_->nodes) {
      out_ << id << ": ";
      if (!node->up()) {
        out_ << "is down\n";
        continue;
      }
      const CoreState& s = node->state();
      out_ << role_name(s.role) << " in term " << s.term << ", log " << s.log.first_index() << ".."
           << s.log.last_index() << " commit " << s.log.commit() << "," << describe(s.membership())
           << ", applied: " << Cluster::joined(node->disk.commands) << '\n';
    }
  }

  void change(const Words& args) {
    static const std::map<std::string, Kind> kKinds = {{"add", Kind::kAddLearner},
                                                       {"promote", Kind::kPromote},
                                                       {"demote", Kind::kDemote},
                                                       {"remove", Kind::kRemove}};
    ChangeMembership event{1, {}};
    for (size_t i = 1; i < args.size(); ++i) {
      const size_t colon = args[i].find(':');
      const uint64_t id = number(args[i].substr(colon + 1));
      event.changes.push_back(
          {kKinds.at(args[i].substr(0, colon)), NodeId(id), cluster_->node(id).disk.directory});
    }
    cluster_->step(number(args.at(0)), std::move(event));
    cluster_->settle();
  }

  bool perform(const std::string& command, const Words& args) {
    if (command == "nodes") return make(args), true;
    if (command == "cluster") {
      make(args);
      cluster_->start_all();
      const bool elected = cluster_->elect() != nullptr;
      return out_.str(""), elected;
    }
    if (cluster_ == nullptr) return false;
    Cluster& c = *cluster_;
    auto each = [&](auto&& what) {
      for (const std::string& arg : args) what(number(arg));
      return true;
    };
    if (command == "start") return each([&](uint64_t id) { c.node(id), c.start(id); });
    if (command == "crash") return each([&](uint64_t id) { c.crash(id); });
    if (command == "restart") return each([&](uint64_t id) { c.restart(id); });
    if (command == "wipe") return each([&](uint64_t id) { c.wipe(id); });
    if (command == "stall") return each([&](uint64_t id) { c.node(id).disk_stalls = true; });
    if (command == "unstall")
      return each([&](uint64_t id) { c.node(id).disk_stalls = false; }), c.settle(), true;
    if (command == "isolate") return each([&](uint64_t id) { c.isolate(id); });
    if (command == "compact") return each([&](uint64_t id) { c.compact(id); }), c.settle(), true;
    if (command == "tick") return c.tick_all(args.empty() ? 1 : static_cast<int>(number(args[0]))), true;
    if (command == "settle") return c.settle(), true;
    if (command == "elect") return c.elect() != nullptr;
    if (command == "heal") return c.heal(), true;
    if (command == "cut") return c.cut(number(args.at(0)), number(args.at(1))), true;
    if (command == "show") return show(), true;
    if (command == "messages") return c.trace_messages = args.at(0) == "on", true;
    if (command == "change") return change(args), true;
    if (command == "propose") {
      for (size_t i = 1; i < args.size(); ++i) c.propose(number(args[0]), args[i]);
      return c.settle(), true;
    }
    if (command == "read") return c.step(number(args.at(0)), Read{number(args.at(1))}), c.settle(), true;
    if (command == "transfer")
      return c.step(number(args.at(0)), TransferLeadership{NodeId(number(args.at(1)))}), c.settle(), true;
    if (command == "leader-gone") {
      const uint64_t id = number(args.at(0));
      return c.step(id, LeaderGone{NodeId(number(args.at(1))), c.node(id).state().term}), true;
    }
    return false;
  }

  std::unique_ptr<Cluster> cluster_;
  std::ostringstream out_;
};

}  // namespace

std::string run_scenario(const std::string& text) {
  Player player;
  std::istringstream in(text);
  std::string result;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('#') || line.empty()) result += line + "\n";
    if (line.starts_with("> ")) result += line + "\n" + player.play(line.substr(2));
  }
  return result;
}

}  // namespace rallypoint::raft::test
