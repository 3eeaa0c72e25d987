// Network: carries messages between nodes and treats them badly - delay, loss, duplication, reordering, cuts
// of single directions, slow links - as the profile and the nemesis say. Knows nothing of Raft.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "raft/base/random.h"
#include "raft/message.h"
#include "tests/sim/coverage.h"
#include "tests/sim/profile.h"
#include "tests/sim/scheduler.h"

namespace rallypoint::sim {

class Network {
 public:
  static constexpr size_t kNodesMax = 32;  ///< node ids are below this
  using Deliver = std::function<void(raft::Message)>;

  Network(const Profile& profile, Random& random, Scheduler& scheduler, Coverage& coverage, Deliver deliver)
      : profile_(profile),
        random_(random),
        scheduler_(scheduler),
        coverage_(coverage),
        deliver_(std::move(deliver)) {}

  void send(raft::Message message);

  void cut(NodeId from, NodeId to) { link(from, to).cut = true; }
  void slow_down(NodeId from, NodeId to, Duration extra) { link(from, to).extra = extra; }
  [[nodiscard]] bool is_cut(NodeId from, NodeId to) const { return links_[from.value()][to.value()].cut; }
  /// Lifts all cuts and slow links.
  void mend();
  /// No loss, no duplicates, short delays from now on.
  void calm() { calm_ = true; }

 private:
  struct Link {
    bool cut = false;
    Duration extra{};
    Instant last_arrival{};
  };
  Link& link(NodeId from, NodeId to) { return links_[from.value()][to.value()]; }
  void carry(raft::Message message);

  const Profile& profile_;
  Random& random_;
  Scheduler& scheduler_;
  Coverage& coverage_;
  Deliver deliver_;
  bool calm_ = false;
  std::array<std::array<Link, kNodesMax>, kNodesMax> links_{};
};

}  // namespace rallypoint::sim
