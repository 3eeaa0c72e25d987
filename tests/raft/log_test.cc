// raft/log.h: the marks, the cuts, and where two logs meet.
#include "raft/log.h"

#include <gtest/gtest.h>

namespace rallypoint::raft {
namespace {

Log with_terms(std::vector<uint64_t> terms, EntryId base = {}) {
  std::vector<Entry> entries;
  for (uint64_t term : terms)
    entries.push_back({Term(term), base.index + entries.size() + 1, EntryKind::kCommand, Bytes()});
  Log log;
  log.restore(base, std::move(entries));
  return log;
}

TEST(Log, KnowsTheTermsOfItsEntriesAndOfItsStart) {
  const Log log = with_terms({3, 4}, {Term(2), Index(10)});
  EXPECT_EQ(log.term_at(Index(9)), std::nullopt);
  EXPECT_EQ(log.term_at(Index(10)), Term(2));
  EXPECT_EQ(log.term_at(Index(12)), Term(4));
  EXPECT_EQ(log.term_at(Index(13)), std::nullopt);
  EXPECT_TRUE(log.matches({Term(3), Index(11)}));
  EXPECT_FALSE(log.matches({Term(4), Index(11)}));
}

TEST(Log, EmptyLogMatchesTheBeginningOfTime) {
  EXPECT_TRUE(Log().matches({}));
  EXPECT_EQ(Log().last_id(), EntryId{});
}

TEST(Log, TruncationTakesBackWhatWasDurableAndWritten) {
  Log log = with_terms({1, 1, 1});
  log.truncate_from(Index(2));
  EXPECT_EQ(log.last_index(), Index(1));
  EXPECT_EQ(log.durable(), Index(1));
  log.append({Term(2), Index(2), EntryKind::kNoop, Bytes()});
  EXPECT_TRUE(log.has_unwritten());
  EXPECT_EQ(log.take_unwritten().size(), 1u);
  EXPECT_FALSE(log.has_unwritten());
}

TEST(Log, OnlyCommittedAndDurableIsDeliverable) {
  Log log = with_terms({1, 1});
  log.append({Term(1), Index(3), EntryKind::kNoop, Bytes()});
  log.commit_to(Index(3));
  EXPECT_EQ(log.deliverable(), Index(2));
  log.durable_to(Index(3));
  EXPECT_EQ(log.deliverable(), Index(3));
}

TEST(Log, CompactionKeepsTheIdOfItsLastEntry) {
  Log log = with_terms({1, 2, 3});
  log.commit_to(Index(3));
  log.compact_to(Index(2));
  EXPECT_EQ(log.base(), (EntryId{Term(2), Index(2)}));
  EXPECT_EQ(log.first_index(), Index(3));
  log.compact_to(Index(1));
  EXPECT_EQ(log.first_index(), Index(3));
}

TEST(Log, ResetForgetsAll) {
  Log log = with_terms({1, 2, 3});
  log.reset({Term(5), Index(9)});
  EXPECT_EQ(log.last_id(), (EntryId{Term(5), Index(9)}));
  EXPECT_EQ(log.commit(), Index(9));
  EXPECT_EQ(log.durable(), Index(9));
}

TEST(Log, HintIsTheLastEntryThatMayAgree) {
  const Log log = with_terms({1, 1, 3, 3, 5});
  EXPECT_EQ(log.last_not_after(Index(5), Term(9)), (EntryId{Term(5), Index(5)}));
  EXPECT_EQ(log.last_not_after(Index(9), Term(4)), (EntryId{Term(3), Index(4)}));
  EXPECT_EQ(log.last_not_after(Index(3), Term(2)), (EntryId{Term(1), Index(2)}));
  EXPECT_EQ(log.last_not_after(Index(4), Term(0)), EntryId{});
}

TEST(Log, CopiesShareTheirPayloads) {
  Log log;
  log.append({Term(1), Index(1), EntryKind::kCommand, Bytes::copy_of("payload")});
  EXPECT_EQ(log.copy(Index(1), Index(1))[0].payload.data(), log.at(Index(1)).payload.data());
  EXPECT_TRUE(log.copy(Index(2), Index(1)).empty());
}

}  // namespace
}  // namespace rallypoint::raft
