#include "server/state/state_machine.h"

#include "raft/base/random.h"
#include "tests/state/support.h"

namespace rallypoint::server {
namespace {

const NodeId kA(1), kB(2);

TEST(StateMachine, AppliesACommandOnceThoughItStandsInTwoEntries) {
  auto machine = open_machine(std::make_shared<storage::MemoryEngine>());
  Effects effects;
  ASSERT_TRUE(machine->apply(entry_at(1, {registration(kA, 9)}), effects).is_ok());
  v2::WriteRequest post = put_request("/queue", "x");
  post.method = v2::WriteRequest::Method::kPost;
  const Bytes command = write_command(kA, 1, 1, post);
  ASSERT_TRUE(machine->apply(entry_at(2, {command}), effects).is_ok());
  ASSERT_TRUE(machine->apply(entry_at(3, {command}), effects).is_ok());
  ASSERT_EQ(effects.answers.size(), 1u);
  EXPECT_EQ(effects.answers[0].sequence, 1u);
  const auto listing = machine->tree().read({"/queue", true, true}, {});
  EXPECT_EQ(std::get<v2::EventPtr>(listing)->node.nodes.size(), 1u);
}

TEST(StateMachine, RegistrationTellsNameAndUrls) {
  auto machine = open_machine(std::make_shared<storage::MemoryEngine>());
  Effects effects;
  ASSERT_TRUE(machine->apply(entry_at(1, {registration(kA, 9, "alpha")}), effects).is_ok());
  EXPECT_TRUE(effects.members_changed);
  EXPECT_EQ(machine->attributes().at(kA).client_urls, std::vector<std::string>{"http://alpha:2379"});
  EXPECT_EQ(machine->sessions().incarnation_of(kA, 9), 1u);
}

TEST(StateMachine, ExpiresByTheEntrysTimeBeforeItsCommands) {
  auto machine = open_machine(std::make_shared<storage::MemoryEngine>());
  Effects effects;
  ASSERT_TRUE(machine->apply(entry_at(1, {registration(kA, 9), }, 1'000'000), effects).is_ok());
  ASSERT_TRUE(machine->apply(entry_at(2, {write_command(kA, 1, 1, put_request("/k", "old", 5))}, 1'000'000), effects).is_ok());
  EXPECT_EQ(value_of(*machine, "/k"), "old");
  v2::WriteRequest create = put_request("/k", "new");
  create.prev_exist = false;
  ASSERT_TRUE(machine->apply(entry_at(3, {write_command(kA, 1, 2, create)}, 6'000'000), effects).is_ok());
  EXPECT_EQ(value_of(*machine, "/k"), "new");
  ASSERT_EQ(effects.events.size(), 3u);
  EXPECT_EQ(effects.events[1]->action, v2::Action::kExpire);
}

TEST(StateMachine, ClusterTimeNeverRunsBackwards) {
  auto machine = open_machine(std::make_shared<storage::MemoryEngine>());
  Effects effects;
  ASSERT_TRUE(machine->apply(entry_at(1, {}, 500), effects).is_ok());
  ASSERT_TRUE(machine->apply(entry_at(2, {}, 100), effects).is_ok());
  EXPECT_EQ(machine->cluster_time().us, 500);
}

TEST(StateMachine, ACommandNobodyUnderstandsIsSkipped) {
  auto machine = open_machine(std::make_shared<storage::MemoryEngine>());
  Effects effects;
  ASSERT_TRUE(machine->apply(entry_at(1, {registration(kA, 9), Bytes(std::string("\xff\xff garbage")), Bytes(std::string())}), effects).is_ok());
  pb::V2Write bad_path;
  bad_path.set_path("no slash");
  EXPECT_FALSE(from_proto(bad_path).has_value());
  EXPECT_EQ(machine->applied().index, Index(1));
}

TEST(StateMachine, AMalformedEntryIsDataLoss) {
  auto machine = open_machine(std::make_shared<storage::MemoryEngine>());
  Effects effects;
  const raft::Entry cut{Term(1), Index(1), raft::EntryKind::kCommand, Bytes(std::string("\x01short"))};
  EXPECT_EQ(machine->apply(cut, effects).code(), Code::kDataLoss);
  std::string foreign = entry_at(1, {}).payload.to_string();
  foreign[0] = 9;
  EXPECT_EQ(machine->apply({Term(1), Index(1), raft::EntryKind::kCommand, Bytes(std::move(foreign))}, effects).code(), Code::kDataLoss);
}

TEST(StateMachine, AFailedEngineWriteIsTold) {
  auto engine = std::make_shared<storage::MemoryEngine>();
  auto machine = open_machine(engine);
  Effects effects;
  ASSERT_TRUE(machine->apply(entry_at(1, {registration(kA, 9)}), effects).is_ok());
  engine->fail_writes(Status::resource_exhausted("full"));
  EXPECT_EQ(machine->write_batch().code(), Code::kResourceExhausted);
}

/// The same log, cut into batches at random, with crashes that fall back to a flush and replay: one digest.
TEST(StateMachine, SameLogSameDigestWhateverTheBatchesAndCrashes) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<raft::Entry> log = {entry_at(1, {registration(kA, 1, "a"), registration(kB, 2, "b")})};
    uint64_t sequence[2] = {0, 0};
    for (uint64_t index = 2; index <= 200; ++index) {
      std::vector<Bytes> commands;
      for (uint64_t n = random.below(4); n > 0; --n) {
        const uint64_t who = random.below(2);
        const auto ttl = random.chance(1, 4) ? std::optional<int64_t>(random.between(0, 3)) : std::nullopt;
        // Sometimes the last sequence again: proposed twice.
        if (sequence[who] == 0 || !random.chance(1, 5)) ++sequence[who];
        commands.push_back(write_command(NodeId(who + 1), 1, sequence[who],
                                         put_request("/k" + std::to_string(random.below(20)), std::to_string(index), ttl)));
      }
      log.push_back(entry_at(index, commands, static_cast<int64_t>(index) * 100'000));
    }
    auto reference = open_machine(std::make_shared<storage::MemoryEngine>());
    Effects ignored;
    for (const raft::Entry& entry : log) ASSERT_TRUE(reference->apply(entry, ignored).is_ok());

    auto engine = std::make_shared<storage::MemoryEngine>(seed);
    auto machine = open_machine(engine);
    while (machine->applied().index < Index(200)) {
      const uint64_t until = std::min<uint64_t>(200, machine->applied().index.value() + random.between(1, 15));
      for (uint64_t i = machine->applied().index.value(); i < until; ++i) ASSERT_TRUE(machine->apply(log[i], ignored).is_ok());
      ASSERT_TRUE(machine->write_batch().is_ok());
      if (random.chance(1, 6)) {
        const auto persisted = machine->persisted_index();
        ASSERT_TRUE(persisted.is_ok());
        engine->crash();
        machine = open_machine(engine);
        ASSERT_EQ(machine->applied().index, *persisted);
      }
    }
    EXPECT_EQ(machine->digest(), reference->digest());
  }
}

TEST(Entry, CommandsComeBackAsTheyWere) {
  const std::vector<Bytes> commands = {Bytes(std::string("one")), Bytes(std::string()), Bytes(std::string(100000, 'x'))};
  const Bytes payload = encode_entry({Instant{-5}, 7}, commands);  // the commands are views into it
  const auto decoded = decode_entry(payload);
  ASSERT_TRUE(decoded.is_ok());
  EXPECT_EQ(decoded->time.cluster_time.us, -5);
  EXPECT_EQ(decoded->time.wall_unix_ns, 7);
  ASSERT_EQ(decoded->commands.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(decoded->commands[i], commands[i].view());
  const auto forwarded = decode_commands(encode_commands(commands));
  ASSERT_TRUE(forwarded.is_ok());
  EXPECT_EQ(*forwarded, commands);
}

TEST(Entry, ForwardedCommandsThatDoNotAddUpAreRefused) {
  const std::string good = encode_commands({Bytes(std::string("one")), Bytes(std::string("two"))}).to_string();
  for (size_t size = 0; size < good.size(); ++size) {
    const auto decoded = decode_commands(Bytes(good.substr(0, size)));
    if (size == 0 || size == 7) EXPECT_TRUE(decoded.is_ok()) << size;
    else EXPECT_EQ(decoded.status().code(), Code::kInvalidArgument) << size;
  }
}

}  // namespace
}  // namespace rallypoint::server
