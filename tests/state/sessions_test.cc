#include "server/state/sessions.h"

#include <map>
#include <set>

#include "raft/base/random.h"
#include "storage/engine/memory_engine.h"

namespace rallypoint::server {
namespace {

using Verdict = Sessions::Verdict;
const NodeId kNode(7);

TEST(Sessions, ACommandProposedTwiceIsAppliedOnce) {
  Sessions sessions;
  const uint64_t incarnation = sessions.register_node(kNode, 99, Index(5));
  EXPECT_EQ(incarnation, 5u);
  EXPECT_EQ(sessions.admit(kNode, 5, 1, 1), Verdict::kApply);
  EXPECT_EQ(sessions.admit(kNode, 5, 1, 1), Verdict::kDuplicate);
  EXPECT_TRUE(sessions.was_applied(kNode, 5, 1));
  EXPECT_FALSE(sessions.was_applied(kNode, 5, 2));
}

TEST(Sessions, TheSameRegistrationTwiceCountsOnce) {
  Sessions sessions;
  EXPECT_EQ(sessions.register_node(kNode, 99, Index(5)), 5u);
  EXPECT_EQ(sessions.admit(kNode, 5, 1, 1), Verdict::kApply);
  EXPECT_EQ(sessions.register_node(kNode, 99, Index(8)), 5u);
  EXPECT_EQ(sessions.admit(kNode, 5, 1, 1), Verdict::kDuplicate);
  EXPECT_EQ(sessions.incarnation_of(kNode, 99), 5u);
  EXPECT_EQ(sessions.incarnation_of(kNode, 98), 0u);
}

TEST(Sessions, ANewIncarnationVoidsTheOlderOne) {
  Sessions sessions;
  sessions.register_node(kNode, 1, Index(5));
  sessions.register_node(kNode, 2, Index(9));
  EXPECT_EQ(sessions.admit(kNode, 5, 1, 1), Verdict::kVoid);
  EXPECT_EQ(sessions.admit(kNode, 9, 1, 1), Verdict::kApply);
}

TEST(Sessions, BelowTheLowWaterACommandIsVoid) {
  Sessions sessions;
  sessions.register_node(kNode, 1, Index(5));
  EXPECT_EQ(sessions.admit(kNode, 5, 10, 8), Verdict::kApply);
  EXPECT_EQ(sessions.admit(kNode, 5, 7, 1), Verdict::kVoid);
  EXPECT_EQ(sessions.admit(kNode, 5, 8, 1), Verdict::kApply);
}

TEST(Sessions, UnknownNodesAreVoid) {
  Sessions sessions;
  EXPECT_EQ(sessions.admit(NodeId(3), 5, 1, 1), Verdict::kVoid);
}

/// Random proposals and repeats against a plain set, with restarts from the rows in between.
TEST(Sessions, AgreeWithAPlainSetOverRestarts) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    storage::MemoryEngine engine;
    Sessions sessions;
    sessions.register_node(kNode, 1, Index(1));
    std::set<uint64_t> applied;
    uint64_t low_water = 1;
    for (int step = 0; step < 500; ++step) {
      const uint64_t sequence = random.between(low_water > 5 ? low_water - 5 : 1, low_water + 20);
      const Verdict expected = sequence < low_water           ? Verdict::kVoid
                               : applied.contains(sequence) ? Verdict::kDuplicate
                                                            : Verdict::kApply;
      const uint64_t mark = random.chance(1, 4) && sequence > low_water ? random.between(low_water, sequence) : low_water;
      ASSERT_EQ(sessions.admit(kNode, 1, sequence, mark), expected) << "sequence " << sequence << " low " << low_water;
      if (expected == Verdict::kApply) {
        applied.insert(sequence);
        low_water = mark;
      }
      if (random.chance(1, 20)) {
        storage::WriteBatch batch;
        sessions.collect_changes(batch);
        ASSERT_TRUE(engine.write(batch).is_ok());
        Sessions loaded;
        ASSERT_TRUE(loaded.load(engine).is_ok());
        ASSERT_EQ(loaded.digest(), sessions.digest());
        sessions = std::move(loaded);
      }
    }
  }
}

}  // namespace
}  // namespace rallypoint::server
