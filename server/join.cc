#include "server/join.h"

#include <algorithm>
#include <set>
#include <thread>

#include "server/obs/logging.h"
#include "server/transport/cluster_query.h"

namespace rallypoint::server {
namespace {

constexpr Duration kAskTimeout = Duration::millis(1000);
/// On a first start nobody may be there to answer, and the start waits for it.
constexpr Duration kAskTimeoutNew = Duration::millis(300);
constexpr Duration kPause = Duration::millis(200);
constexpr int kRounds = 25;

using Urls = std::set<std::string>;

Urls urls_of(const InitialMember& member) {
  Urls urls;
  for (const Url& url : member.peer_urls) urls.insert(url.to_string());
  return urls;
}
Urls urls_of(const pb::ClusterInfo::Member& member) { return {member.peer_urls().begin(), member.peer_urls().end()}; }

std::string text_of(const Urls& urls) {
  std::string text;
  for (const std::string& url : urls) text += (text.empty() ? "" : ",") + url;
  return text;
}

std::string list_of(const pb::ClusterInfo& info) {
  std::string text;
  for (const auto& member : info.members())
    text += (text.empty() ? "" : " ") + (member.name().empty() ? "(not started)" : member.name()) + "=" + text_of(urls_of(member));
  return text;
}

const InitialMember* own_entry(const Options& options) {
  for (const InitialMember& member : options.initial_cluster)
    if (member.name == options.name) return &member;
  return nullptr;
}

Status no_own_entry(const Options& options) {
  return Status::invalid_argument("couldn't find local name \"" + options.name +
                                  "\" in the initial cluster configuration; give this node's own --name in --initial-cluster");
}

const pb::ClusterInfo::Member* find_by_urls(const pb::ClusterInfo& info, const Urls& urls) {
  for (const auto& member : info.members())
    if (urls_of(member) == urls) return &member;
  return nullptr;
}

struct Asked {
  std::optional<pb::ClusterAnswer> newest;
  std::string errors;
};

/// Asks all others once; of several answers the one that knows most counts.
Asked ask_all(const Options& options, const JoinTools& tools, Duration timeout) {
  Asked asked;
  for (const InitialMember& member : options.initial_cluster) {
    if (member.name == options.name) continue;
    for (const Url& url : member.peer_urls) {
      auto body = tools.ask(url.host_port(), timeout);
      pb::ClusterAnswer answer;
      if (!body.is_ok()) {
        asked.errors += (asked.errors.empty() ? "" : "; ") + body.status().message();
      } else if (!answer.ParseFromArray(body->data(), static_cast<int>(body->size()))) {
        asked.errors += (asked.errors.empty() ? "" : "; ") + url.to_string() + ": its answer is malformed";
      } else {
        if (!asked.newest || asked.newest->applied() < answer.applied()) asked.newest = std::move(answer);
        break;
      }
    }
  }
  return asked;
}

}  // namespace

Result<JoinedCluster> match_cluster(const Options& options, const pb::ClusterAnswer& answer) {
  const InitialMember* own = own_entry(options);
  if (own == nullptr) return no_own_entry(options);
  const auto mismatch = [&](const std::string& what) {
    return Status::failed_precondition("error validating peerURLs: " + what + "; the cluster has " +
                                       std::to_string(answer.info().members_size()) + " members: " + list_of(answer.info()));
  };
  const auto* self = find_by_urls(answer.info(), urls_of(*own));
  if (self == nullptr)
    return mismatch("no member has this node's peer URLs " + text_of(urls_of(*own)) + ", add it first (member add, POST /v2/members)");
  if (static_cast<size_t>(answer.info().members_size()) != options.initial_cluster.size())
    return mismatch("member count is unequal, --initial-cluster lists " + std::to_string(options.initial_cluster.size()));
  for (const InitialMember& member : options.initial_cluster)
    if (find_by_urls(answer.info(), urls_of(member)) == nullptr)
      return mismatch("unmatched member while checking PeerURLs, nobody has those of " + member.name + " in --initial-cluster, " +
                      text_of(urls_of(member)));
  return JoinedCluster{answer.cluster_id(), NodeId(self->id()), answer.info()};
}

JoinTools real_join_tools() {
  return {ask_cluster, [](Duration time) { std::this_thread::sleep_for(std::chrono::microseconds(time.us)); }};
}

Result<JoinedCluster> join_cluster(const Options& options, const JoinTools& tools) {
  if (own_entry(options) == nullptr) return no_own_entry(options);
  Status last;
  for (int round = 0; round < kRounds; ++round) {
    if (round > 0) tools.pause(kPause);
    Asked asked = ask_all(options, tools, kAskTimeout);
    if (!asked.newest) {
      last = Status::unavailable("cannot fetch cluster info from peer urls: could not retrieve cluster information from the given URLs: " +
                                 (asked.errors.empty() ? "--initial-cluster names nobody but this node" : asked.errors));
    } else if (asked.newest->applied() == 0) {
      last = Status::unavailable("the members of --initial-cluster have not founded their cluster yet; start them with --initial-cluster-state new");
    } else {
      auto joined = match_cluster(options, *asked.newest);
      if (joined.is_ok()) return joined;
      last = joined.status();
    }
    if (round == 0) log_info("waiting for the cluster to know this node", {{"why", last.message()}});
  }
  return last;
}

Result<std::optional<JoinedCluster>> find_founded(const Options& options, const JoinTools& tools) {
  const InitialMember* own = own_entry(options);
  if (own == nullptr) return no_own_entry(options);
  const Asked asked = ask_all(options, tools, kAskTimeoutNew);
  if (!asked.newest || asked.newest->applied() == 0) return std::optional<JoinedCluster>();
  const auto* self = find_by_urls(asked.newest->info(), urls_of(*own));
  if (self != nullptr) return std::optional(JoinedCluster{asked.newest->cluster_id(), NodeId(self->id()), asked.newest->info()});
  return Status::failed_precondition("the others of --initial-cluster are in a cluster that does not count this node in: it was removed, or "
                                     "never added. The cluster has members " + list_of(asked.newest->info()) +
                                     "; add this one (member add) and start it with --initial-cluster-state existing");
}

}  // namespace rallypoint::server
