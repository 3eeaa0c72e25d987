#include "tests/raft/support/text.h"

#include <sstream>

namespace rallypoint::raft::test {
namespace {

std::string describe(EntryId id) {
  return std::to_string(id.term.value()) + "." + std::to_string(id.index.value());
}

const char* reason(trace::ElectionReason r) {
  static constexpr const char* kNames[] = {"time-out", "leader gone", "transfer", "first election",
                                           "single voter"};
  return kNames[static_cast<size_t>(r)];
}
const char* reason(trace::StepDownReason r) {
  static constexpr const char* kNames[] = {"higher term", "quorum lost", "disk stalled", "removed"};
  return kNames[static_cast<size_t>(r)];
}
const char* reason(trace::RefusalReason r) {
  static constexpr const char* kNames[] = {"old term",        "voted already", "log behind", "leader alive",
                                           "wrong directory", "not a voter",   "not blank"};
  return kNames[static_cast<size_t>(r)];
}

void list(std::ostream& out, const char* name, const std::vector<Member>& members) {
  if (members.empty()) return;
  out << ' ' << name << '=';
  const char* comma = "";
  for (const Member& member : members) {
    out << comma << member.id;
    if (!member.directory.is_zero()) out << '@' << member.directory;
    comma = ",";
  }
}

struct Body {
  std::ostream& out;
  void operator()(const VoteRequest& m) const {
    out << (m.pre_vote ? "would you vote for me?" : "vote for me!") << " last=" << describe(m.last);
    if (m.transfer) out << " transfer";
    if (m.blank) out << " blank";
  }
  void operator()(const VoteReply& m) const {
    out << (m.pre_vote ? "pre-vote " : "vote ") << (m.granted ? "granted" : "refused");
    if (m.blank) out << " blank";
  }
  void operator()(const AppendRequest& m) const {
    out << "append after=" << describe(m.previous);
    if (!m.entries.empty()) out << " entries=" << m.entries.front().index << ".." << m.entries.back().index;
    out << " commit=" << m.commit;
  }
  void operator()(const AppendReply& m) const {
    if (m.accepted)
      out << "accepted match=" << m.match;
    else
      out << "refused after=" << m.request_previous << " hint=" << describe(m.hint);
    if (m.blank) out << " unbound";
  }
  void operator()(const Heartbeat& m) const {
    out << "heartbeat round=" << m.round << " commit=" << m.commit;
  }
  void operator()(const HeartbeatReply& m) const {
    out << "alive round=" << m.round;
    if (m.blank) out << " unbound";
  }
  void operator()(const InstallSnapshot& m) const {
    out << "snapshot " << describe({m.meta.term, m.meta.index}) << " offset=" << m.offset
        << " bytes=" << m.data.size();
    if (m.last) out << " last";
  }
  void operator()(const InstallSnapshotReply& m) const {
    out << "snapshot " << describe(m.snapshot);
    if (m.installed)
      out << " installed";
    else
      out << " next=" << m.next_offset;
  }
  void operator()(const ReadIndexRequest&) const { out << "read index?"; }
  void operator()(const ReadIndexReply& m) const {
    if (m.ok)
      out << "read index=" << m.index;
    else
      out << "read index refused";
  }
  void operator()(const TimeoutNow&) const { out << "campaign now"; }
};

struct Event {
  std::ostream& out;
  void operator()(const trace::PreVoteStarted& e) const {
    out << "asks for pre-votes for term " << e.term << " (" << reason(e.reason) << ")";
  }
  void operator()(const trace::ElectionStarted& e) const {
    out << "campaigns in term " << e.term << " (" << reason(e.reason) << ")";
  }
  void operator()(const trace::VoteGranted& e) const {
    out << (e.pre_vote ? "would vote for " : "votes for ") << e.candidate << " in term " << e.term;
  }
  void operator()(const trace::VoteRefused& e) const {
    out << "refuses " << (e.pre_vote ? "pre-vote" : "vote") << " to " << e.candidate << " for term " << e.term
        << ": " << reason(e.reason);
  }
  void operator()(const trace::BecameLeader& e) const {
    out << "leads term " << e.term << " from log " << e.last;
  }
  void operator()(const trace::BecameFollower& e) const {
    out << "follows " << (e.leader.is_zero() ? "nobody" : std::to_string(e.leader.value())) << " in term "
        << e.term;
  }
  void operator()(const trace::SteppedDown& e) const {
    out << "steps down in term " << e.term << ": " << reason(e.reason);
  }
  void operator()(const trace::LeaderForgotten& e) const {
    out << "knows that leader " << e.leader << " is gone";
  }
  void operator()(const trace::CommitAdvanced& e) const { out << "commits up to " << e.commit; }
  void operator()(const trace::LogTruncated& e) const {
    out << "cuts its log from " << e.from << " (last was " << e.old_last << ")";
  }
  void operator()(const trace::LogConflict& e) const {
    out << "learns that " << e.follower << " has no equal entry " << e.refused << ", hint "
        << describe(e.hint);
  }
  void operator()(const trace::ProgressChanged& e) const {
    out << "now sends to " << e.follower << " as " << e.state << " from " << e.next;
  }
  void operator()(const trace::MembershipApplied& e) const {
    out << "membership at " << e.index << ":" << test::describe(e.membership);
  }
  void operator()(const trace::MembershipRolledBack& e) const {
    out << "membership back to " << e.index << ":" << test::describe(e.membership);
  }
  void operator()(const trace::SnapshotWanted& e) const {
    out << "needs a snapshot for " << e.follower << " (log begins at " << e.first << ")";
  }
  void operator()(const trace::SnapshotSendStarted& e) const {
    out << "sends snapshot " << describe(e.snapshot) << " to " << e.follower;
  }
  void operator()(const trace::SnapshotSendEnded& e) const {
    out << "snapshot " << describe(e.snapshot) << " to " << e.follower
        << (e.installed ? " is installed" : " failed");
  }
  void operator()(const trace::SnapshotInstalled& e) const {
    out << "installs snapshot " << describe(e.snapshot);
  }
  void operator()(const trace::LogCompacted& e) const { out << "cuts its log up to " << e.to; }
  void operator()(const trace::TransferStarted& e) const { out << "hands leadership to " << e.to; }
  void operator()(const trace::TransferEnded& e) const {
    out << "hand-over to " << e.to << (e.done ? " done" : " given up");
  }
  void operator()(const trace::WrongDirectory& e) const {
    out << "hears " << e.node << " from disk " << e.got << " instead of " << e.expected;
  }
  void operator()(const trace::DirectoriesBound& e) const { out << "binds the directories at " << e.index; }
  void operator()(const trace::MemberReturned& e) const {
    out << "takes " << e.node << " back as a learner with disk " << e.directory;
  }
};

}  // namespace

std::string describe(const Membership& m) {
  std::ostringstream out;
  list(out, "voters", m.voters);
  list(out, "outgoing", m.outgoing);
  list(out, "learners", m.learners);
  list(out, "next", m.learners_next);
  return out.str();
}

std::string describe(const Message& message) {
  std::ostringstream out;
  out << "-> " << message.to << ": ";
  std::visit(Body{out}, message.body);
  out << " (term " << message.term << ")";
  return out.str();
}

std::string describe(const TraceEvent& event) {
  std::ostringstream out;
  std::visit(Event{out}, event);
  return out.str();
}

}  // namespace rallypoint::raft::test
