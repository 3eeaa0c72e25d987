// What the tests of the lessor share: seconds as instants, and rows as they lie in an engine.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "storage/engine/memory_engine.h"
#include "storage/lease/lessor.h"

namespace rallypoint::lease::testing {

/// Tests begin here, so that no time is accidentally the "never" of a fresh value.
inline Instant at(double seconds) { return Instant{static_cast<int64_t>(seconds * 1e6) + 1'000'000'000}; }

constexpr Duration kGrace = Duration::seconds(1);
constexpr Duration kRetry = Duration::seconds(10);

inline std::vector<int64_t> due(Lessor& lessor, Instant now, size_t max = 1000) {
  std::vector<int64_t> ids;
  for (const Lessor::Due& one : lessor.take_due(now, max, kRetry)) ids.push_back(one.id);
  return ids;
}
/// A checkpoint of the lease that has the id now.
inline void note(Lessor& lessor, int64_t id, int64_t remaining_s) { lessor.checkpoint(id, lessor.find(id)->grant, remaining_s); }

inline std::unique_ptr<Lessor> leading(Lessor::Settings settings = {}, Instant now = at(0)) {
  auto lessor = std::make_unique<Lessor>(settings);
  lessor->promote(now, kGrace);
  return lessor;
}
/// Grants and lets its time begin.
inline void grant(Lessor& lessor, int64_t id, int64_t ttl_s, Instant now = at(0)) {
  auto granted = lessor.grant(id, ttl_s);
  ASSERT_TRUE(granted.is_ok()) << granted.status();
  if (!lessor.is_promoted()) return;
  ASSERT_EQ(due(lessor, now), std::vector<int64_t>());
}
inline void write(Lessor& lessor, storage::Engine& engine) {
  storage::WriteBatch batch;
  lessor.collect_changes(batch);
  ASSERT_TRUE(engine.write(batch).is_ok());
}

}  // namespace rallypoint::lease::testing
