#include "storage/v2/v2_watchers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <optional>

#include "raft/base/random.h"
#include "tests/v2/support.h"

namespace rallypoint::v2 {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class V2Watchers : public ::testing::Test {
 protected:
  /// Applies a write and returns "token:action key" for each delivery, with '.' behind a last one.
  std::vector<std::string> run(const WriteRequest& request) {
    std::vector<WatcherHub::Delivery> out;
    hub.match(std::make_shared<Event>(ok(tree.apply(request, at(1)))), out);
    return show_all(out);
  }
  static std::vector<std::string> show_all(const std::vector<WatcherHub::Delivery>& out) {
    std::vector<std::string> lines;
    for (const auto& delivery : out) {
      lines.push_back(std::to_string(delivery.token) + ":" + action_name(delivery.event->action) + " " +
                      delivery.event->node.key + (delivery.last ? "." : ""));
    }
    return lines;
  }
  WatcherHub::Started watch(WatcherHub::Token token, std::string path, bool recursive = false, bool stream = false,
                            uint64_t wait_index = 0) {
    auto started = hub.add(token, {std::move(path), recursive, stream, wait_index}, tree.history(), tree.index());
    if (auto* error = std::get_if<Error>(&started)) {
      ADD_FAILURE() << error->code << error->cause;
      return {};
    }
    return std::get<WatcherHub::Started>(started);
  }

