// Events: a reader that applies them knows what a snapshot says.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

#include "ashlar/kv_cache.h"
#include "embed/testing/small_cache.h"

namespace ashlar::cache {
namespace {

using testing::HybridLayout;
using testing::MakeCache;
using testing::MakeSmallCache;
using testing::Numbers;
using testing::Remember;
using testing::SmallLayout;
using testing::TestScope;

using Known = std::map<std::pair<BlockKey, std::uint32_t>, std::vector<TokenId>>;

// A router's copy of what the cache holds.
struct Reader {
  Known known;
  std::uint64_t next = 1;

  void CatchUp(const Cache& cache) {
    for (;;) {
      const EventBatch batch = *cache.ReadEvents(next, 7);
      if (batch.gap_until) {
        Restart(*cache.TakeSnapshot());
        continue;
      }
      if (batch.events.empty()) return;
      for (const Event& event : batch.events) Apply(event);
    }
  }
  void Restart(const Snapshot& snapshot) {
    known = KnownOf(snapshot);
    next = snapshot.sequence + 1;
  }
  void Apply(const Event& event) {
    EXPECT_EQ(event.sequence, next++);
    if (event.kind == EventKind::kCleared) known.clear();
    if (event.kind == EventKind::kRemoved) {
      EXPECT_EQ(known.erase({event.key, event.group}), 1u);
    }
    if (event.kind == EventKind::kStored) {
      EXPECT_TRUE(known.emplace(std::pair(event.key, event.group), event.tokens).second);
    }
  }
  static Known KnownOf(const Snapshot& snapshot) {
    Known known;
    for (const SnapshotEntry& entry : snapshot.entries) {
      known[{entry.key, entry.group}] = entry.tokens;
    }
    return known;
  }
};

TEST(EventsTest, StoredBlocksCarryTheirTokensAndFormAChain) {
  Cache cache = MakeCache(SmallLayout(), {.memory_bytes = 1 << 16, .max_events = 100});
  Remember(cache, Numbers(1, 40));
  const EventBatch batch = *cache.ReadEvents(1, 100);
  ASSERT_EQ(batch.events.size(), 3u);
  EXPECT_EQ(batch.events[0].tokens, Numbers(1, 16));
  EXPECT_EQ(batch.events[1].tokens, Numbers(17, 16));
  EXPECT_EQ(batch.events[1].parent, batch.events[0].key);
  EXPECT_EQ(batch.events[2].tokens, Numbers(33, 8));  // the rest, kept as well
}

TEST(EventsTest, WhatIsGoneIsAGapAndASnapshotGoesOn) {
  Cache cache = MakeCache(SmallLayout(), {.memory_bytes = 1 << 16, .max_events = 4});
  Remember(cache, Numbers(1, 160));
  const EventBatch old = *cache.ReadEvents(1, 100);
  EXPECT_EQ(old.gap_until, 7u);
  EXPECT_TRUE(old.events.empty());
  EXPECT_EQ(cache.ReadEvents(0, 100)->gap_until, 7u);
  EXPECT_EQ(cache.ReadEvents(~0ull, ~0ull)->gap_until, 7u);
  EXPECT_EQ(cache.ReadEvents(7, ~0ull)->events.size(), 4u);
  const EventBatch none = *cache.ReadEvents(11, 100);
  EXPECT_FALSE(none.gap_until);
  EXPECT_TRUE(none.events.empty());
  EXPECT_EQ(cache.TakeSnapshot()->sequence, 10u);
  EXPECT_EQ(cache.TakeSnapshot()->entries.size(), 10u);
}

TEST(EventsTest, WithoutEventsBothCallsSaySo) {
  const Cache cache = MakeSmallCache();
  EXPECT_EQ(cache.ReadEvents(1, 1).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(cache.TakeSnapshot().error().code, ErrorCode::kUnsupported);
}

TEST(EventsTest, AReaderKnowsWhatTheCacheHoldsWhateverHappens) {
  Cache cache = MakeCache(HybridLayout(), {.memory_bytes = 24 * 1024, .max_events = 32});
  std::mt19937 random(7);
  Reader reader;
  for (int step = 0; step < 400; ++step) {
    const std::uint32_t what = random() % 100;
    if (what == 0) {
      cache.Invalidate();
    } else if (what == 1) {
      cache.ResetAll();
    } else {
      std::vector<TokenId> prompt = Numbers(static_cast<TokenId>(random() % 4), 16);
      while (prompt.size() < 16 + random() % 120) prompt.push_back(random() % 2);
      Remember(cache, prompt);
    }
    if (random() % 3 != 0) continue;
    reader.CatchUp(cache);
    ASSERT_EQ(reader.known, Reader::KnownOf(*cache.TakeSnapshot())) << "step " << step;
  }
  EXPECT_GT(cache.counters().replaced_blocks, 0u);
}

}  // namespace
}  // namespace ashlar::cache
