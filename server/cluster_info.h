// ClusterInfo: names, peer URLs and spent ids of the members, kept in Membership::context, and the rules by which it may
// change. Pure. The leader plans a change from the membership in force; Raft's own conditions (one change at a time, a
// live majority, a learner in sync) are checked by the core after it.
//
// Why a change names its request. A node asks the leader and waits until it sees the entry itself; if the leader dies
// in between, it asks the next one, who finds the request in `recent` if it took effect already. So a change is made
// once, and its outcome is known wherever the entry is.
//
// A voter is added as a learner that the core promotes once it has caught up: a new member that never starts, or was
// added with a wrong URL, then costs no majority (etcd#3477, #16798). What etcd refuses by counting started members is
// refused here too, with its texts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "raft/core.h"
#include "raft/membership.h"
#include "server/api/api.h"
#include "server/cluster_info.pb.h"

namespace rallypoint::server {

/// 64 bits of SHA-256, never 0.
[[nodiscard]] uint64_t hash_of(const std::string& text);

/// Empty if the context is malformed: only display depends on it.
[[nodiscard]] pb::ClusterInfo cluster_info_of(const raft::Membership& membership);
[[nodiscard]] Bytes encode(const pb::ClusterInfo& info);

/// Whether `id` was a member and was removed.
[[nodiscard]] bool was_removed(const pb::ClusterInfo& info, NodeId id);
[[nodiscard]] bool has_taken_effect(const pb::ClusterInfo& info, const pb::ChangeId& by);
/// The id of a member that this request adds; the same however often it is asked.
[[nodiscard]] NodeId added_member_id(const pb::MemberChange& change);
/// Catches up, and then votes without anybody's doing: a new voter, or one that lost its directory.
[[nodiscard]] bool will_vote(const raft::Membership& membership, NodeId id);
/// Shown as a learner: one that stays a learner until somebody promotes it.
[[nodiscard]] bool is_learner_by_choice(const raft::Membership& membership, NodeId id);

/// What the core is to be asked for, or why not (etcd's texts). `is_started`: the member has registered once.
[[nodiscard]] Result<raft::ChangeMembership> plan_change(const pb::MemberChange& change, const raft::Membership& current,
                                                         const std::function<bool(NodeId)>& is_started);

}  // namespace rallypoint::server
