// Join: how a node with an empty directory learns which cluster it is to be part of, by asking the other members of its
// --initial-cluster at their peer ports, before any loop runs.
//
//   existing   it was added: the cluster must know it by its peer URLs, and --initial-cluster must list all members
//              (etcd's rule: what the operator says and what the cluster says must agree)
//   new        if nobody knows of a cluster, this is a first start. If somebody does and counts this node in, its
//              directory was lost: it comes back under its old id and gets its data from the others, whatever else
//              --initial-cluster says; it never takes part in founding the cluster again. A cluster that does not
//              count it in (any more) can't be founded again either: that is an error.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "server/cluster_info.pb.h"
#include "server/options.h"
#include "server/transport/transport.h"

namespace rallypoint::server {

struct JoinedCluster {
  uint64_t cluster_id = 0;
  NodeId member;
  pb::ClusterInfo info;
};

/// What --initial-cluster and the cluster's own word make of each other. Pure.
Result<JoinedCluster> match_cluster(const Options& options, const pb::ClusterAnswer& answer);

struct JoinTools {
  std::function<Result<Bytes>(const HostPort&, Duration timeout)> ask;  ///< server/transport/cluster_query.h
  std::function<void(Duration)> pause;
};
[[nodiscard]] JoinTools real_join_tools();

/// For `existing`. Tries for some seconds: the members may lag behind the change that added this node.
Result<JoinedCluster> join_cluster(const Options& options, const JoinTools& tools);
/// For `new`, asking each once. Nothing = there is no cluster yet, as far as anybody who answers knows.
Result<std::optional<JoinedCluster>> find_founded(const Options& options, const JoinTools& tools);

}  // namespace rallypoint::server
