#include "storage/v2/v2_history.h"

#include <gtest/gtest.h>

#include "tests/v2/support.h"

namespace rallypoint::v2 {
namespace {

using namespace testing;

Event event(Action action, std::string key, uint64_t index, bool dir = false) {
  Event event;
  event.action = action;
  event.node.key = std::move(key);
  event.node.dir = dir;
  event.node.modified_index = index;
  return event;
}

/// The index of what a watch finds, 0 for nothing, or the cause of the error.
std::string found(const History& history, std::string_view path, bool recursive, uint64_t since) {
  auto result = history.find(path, recursive, since, 9999);
  if (auto* error = std::get_if<Error>(&result)) return std::to_string(error->code) + " " + error->cause;
  auto& event = std::get<EventPtr>(result);
  return std::to_string(event ? event_index(*event) : 0);
}

TEST(EventConcerns, TheKeyItselfAlways) {
  EXPECT_TRUE(event_concerns(event(Action::kSet, "/a", 1), "/a", false));
  EXPECT_TRUE(event_concerns(event(Action::kSet, "/_a", 1), "/_a", false));
}

TEST(EventConcerns, WhatLiesBelowOnlyIfRecursive) {
  EXPECT_FALSE(event_concerns(event(Action::kSet, "/a/b", 1), "/a", false));
  EXPECT_TRUE(event_concerns(event(Action::kSet, "/a/b", 1), "/a", true));
  EXPECT_TRUE(event_concerns(event(Action::kSet, "/a/b", 1), "/", true));
  EXPECT_FALSE(event_concerns(event(Action::kSet, "/ab", 1), "/a", true));
  EXPECT_FALSE(event_concerns(event(Action::kSet, "/a", 1), "/a/b", true));
}

TEST(EventConcerns, NothingHiddenBelowTheWatchedPath) {
  EXPECT_FALSE(event_concerns(event(Action::kSet, "/a/_h/c", 1), "/a", true));
  EXPECT_FALSE(event_concerns(event(Action::kSet, "/_h", 1), "/", true));
  EXPECT_TRUE(event_concerns(event(Action::kSet, "/a/_h/c", 1), "/a/_h", true));
  EXPECT_TRUE(event_concerns(event(Action::kSet, "/a/b_/c", 1), "/a", true));
}

TEST(EventConcerns, TheEndOfADirectoryForAllBelow) {
  for (bool recursive : {false, true}) {
    EXPECT_TRUE(event_concerns(event(Action::kDelete, "/a", 1, true), "/a/b/c", recursive));
    EXPECT_TRUE(event_concerns(event(Action::kExpire, "/a", 1, true), "/a/_b", recursive));
    EXPECT_FALSE(event_concerns(event(Action::kUpdate, "/a", 1, true), "/a/b", recursive));
    EXPECT_FALSE(event_concerns(event(Action::kDelete, "/a", 1, true), "/ab", recursive));
  }
}

TEST(History, FindsTheOldestMatchAtOrAfterTheIndex) {
  History history;
  history.add(std::make_shared<Event>(event(Action::kSet, "/a", 4)));
  history.add(std::make_shared<Event>(event(Action::kSet, "/b", 5)));
  history.add(std::make_shared<Event>(event(Action::kSet, "/a", 8)));
  EXPECT_EQ(found(history, "/a", false, 1), "4");
  EXPECT_EQ(found(history, "/a", false, 5), "8");
  EXPECT_EQ(found(history, "/a", false, 9), "0");
  EXPECT_EQ(found(history, "/", true, 5), "5");
  EXPECT_EQ(found(history, "/c", false, 1), "0");
}

TEST(History, KeepsAThousandEventsAndSaysWhatIsGone) {
  Tree tree;
  for (int i = 0; i < 1100; ++i) ok(tree.apply(put("/a", "x"), at(1)));
  const History& history = tree.history();
  EXPECT_EQ(history.events().size(), 1000u);
  EXPECT_EQ(tree.index(), 1103u);
  EXPECT_EQ(found(history, "/a", false, 104), "104");
  EXPECT_EQ(found(history, "/a", false, 103), "401 the requested history has been cleared [104/103]");
  // It is the asked index that counts, not whether the key had an event there.
  EXPECT_EQ(found(history, "/nothing", false, 103), "401 the requested history has been cleared [104/103]");
}

TEST(History, ARefreshTakesNoPlace) {
  Tree tree;
  ok(tree.apply(put("/a", "x"), at(1)));
  for (int i = 0; i < 1500; ++i) ok(tree.apply(with_prev_exist(as_refresh(put("/a", "", 100)), true), at(1)));
  EXPECT_EQ(found(tree.history(), "/a", false, 1), "4");
}

}  // namespace
}  // namespace rallypoint::v2
