// raft/wire.h: every message survives the way over the wire; whatever is not one is named, never fatal.
#include "raft/wire.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "raft/base/random.h"
#include "raft/raft.pb.h"

namespace rallypoint::raft {
namespace {

std::string flat(const Message& message) {
  std::string bytes;
  std::vector<Bytes> payloads;
  encode(message, bytes, payloads);
  for (const Bytes& payload : payloads) bytes.append(payload.view());
  return bytes;
}

Result<Message> read_back(std::string bytes) { return decode(Bytes(std::move(bytes))); }

/// Small and huge numbers alike.
uint64_t number(Random& random) { return random.next() >> random.below(64); }
Bytes payload(Random& random, size_t bytes_max) {
  std::string text(random.below(bytes_max + 1), '\0');
  for (char& c : text) c = static_cast<char>(random.next());
  return Bytes(std::move(text));
}
EntryId entry_id(Random& random) { return {Term(number(random)), Index(number(random))}; }
std::vector<Member> members(Random& random) {
  std::vector<Member> list;
  uint64_t id = 0;
  for (uint64_t i = random.below(5); i > 0; --i) {
    id += random.between(1, 1000);
    list.push_back({NodeId(id), DirectoryId(random.next())});
  }
  return list;
}
Membership membership(Random& random) {
  return {members(random), members(random), members(random), members(random), payload(random, 100)};
}
bool flip(Random& random) { return random.chance(1, 2); }

constexpr size_t kKinds = std::variant_size_v<Message::Body>;

/// A well-formed message of the kind with that place in Message::Body.
Message random_message(Random& random, size_t kind) {
  Message message{NodeId(random.between(1, UINT64_MAX)), NodeId(random.between(1, UINT64_MAX)),
                  Term(number(random)), DirectoryId(random.next()), {}};
  switch (kind) {
    case 0:
      message.body = VoteRequest{entry_id(random), flip(random), flip(random), flip(random), DirectoryId(random.next())};
      break;
    case 1:
      message.body = VoteReply{flip(random), flip(random), flip(random)};
      break;
    case 2: {
      message.term = Term(random.between(1, UINT64_MAX));
      AppendRequest body;
      body.previous = {Term(random.below(message.term.value()) / 2), Index(number(random) / 2)};
      body.commit = Index(number(random));
      Term term = body.previous.term;
      for (uint64_t i = random.below(20), k = 1; i > 0; --i, ++k) {
        if (term.is_zero() || (random.chance(1, 4) && term < message.term)) ++term;
        body.entries.push_back({term, body.previous.index + k, static_cast<EntryKind>(random.below(3)),
                                payload(random, random.chance(1, 4) ? 5000 : 10)});
      }
      message.body = std::move(body);
      break;
    }
    case 3:
      message.body = AppendReply{flip(random), Index(number(random)), Index(number(random)), entry_id(random),
                                 flip(random)};
      break;
    case 4:
      message.body = Heartbeat{Index(number(random)), number(random)};
      break;
    case 5:
      message.body = HeartbeatReply{number(random), Index(number(random)), flip(random)};
      break;
    case 6: {
      InstallSnapshot body;
      body.meta = {Term(number(random)), Index(number(random)), membership(random)};
      body.offset = number(random) / 2;
      body.data = payload(random, 5000);
      body.last = flip(random);
      message.body = std::move(body);
      break;
    }
    case 7:
      message.body = InstallSnapshotReply{entry_id(random), number(random), flip(random), flip(random)};
      break;
    case 8:
      message.body = ReadIndexRequest{number(random)};
      break;
    case 9:
      message.body = ReadIndexReply{number(random), flip(random), Index(number(random))};
      break;
    case 10:
      message.body = TimeoutNow{};
      break;
    default:
      ADD_FAILURE() << "a kind of message that this test does not know: " << kind;
  }
  return message;
}

/// A head written by hand, with what follows it.
std::string raw(const pb::MessageHead& head, const std::string& behind = {}) {
  const std::string text = head.SerializeAsString();
  std::string bytes;
  for (size_t i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(text.size() >> (8 * i)));
  return bytes + text + behind;
}
pb::MessageHead append_head(uint64_t term, std::vector<uint64_t> terms, std::vector<uint32_t> sizes) {
  pb::MessageHead head;
  head.set_from(1);
  head.set_to(2);
  head.set_term(term);
  auto* append = head.mutable_append_request();
  for (uint64_t one : terms) append->add_entry_terms(one);
  for (uint32_t one : sizes) append->add_entry_sizes(one);
  append->set_entry_kinds(std::string(sizes.size(), '\1'));
  return head;
}
void expect_refused(const std::string& bytes, const std::string& because) {
  const Result<Message> message = read_back(bytes);
  ASSERT_FALSE(message.is_ok());
  EXPECT_EQ(message.status().code(), Code::kInvalidArgument);
  EXPECT_NE(message.status().message().find(because), std::string::npos) << message.status();
}

TEST(Wire, EveryKindOfMessageSurvivesTheWay) {
  Random random(1);
  for (size_t kind = 0; kind < kKinds; ++kind) {
    for (int i = 0; i < 300; ++i) {
      const Message message = random_message(random, kind);
      ASSERT_EQ(message.body.index(), kind);
      const Result<Message> back = read_back(flat(message));
      ASSERT_TRUE(back.is_ok()) << "kind " << kind << ": " << back.status();
      EXPECT_EQ(back.value(), message) << "kind " << kind;
    }
  }
}

TEST(Wire, TheWorkedExampleOfTheHeaderIsWhatIsWritten) {
  const Message message{NodeId(1), NodeId(2), Term(3), DirectoryId(4), TimeoutNow{}};
  const std::string expected(
      "\x20\0\0\0"
      "\x09\1\0\0\0\0\0\0\0"
      "\x11\2\0\0\0\0\0\0\0"
      "\x18\3"
      "\x21\4\0\0\0\0\0\0\0"
      "\xD2\1\0",
      36);
  EXPECT_EQ(flat(message), expected);
}

TEST(Wire, PayloadsAreNeverCopied) {
  Random random(2);
  Message message = random_message(random, 2);
  auto& entries = std::get<AppendRequest>(message.body).entries;
  entries = {{message.term, std::get<AppendRequest>(message.body).previous.index + 1, EntryKind::kCommand,
              Bytes(std::string(100, 'a'))}};
  std::string head;
  std::vector<Bytes> payloads;
  encode(message, head, payloads);
  ASSERT_EQ(payloads.size(), 1u);
  EXPECT_EQ(payloads[0].data(), entries[0].payload.data());

  const Bytes received(flat(message));
  const Result<Message> back = decode(received);
  ASSERT_TRUE(back.is_ok()) << back.status();
  EXPECT_EQ(std::get<AppendRequest>(back.value().body).entries[0].payload.data(),
            received.data() + received.size() - 100);
}

TEST(Wire, EncodeAppendsToWhatIsThere) {
  std::string head = "before";
  std::vector<Bytes> payloads;
  encode({NodeId(1), NodeId(2), Term(3), DirectoryId(4), TimeoutNow{}}, head, payloads);
  EXPECT_EQ(head.substr(0, 6), "before");
  EXPECT_TRUE(read_back(head.substr(6)).is_ok());
}

TEST(Wire, NoTruncatedMessageWithAPayloadIsTaken) {
  Random random(3);
  Message message{NodeId(1), NodeId(2), Term(5), DirectoryId(3),
                  AppendRequest{{Term(2), Index(7)}, Index(6), {{Term(5), Index(8), EntryKind::kCommand,
                                                                Bytes(std::string(50, 'x'))}}}};
  const std::string whole = flat(message);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(read_back(whole.substr(0, size)).is_ok()) << size;
  }
}

TEST(Wire, TruncatedAndDamagedMessagesNeverDoMoreThanFail) {
  Random random(4);
  for (size_t kind = 0; kind < kKinds; ++kind) {
    for (int i = 0; i < 100; ++i) {
      const std::string whole = flat(random_message(random, kind));
      (void)read_back(whole.substr(0, random.below(whole.size())));
      std::string damaged = whole;
      for (uint64_t flips = random.between(1, 4); flips > 0; --flips) {
        damaged[random.below(std::min<size_t>(damaged.size(), 80))] ^= static_cast<char>(1 << random.below(8));
      }
      const Result<Message> message = read_back(damaged);
      if (message.is_ok()) {
        // What is taken is well formed: it can be written again.
        EXPECT_EQ(read_back(flat(message.value())).value(), message.value());
      } else {
        EXPECT_EQ(message.status().code(), Code::kInvalidArgument);
        EXPECT_FALSE(message.status().message().empty());
      }
    }
  }
}

TEST(Wire, LengthsThatDoNotAddUpAreRefused) {
  expect_refused("", "no room");
  expect_refused(std::string("\x05\0\0\0abc", 7), "a head of 5 bytes");
  expect_refused(std::string("\xFF\xFF\xFF\xFF", 4), "a head of 4294967295 bytes");
  expect_refused(raw(append_head(9, {1, 1}, {3, 3}), "12345"), "entry 1 of 2 reaches over the end");
  expect_refused(raw(append_head(9, {1, 1}, {3, 3}), "1234567"), "1 bytes too many");
  expect_refused(raw(append_head(9, {1}, {UINT32_MAX}), "1"), "reaches over the end");
  pb::MessageHead head = append_head(9, {}, {});
  head.mutable_timeout_now();
  expect_refused(raw(head, "x"), "1 bytes too many");
}

TEST(Wire, HeadsThatAreNoHeadsAreRefused) {
  expect_refused(std::string("\x03\0\0\0\xFF\xFF\xFF", 7), "no MessageHead");
  pb::MessageHead head;
  head.mutable_timeout_now();
  expect_refused(raw(head), "sender or receiver is 0");
  head.set_from(1);
  head.set_to(2);
  EXPECT_TRUE(read_back(raw(head)).is_ok());
  head.clear_body();
  expect_refused(raw(head), "does not know");
}

TEST(Wire, EntriesThatNoLeaderSendsAreRefused) {
  expect_refused(raw(append_head(9, {1}, {0, 0})), "equally long");
  expect_refused(raw(append_head(9, {0}, {0})), "entry 0 has term 0");
  expect_refused(raw(append_head(9, {5, 4}, {0, 0})), "entry 1 has term 4, after 5");
  expect_refused(raw(append_head(9, {10}, {0})), "from a leader of term 9");
  pb::MessageHead head = append_head(9, {1}, {0});
  head.mutable_append_request()->set_entry_kinds("\x03");
  expect_refused(raw(head), "unknown kind 3");
  head = append_head(9, {1, 1}, {0, 0});
  head.mutable_append_request()->mutable_previous()->set_index(UINT64_MAX - 1);
  expect_refused(raw(head), "beyond 2^64");
  head = append_head(9, std::vector<uint64_t>(kWireEntriesMax + 1, 1), std::vector<uint32_t>(kWireEntriesMax + 1, 0));
  expect_refused(raw(head), "entries, at most");
}

TEST(Wire, SnapshotsWithAnImpossibleMembershipAreRefused) {
  pb::MessageHead head;
  head.set_from(1);
  head.set_to(2);
  auto* snapshot = head.mutable_install_snapshot();
  auto* voters = snapshot->mutable_membership()->mutable_voters();
  voters->Add()->set_id(5);
  EXPECT_TRUE(read_back(raw(head, "data")).is_ok());
  voters->Add()->set_id(5);
  expect_refused(raw(head), "voters is not sorted");
  voters->Clear();
  voters->Add()->set_id(0);
  expect_refused(raw(head), "voters is not sorted");
  voters->Clear();
  for (uint64_t id = 1; id <= kWireMembersMax + 1; ++id) {
    snapshot->mutable_membership()->mutable_learners()->Add()->set_id(id);
  }
  expect_refused(raw(head), "learners has 1025 members");
  snapshot->clear_membership();
  snapshot->set_offset(UINT64_MAX);
  EXPECT_TRUE(read_back(raw(head)).is_ok());
  expect_refused(raw(head, "x"), "beyond 2^64");
}

}  // namespace
}  // namespace rallypoint::raft
