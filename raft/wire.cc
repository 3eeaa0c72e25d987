#include "raft/wire.h"

#include <google/protobuf/arena.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "raft/base/check.h"
#include "raft/raft.pb.h"

namespace rallypoint::raft {
namespace {

constexpr size_t kSizeBytes = 4;
/// Heads of usual messages fit into this much stack, so that neither direction allocates for them.
constexpr size_t kArenaBytes = 2048;

class StackArena {
 public:
  StackArena() : arena_(block_, sizeof(block_)) {}
  pb::MessageHead* make_head() { return google::protobuf::Arena::CreateMessage<pb::MessageHead>(&arena_); }

 private:
  alignas(8) char block_[kArenaBytes];
  google::protobuf::Arena arena_;
};

Status malformed(const char* name, const std::string& what) {
  return Status::invalid_argument(std::string(name) + ": " + what);
}

// ---- parts that several messages share ----------------------------------------------------------------------

void put(EntryId id, pb::EntryId* out) {
  out->set_term(id.term.value());
  out->set_index(id.index.value());
}
EntryId get(const pb::EntryId& in) { return {Term(in.term()), Index(in.index())}; }

using PbMembers = google::protobuf::RepeatedPtrField<pb::Member>;

void put(const std::vector<Member>& members, PbMembers* out) {
  for (const Member& member : members) {
    pb::Member* one = out->Add();
    one->set_id(member.id.value());
    one->set_directory(member.directory.value());
  }
}

Status get(const PbMembers& in, const char* list, std::vector<Member>& out) {
  const auto count = static_cast<size_t>(in.size());
  if (count > kWireMembersMax) {
    return malformed("membership", std::string(list) + " has " + std::to_string(count) + " members, at most " +
                                       std::to_string(kWireMembersMax) + " are allowed");
  }
  out.reserve(count);
  for (const pb::Member& member : in) {
    const NodeId id(member.id());
    if (id.is_zero() || (!out.empty() && id <= out.back().id)) {
      return malformed("membership", std::string(list) + " is not sorted by distinct ids above 0");
    }
    out.push_back({id, DirectoryId(member.directory())});
  }
  return Status::ok();
}

void put(const Membership& membership, pb::Membership* out) {
  put(membership.voters, out->mutable_voters());
  put(membership.outgoing, out->mutable_outgoing());
  put(membership.learners, out->mutable_learners());
  put(membership.learners_next, out->mutable_learners_next());
  out->set_context(membership.context.data(), membership.context.size());
  for (NodeId id : membership.returning) out->add_returning(id.value());
}

Status get(const pb::Membership& in, Membership& out) {
  RALLY_RETURN_IF_ERROR(get(in.voters(), "voters", out.voters));
  RALLY_RETURN_IF_ERROR(get(in.outgoing(), "outgoing", out.outgoing));
  RALLY_RETURN_IF_ERROR(get(in.learners(), "learners", out.learners));
  RALLY_RETURN_IF_ERROR(get(in.learners_next(), "learners_next", out.learners_next));
  out.context = Bytes::copy_of(in.context());
  if (static_cast<size_t>(in.returning_size()) > kWireMembersMax)
    return malformed("membership", "returning has " + std::to_string(in.returning_size()) + " members");
  for (uint64_t id : in.returning()) out.returning.push_back(NodeId(id));
  return Status::ok();
}

// ---- one encoder per message --------------------------------------------------------------------------------

struct Encoder {
  pb::MessageHead& head;
  std::vector<Bytes>& payloads;

  void add_payload(const Bytes& payload) {
    if (!payload.empty()) payloads.push_back(payload);
  }

