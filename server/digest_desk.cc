#include "server/digest_desk.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "server/state/command.pb.h"
#include "server/state/v3_kinds.h"
#include "storage/etcd_api/rpc.pb.h"

namespace rallypoint::server {
namespace {
/// Marks whose reports are kept: the one in progress and those of members that are a little ahead or behind.
constexpr size_t kMarksKept = 4;
constexpr Duration kForGood = Duration::seconds(3600);

std::string hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, value);
  return text;
}
}  // namespace

Status DigestDesk::diverged(uint64_t index, uint64_t ours, uint64_t theirs) const {
  return Status::data_loss("this member's state is not the cluster's: at log index " + std::to_string(index) + " its digest is " + hex(ours) + ", that of most members " + hex(theirs));
}

Status DigestDesk::applied(const Effects::DigestMark& mark) {
  if (mark.about_index != 0 && mark.about_index == index_ && mark.about_digest != digest_) return diverged(index_, digest_, mark.about_digest);
  index_ = mark.index.value();
  digest_ = mark.digest;
  return Status::ok();
}

Bytes DigestDesk::take_report() {
  if (told_ == index_) return {};
  told_ = index_;
  pb::DigestReport report;
  report.set_index(index_);
  report.set_digest(digest_);
  return Bytes(report.SerializeAsString());
}

void DigestDesk::on_report(NodeId from, const Bytes& bytes) {
  pb::DigestReport report;
  if (!report.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || report.index() < index_) return;
  reports_[report.index()][from] = report.digest();
  while (reports_.size() > kMarksKept) reports_.erase(reports_.begin());
}

DigestDesk::Verdict DigestDesk::verdict(const raft::Membership& membership) const {
  Verdict verdict;
  const auto reports = reports_.find(index_);
  if (index_ == 0 || reports == reports_.end()) return verdict;
  std::map<uint64_t, size_t> votes;
  size_t spoke = 0;
  for (const raft::Member& voter : membership.voters)
    if (auto it = reports->second.find(voter.id); it != reports->second.end()) ++votes[it->second], ++spoke;
  for (const auto& [digest, count] : votes)
    if (count * 2 > membership.voters.size()) verdict.agreed = digest;
  verdict.differs = verdict.agreed && std::any_of(reports->second.begin(), reports->second.end(), [&](const auto& report) { return report.second != *verdict.agreed; });
  verdict.disputed = !verdict.agreed && spoke == membership.voters.size();
  return verdict;
}

Status DigestDesk::tick(const StateMachine& machine, Proposals& proposals, Instant now) {
  const Verdict verdict = this->verdict(machine.applied().membership);
  if (verdict.agreed && *verdict.agreed != digest_) return diverged(index_, digest_, *verdict.agreed);
  pb::Command command;
  if (verdict.disputed && settled_ != index_ && !machine.v3().has_alarm(etcdserverpb::CORRUPT)) {
    settled_ = index_;
    etcdserverpb::AlarmRequest alarm;
    alarm.set_action(etcdserverpb::AlarmRequest::ACTIVATE);
    alarm.set_alarm(etcdserverpb::CORRUPT);
    alarm.set_memberid(self_.value());
    command.mutable_v3_write()->set_kind(static_cast<uint32_t>(V3WriteKind::kAlarm));
    command.mutable_v3_write()->set_request(alarm.SerializeAsString());
    propose(proposals, command.SerializeAsString(), now);
    return Status::ok();
  }
  const bool to_tell = verdict.differs && settled_ != index_;
  const bool due = marked_at_ + period_ <= now && machine.applied().index.value() > index_;
  if (!to_tell && !due) return Status::ok();
  if (to_tell) settled_ = index_;
  marked_at_ = now;
  pb::DigestReport& report = *command.mutable_digest_report();
  if (verdict.agreed) {
    report.set_index(index_);
    report.set_digest(*verdict.agreed);
  }
  propose(proposals, command.SerializeAsString(), now);
  return Status::ok();
}

void DigestDesk::propose(Proposals& proposals, const std::string& body, Instant now) {
  proposals.add({}, Proposals::Kind::kInternal, body, now + kForGood);
}

}  // namespace rallypoint::server