  Tree tree;
  WatcherHub hub;
};

TEST_F(V2Watchers, ALongPollGetsOneEventAndIsGone) {
  EXPECT_TRUE(watch(1, "/a").registered);
  EXPECT_THAT(run(put("/b")), IsEmpty());
  EXPECT_THAT(run(put("/a")), ElementsAre("1:set /a."));
  EXPECT_EQ(hub.size(), 0u);
  EXPECT_THAT(run(put("/a")), IsEmpty());
}

TEST_F(V2Watchers, AStreamGetsEveryEvent) {
  watch(1, "/a", true, true);
  EXPECT_THAT(run(put("/a/b")), ElementsAre("1:set /a/b"));
  EXPECT_THAT(run(erase("/a/b")), ElementsAre("1:delete /a/b"));
  EXPECT_EQ(hub.size(), 1u);
}

TEST_F(V2Watchers, RecursiveSeesBelowAndTheOtherDoesNot) {
  watch(1, "/d");
  watch(2, "/d", true);
  watch(3, "/", true);
  watch(4, "/d/x/y");
  EXPECT_THAT(run(put("/d/x/y")), ElementsAre("2:set /d/x/y.", "3:set /d/x/y.", "4:set /d/x/y."));
  EXPECT_THAT(run(erase("/d", false, true)), ElementsAre("1:delete /d."));
}

TEST_F(V2Watchers, DeleteAndExpiryOfADirectoryWakeEverybodyBelowButNoSibling) {
  run(put("/d/a"));
  watch(1, "/d/a");
  watch(2, "/d/b/c");
  watch(3, "/d0");
  watch(4, "/d-");
  EXPECT_THAT(run(erase("/d", false, true)), ElementsAre("1:delete /d.", "2:delete /d."));
  run(make_dir("/d", 0));
  watch(5, "/d/x", false, true);
  std::vector<WatcherHub::Delivery> out;
  for (const EventPtr& event : tree.expire(at(1))) hub.match(event, out);
  EXPECT_THAT(show_all(out), ElementsAre("5:expire /d"));
}

TEST_F(V2Watchers, HiddenKeysAreForThoseWhoNameThem) {
  watch(1, "/", true, true);
  watch(2, "/d", true, true);
  watch(3, "/d/_h", true, true);
  watch(4, "/d/_h/x", false, true);
  EXPECT_THAT(run(put("/d/_h/x")), ElementsAre("3:set /d/_h/x", "4:set /d/_h/x"));
}

TEST_F(V2Watchers, ARefreshWakesNobody) {
  run(put("/a", "1", 100));
  watch(1, "/a");
  EXPECT_THAT(run(with_prev_exist(as_refresh(put("/a", "", 100)), true)), IsEmpty());
}

TEST_F(V2Watchers, APastWaitIndexIsAnsweredFromHistory) {
  run(put("/a", "1"));
  run(put("/b", "1"));
  run(put("/a", "2"));
  WatcherHub::Started poll = watch(1, "/a", false, false, 1);
  EXPECT_FALSE(poll.registered);
  ASSERT_EQ(poll.events.size(), 1u);
  EXPECT_EQ(event_index(*poll.events[0]), 4u);
  EXPECT_EQ(hub.size(), 0u);

  WatcherHub::Started stream = watch(2, "/a", false, true, 1);
  EXPECT_TRUE(stream.registered);
  EXPECT_EQ(stream.events.size(), 2u);
  EXPECT_THAT(run(put("/a", "3")), ElementsAre("2:set /a"));
}

TEST_F(V2Watchers, AFutureWaitIndexSkipsWhatComesBefore) {
  watch(1, "/a", false, false, 6);
  EXPECT_THAT(run(put("/a")), IsEmpty());
  EXPECT_THAT(run(put("/a")), IsEmpty());
  EXPECT_THAT(run(put("/a")), ElementsAre("1:set /a."));
}

TEST_F(V2Watchers, AWaitIndexBeforeTheHistoryIsAnError) {
  for (int i = 0; i < 1001; ++i) run(put("/a"));
  auto started = hub.add(1, {"/a", false, false, 4}, tree.history(), tree.index());
  ASSERT_TRUE(std::holds_alternative<Error>(started));
  EXPECT_EQ(std::get<Error>(started).code, 401);
  EXPECT_EQ(std::get<Error>(started).index, 1004u);
  EXPECT_EQ(hub.size(), 0u);
}

TEST_F(V2Watchers, CancelForgetsOneAndToleratesUnknownTokens) {
  watch(1, "/a");
  watch(2, "/a");
  hub.cancel(1);
  hub.cancel(7);
  EXPECT_THAT(run(put("/a")), ElementsAre("2:set /a."));
  hub.cancel(2);
}

TEST_F(V2Watchers, RecoveryEndsAll) {
  watch(2, "/a");
  watch(1, "/b", true, true);
  EXPECT_THAT(hub.end_all(), ElementsAre(1, 2));
  EXPECT_EQ(hub.size(), 0u);
  EXPECT_THAT(run(put("/a")), IsEmpty());
  EXPECT_EQ(WatcherHub::cleared_by_recovery(5).code, 400);
}

/// The slow twin: every watch looks at every event.
struct SlowWatch {
  WatcherHub::Token token;
  WatchRequest request;
  uint64_t since;
};

bool slow_concerns(const Event& event, const WatchRequest& watch) {
  auto components = [](const std::string& path) {
    std::vector<std::string> parts;
    for (size_t i = 1; i < path.size();) {
      size_t end = std::min(path.find('/', i), path.size());
      parts.push_back(path.substr(i, end - i));
      i = end + 1;
    }
    return parts;
  };
  const auto key = components(event.node.key);
  const auto watched = components(watch.path);
  for (size_t i = 0; i < std::min(key.size(), watched.size()); ++i) {
    if (key[i] != watched[i]) return false;
  }
  if (key.size() < watched.size()) {
    return event.node.dir && (event.action == Action::kDelete || event.action == Action::kExpire);
  }
  for (size_t i = watched.size(); i < key.size(); ++i) {
    if (!watch.recursive || key[i][0] == '_') return false;
  }
  return true;
}

TEST(V2WatchersModel, AgreesWithALinearScanOverAllWatchesAndEvents) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Tree tree;
    WatcherHub hub;
    std::vector<SlowWatch> slow;
    std::vector<EventPtr> all;
    WatcherHub::Token next_token = 1;
    auto some_path = [&] {
      std::string path;
      static constexpr const char* kNames[] = {"a", "b", "a0", "_h"};
      for (uint64_t n = random.between(1, 3); n > 0; --n) path += std::string("/") + kNames[random.below(4)];
      return path;
    };
    auto deliver = [&](const EventPtr& event) {
      std::vector<WatcherHub::Delivery> got;
      hub.match(event, got);
      if (!event->refresh) all.push_back(event);
      size_t next = 0;
      for (size_t i = 0; i < slow.size() && !event->refresh;) {
        if (event_index(*event) < slow[i].since || !slow_concerns(*event, slow[i].request)) {
          ++i;
          continue;
        }
        ASSERT_LT(next, got.size()) << "token " << slow[i].token << " was not served " << show(*event);
        ASSERT_EQ(got[next].token, slow[i].token) << show(*event);
        ASSERT_EQ(got[next++].last, !slow[i].request.stream);
        if (slow[i].request.stream) {
          ++i;
        } else {
          slow.erase(slow.begin() + static_cast<ptrdiff_t>(i));
        }
      }
      ASSERT_EQ(next, got.size()) << show(*event);
      ASSERT_EQ(hub.size(), slow.size());
    };
    for (int step = 0; step < 5000; ++step) {
      const Clock now = at(step);
      switch (random.below(8)) {
        case 0: {
          WatchRequest request{random.chance(1, 8) ? "/" : some_path(), random.chance(1, 2), random.chance(1, 8), 0};
          if (random.chance(1, 2)) {
            // Near now, or anywhere in the past.
            request.wait_index = random.chance(1, 2) ? tree.index() + random.below(6) : random.below(tree.index());
          }
          const WatcherHub::Token token = next_token++;
          auto started = hub.add(token, request, tree.history(), tree.index());
          std::vector<EventPtr> past;
          const uint64_t since = request.wait_index ? request.wait_index : tree.index() + 1;
          for (const EventPtr& event : all) {
            if (event_index(*event) >= since && slow_concerns(*event, request)) past.push_back(event);
          }
          const bool gone = all.size() > 1000 && since <= event_index(*all[all.size() - 1001]);
          ASSERT_EQ(std::holds_alternative<Error>(started), gone) << "since " << since;
          if (gone) break;
          if (!request.stream && past.size() > 1) past.resize(1);
          ASSERT_EQ(std::get<WatcherHub::Started>(started).events, past);
          const bool stays = request.stream || past.empty();
          ASSERT_EQ(std::get<WatcherHub::Started>(started).registered, stays);
          if (stays) slow.push_back({token, request, since});
          break;
        }
        case 1:
          if (random.chance(1, 4) && !slow.empty()) {
            const size_t victim = random.below(slow.size());
            hub.cancel(slow[victim].token);
            slow.erase(slow.begin() + static_cast<ptrdiff_t>(victim));
          }
          break;
        default: {
          WriteRequest request = put(some_path(), "v");
          if (random.chance(1, 4)) request = erase(some_path(), true, random.chance(1, 2));
          if (random.chance(1, 8)) request = make_dir(some_path());
          if (random.chance(1, 6)) request.ttl_s = static_cast<int64_t>(random.below(20));
          if (random.chance(1, 8)) request = with_prev_exist(as_refresh(put(some_path(), "", 10)), true);
          for (const EventPtr& event : tree.expire(now)) ASSERT_NO_FATAL_FAILURE(deliver(event));
          const Outcome outcome = tree.apply(request, now);
          if (auto* event = std::get_if<EventPtr>(&outcome)) {
            ASSERT_NO_FATAL_FAILURE(deliver(*event));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace rallypoint::v2
