// Membership changes (thesis chapter 4). One at a time: the next may begin once the one before is committed,
// and once the leader has committed an entry of its own term (else two changes by two leaders could both be
// under way and their majorities need not meet). One voter more or less is one step, since old and new
// majorities overlap; several at once go through joint consensus, which the leader leaves by itself.
//
// A member whose disk was wiped comes back by itself. It answers from a directory that is not the bound one
// and that no membership it knows binds. The leader then replaces the voter by a learner bound to the new
// directory (in one step: one voter less), catches it up, and makes it a voter again (one more). Between the
// two steps the old disk is out of every majority, so whatever it acked and forgot is not relied on; the
// leader itself holds all that was committed with its help. Only done while a majority of the smaller
// membership is alive.
//
// A new voter comes the same way (kAddVoter): as a learner, promoted once it has caught up. So a member that
// never starts, or was added under a wrong address, stands in no majority (etcd#3477, #16798).
#pragma once

#include "raft/core_state.h"

namespace rallypoint::raft::membership_change {

void change(CoreState& state, ChangeMembership event);
/// The commit index moved: answer, leave the joint phase, step down if this leader is out.
void on_commit(CoreState& state);
/// Promotes who has caught up, brings wiped members back: one step at a time.
void on_tick(CoreState& state);
/// Leader: `id` spoke from `directory`; `unbound` = it knows of no membership that binds it.
void note_directory(CoreState& state, NodeId id, DirectoryId directory, bool unbound);

/// What `changes` make of `current`, without the joint phase. `directory_of(id)` is the disk that a learner
/// was heard from, if any.
[[nodiscard]] Result<Membership> apply_changes(Membership current,
                                               const std::vector<ChangeMembership::Change>& changes,
                                               const std::vector<Member>& heard);
/// How many voters differ.
[[nodiscard]] size_t voters_changed(const Membership& before, const Membership& after);
/// The entry that goes from `before` to `after`: joint if more than one voter differs.
[[nodiscard]] Membership step_towards(const Membership& before, Membership after);
/// The membership after the joint phase.
[[nodiscard]] Membership leave_joint(Membership joint);

}  // namespace rallypoint::raft::membership_change