  void operator()(const VoteRequest& body) {
    auto* out = head.mutable_vote_request();
    put(body.last, out->mutable_last());
    out->set_pre_vote(body.pre_vote);
    out->set_transfer(body.transfer);
    out->set_blank(body.blank);
    out->set_expected_directory(body.expected_directory.value());
  }
  void operator()(const VoteReply& body) {
    auto* out = head.mutable_vote_reply();
    out->set_pre_vote(body.pre_vote);
    out->set_granted(body.granted);
    out->set_blank(body.blank);
  }
  void operator()(const AppendRequest& body) {
    auto* out = head.mutable_append_request();
    put(body.previous, out->mutable_previous());
    out->set_commit(body.commit.value());
    const size_t count = body.entries.size();
    RALLY_CHECK(count <= kWireEntriesMax, "count", count);
    out->mutable_entry_terms()->Reserve(static_cast<int>(count));
    out->mutable_entry_sizes()->Reserve(static_cast<int>(count));
    std::string* kinds = out->mutable_entry_kinds();
    kinds->reserve(count);
    Index expected = body.previous.index;
    for (const Entry& entry : body.entries) {
      RALLY_CHECK(entry.index == ++expected, "index", entry.index, "expected", expected);
      RALLY_CHECK(entry.payload.size() <= std::numeric_limits<uint32_t>::max(), "index", entry.index);
      out->add_entry_terms(entry.term.value());
      out->add_entry_sizes(static_cast<uint32_t>(entry.payload.size()));
      kinds->push_back(static_cast<char>(entry.kind));
      add_payload(entry.payload);
    }
  }
  void operator()(const AppendReply& body) {
    auto* out = head.mutable_append_reply();
    out->set_accepted(body.accepted);
    out->set_match(body.match.value());
    out->set_request_previous(body.request_previous.value());
    put(body.hint, out->mutable_hint());
    out->set_blank(body.blank);
  }
  void operator()(const Heartbeat& body) {
    auto* out = head.mutable_heartbeat();
    out->set_commit(body.commit.value());
    out->set_round(body.round);
  }
  void operator()(const HeartbeatReply& body) {
    auto* out = head.mutable_heartbeat_reply();
    out->set_round(body.round);
    out->set_last(body.last.value());
    out->set_blank(body.blank);
  }
  void operator()(const InstallSnapshot& body) {
    auto* out = head.mutable_install_snapshot();
    put(EntryId{body.meta.term, body.meta.index}, out->mutable_snapshot());
    put(body.meta.membership, out->mutable_membership());
    out->set_offset(body.offset);
    out->set_last(body.last);
    add_payload(body.data);
  }
  void operator()(const InstallSnapshotReply& body) {
    auto* out = head.mutable_install_snapshot_reply();
    put(body.snapshot, out->mutable_snapshot());
    out->set_next_offset(body.next_offset);
    out->set_installed(body.installed);
    out->set_blank(body.blank);
  }
  void operator()(const ReadIndexRequest& body) { head.mutable_read_index_request()->set_id(body.id); }
  void operator()(const ReadIndexReply& body) {
    auto* out = head.mutable_read_index_reply();
    out->set_id(body.id);
    out->set_ok(body.ok);
    out->set_index(body.index.value());
  }
  void operator()(const TimeoutNow&) { head.mutable_timeout_now(); }
};

// ---- the two bodies that have a payload -----------------------------------------------------------------------

Status get(const pb::AppendRequest& in, Term leader_term, const Bytes& payload, AppendRequest& out) {
  const char* const name = "AppendRequest";
  out.previous = get(in.previous());
  out.commit = Index(in.commit());
  const auto count = static_cast<size_t>(in.entry_sizes_size());
  if (count > kWireEntriesMax) {
    return malformed(name, std::to_string(count) + " entries, at most " + std::to_string(kWireEntriesMax) +
                               " are allowed");
  }
  if (static_cast<size_t>(in.entry_terms_size()) != count || in.entry_kinds().size() != count) {
    return malformed(name, "the lists of terms, sizes and kinds have " + std::to_string(in.entry_terms_size()) +
                               ", " + std::to_string(count) + " and " + std::to_string(in.entry_kinds().size()) +
                               " items, they must be equally long");
  }
  if (out.previous.index.value() > std::numeric_limits<uint64_t>::max() - count) {
    return malformed(name, "entry indexes beyond 2^64");
  }
  out.entries.reserve(count);
  size_t offset = 0;
  Term least = out.previous.term;
  for (size_t i = 0; i < count; ++i) {
    const Term term(in.entry_terms(static_cast<int>(i)));
    const size_t size = in.entry_sizes(static_cast<int>(i));
    const auto kind = static_cast<uint8_t>(in.entry_kinds()[i]);
    // Terms never fall along a log, and a leader has no entry of a later term than its own.
    if (term < least || term.is_zero() || leader_term < term) {
      return malformed(name, "entry " + std::to_string(i) + " has term " + std::to_string(term.value()) +
                                 ", after " + std::to_string(least.value()) + " and from a leader of term " +
                                 std::to_string(leader_term.value()));
    }
    if (kind > static_cast<uint8_t>(EntryKind::kMembership)) {
      return malformed(name, "entry " + std::to_string(i) + " is of unknown kind " + std::to_string(kind));
    }
    if (size > payload.size() - offset) {
      return malformed(name, "entry " + std::to_string(i) + " of " + std::to_string(count) +
                                 " reaches over the end of the " + std::to_string(payload.size()) +
                                 " bytes behind the head");
    }
    out.entries.push_back({term, out.previous.index + (i + 1), static_cast<EntryKind>(kind),
                           size == 0 ? Bytes() : payload.slice(offset, size)});
    offset += size;
    least = term;
  }
  if (offset != payload.size()) {
    return malformed(name, std::to_string(payload.size() - offset) + " bytes too many behind the head");
  }
  return Status::ok();
}

Status get(const pb::InstallSnapshot& in, const Bytes& payload, InstallSnapshot& out) {
  const EntryId id = get(in.snapshot());
  out.meta.term = id.term;
  out.meta.index = id.index;
  RALLY_RETURN_IF_ERROR(get(in.membership(), out.meta.membership));
  out.offset = in.offset();
  if (out.offset > std::numeric_limits<uint64_t>::max() - payload.size()) {
    return malformed("InstallSnapshot", "the piece ends beyond 2^64");
  }
  out.data = payload;
  out.last = in.last();
  return Status::ok();
}

/// The body, or nothing if the head has none that we know, or `error` is set.
std::optional<Message::Body> get_body(const pb::MessageHead& head, const Bytes& payload, Status& error) {
  switch (head.body_case()) {
    case pb::MessageHead::kVoteRequest: {
      const auto& in = head.vote_request();
      return VoteRequest{get(in.last()), in.pre_vote(), in.transfer(), in.blank(),
                         DirectoryId(in.expected_directory())};
    }
    case pb::MessageHead::kVoteReply: {
      const auto& in = head.vote_reply();
      return VoteReply{in.pre_vote(), in.granted(), in.blank()};
    }
    case pb::MessageHead::kAppendRequest: {
      AppendRequest out;
      error = get(head.append_request(), Term(head.term()), payload, out);
      return out;
    }
    case pb::MessageHead::kAppendReply: {
      const auto& in = head.append_reply();
      return AppendReply{in.accepted(), Index(in.match()), Index(in.request_previous()), get(in.hint()),
                         in.blank()};
    }
    case pb::MessageHead::kHeartbeat:
      return Heartbeat{Index(head.heartbeat().commit()), head.heartbeat().round()};
    case pb::MessageHead::kHeartbeatReply: {
      const auto& in = head.heartbeat_reply();
      return HeartbeatReply{in.round(), Index(in.last()), in.blank()};
    }
    case pb::MessageHead::kInstallSnapshot: {
      InstallSnapshot out;
      error = get(head.install_snapshot(), payload, out);
      return out;
    }
    case pb::MessageHead::kInstallSnapshotReply: {
      const auto& in = head.install_snapshot_reply();
      return InstallSnapshotReply{get(in.snapshot()), in.next_offset(), in.installed(), in.blank()};
    }
    case pb::MessageHead::kReadIndexRequest:
      return ReadIndexRequest{head.read_index_request().id()};
    case pb::MessageHead::kReadIndexReply: {
      const auto& in = head.read_index_reply();
      return ReadIndexReply{in.id(), in.ok(), Index(in.index())};
    }
    case pb::MessageHead::kTimeoutNow:
      return TimeoutNow{};
    case pb::MessageHead::BODY_NOT_SET:
      break;
  }
  return std::nullopt;
}

bool has_payload(pb::MessageHead::BodyCase kind) {
  return kind == pb::MessageHead::kAppendRequest || kind == pb::MessageHead::kInstallSnapshot;
}

}  // namespace

void encode(const Message& message, std::string& head, std::vector<Bytes>& payloads) {
  StackArena arena;
  pb::MessageHead& out = *arena.make_head();
  out.set_from(message.from.value());
  out.set_to(message.to.value());
  out.set_term(message.term.value());
  out.set_from_directory(message.from_directory.value());
  std::visit(Encoder{out, payloads}, message.body);

  const size_t size = out.ByteSizeLong();
  RALLY_CHECK(size <= kWireHeadBytesMax, "size", size);
  const size_t at = head.size();
  head.resize(at + kSizeBytes + size);
  auto* to = reinterpret_cast<uint8_t*>(head.data() + at);
  for (size_t i = 0; i < kSizeBytes; ++i) to[i] = static_cast<uint8_t>(size >> (8 * i));
  out.SerializeWithCachedSizesToArray(to + kSizeBytes);
}

Result<Message> decode(const Bytes& body) {
  if (body.size() < kSizeBytes) {
    return malformed("message", std::to_string(body.size()) + " bytes have no room for the size of a head");
  }
  const auto* at = reinterpret_cast<const uint8_t*>(body.data());
  uint32_t head_size = 0;
  for (size_t i = 0; i < kSizeBytes; ++i) head_size |= static_cast<uint32_t>(at[i]) << (8 * i);
  if (head_size > kWireHeadBytesMax || head_size > body.size() - kSizeBytes) {
    return malformed("message", "a head of " + std::to_string(head_size) + " bytes in " +
                                    std::to_string(body.size()) + " bytes");
  }
  StackArena arena;
  pb::MessageHead& head = *arena.make_head();
  if (!head.ParseFromArray(at + kSizeBytes, static_cast<int>(head_size))) {
    return malformed("message", "the head is no MessageHead");
  }
  if (head.from() == 0 || head.to() == 0) return malformed("message", "sender or receiver is 0");

  const size_t payload_at = kSizeBytes + head_size;
  const Bytes payload = payload_at == body.size() ? Bytes() : body.slice(payload_at, body.size() - payload_at);
  if (!payload.empty() && head.body_case() != pb::MessageHead::BODY_NOT_SET && !has_payload(head.body_case())) {
    return malformed("message", std::to_string(payload.size()) + " bytes too many behind the head");
  }
  Status error;
  std::optional<Message::Body> decoded = get_body(head, payload, error);
  if (!error.is_ok()) return error;
  if (!decoded) return malformed("message", "of a kind that this version does not know");
  return Message{NodeId(head.from()), NodeId(head.to()), Term(head.term()), DirectoryId(head.from_directory()),
                 std::move(*decoded)};
}

}  // namespace rallypoint::raft
