#include "kv/snapshot_builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "kv/testing/cache_scene.h"

namespace ashlar::kv {
namespace {

using testing::BytesOfOneOfEach;
using testing::CacheScene;
using testing::First;
using testing::Join;
using testing::LayoutNamed;
using testing::RoomFor;
using testing::Text;
using testing::Tokens;

std::vector<SnapshotEntry> Sorted(Snapshot snapshot) {
  std::ranges::sort(snapshot.entries, [](const SnapshotEntry& a, const SnapshotEntry& b) {
    return std::pair(a.key, a.group) < std::pair(b.key, b.group);
  });
  return std::move(snapshot.entries);
}

void ApplyAll(const KvCache& cache, SnapshotBuilder& builder) {
  std::vector<KvEvent> events;
  ASSERT_FALSE(cache.events().Read(builder.next_event(), 1'000'000, events).has_value());
  for (const KvEvent& event : events) builder.Apply(event);
}

TEST(SnapshotBuilder, OnePartIsTheSnapshot) {
  CacheScene scene(LayoutNamed("full"), RoomFor(32));
  scene.Serve(Text(1, 100));
  SnapshotBuilder builder;
  builder.Add(scene->TakeSnapshotPart(0, 1'000'000));
  EXPECT_TRUE(builder.is_complete());
  Snapshot built = builder.Finish();
  EXPECT_EQ(built.sequence, scene->events().last_sequence());
  EXPECT_EQ(Sorted(std::move(built)), Sorted(scene->TakeSnapshot()));
}

TEST(SnapshotBuilder, IsIncompleteWithoutTheLastPartOrTheEventsUpToIt) {
  CacheScene scene(LayoutNamed("full"), RoomFor(32));
  scene.Serve(Text(1, 100));
  SnapshotBuilder builder;
  builder.Add(scene->TakeSnapshotPart(0, 3));
  EXPECT_EQ(builder.next_node(), 3u);
  EXPECT_FALSE(builder.has_all_parts());
  scene.Serve(Text(2, 40));
  builder.Add(scene->TakeSnapshotPart(3, 1'000'000));
  EXPECT_TRUE(builder.has_all_parts());
  EXPECT_FALSE(builder.is_complete());
  ApplyAll(scene.cache(), builder);
  EXPECT_TRUE(builder.is_complete());
  EXPECT_EQ(Sorted(builder.Finish()), Sorted(scene->TakeSnapshot()));
}

class SnapshotBuilderOver : public ::testing::TestWithParam<std::string> {};

// Blocks come, leave, come back elsewhere, and all are forgotten, between parts and after them.
TEST_P(SnapshotBuilderOver, AnythingThatGoesOnIsExact) {
  const KvLayoutSpec layout = LayoutNamed(GetParam());
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    CacheScene scene(layout,
                     {.memory_bytes = BytesOfOneOfEach(layout) * 24, .max_events = 1u << 16});
    std::uint64_t round = 0;
    const auto live = [&](std::uint64_t texts) {
      for (std::uint64_t i = 0; i < texts; ++i, ++round) {
        scene.Serve(
            Join(First(Text(RandomBits(seed, 1, round) % 3, 90), RandomBits(seed, 2, round) % 80),
                 Text(10 + RandomBits(seed, 3, round) % 5, 1 + RandomBits(seed, 4, round) % 40)));
        if (RandomBits(seed, 5, round) % 60 == 0) scene->ResetAll();
        if (RandomBits(seed, 6, round) % 60 == 0) scene->Invalidate();
      }
    };
    live(30);
    SnapshotBuilder builder;
    while (!builder.has_all_parts()) {
      builder.Add(scene->TakeSnapshotPart(
          builder.next_node(), 1 + static_cast<std::uint32_t>(RandomBits(seed, 7, round) % 40)));
      live(RandomBits(seed, 8, round) % 5);
    }
    ApplyAll(scene.cache(), builder);
    ASSERT_TRUE(builder.is_complete());
    Snapshot built = builder.Finish();
    ASSERT_EQ(built.sequence, scene->events().last_sequence());
    ASSERT_EQ(Sorted(std::move(built)), Sorted(scene->TakeSnapshot())) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, SnapshotBuilderOver,
                         ::testing::Values("full", "window", "hybrid", "encoded"),
                         [](const auto& param_info) { return param_info.param; });

}  // namespace
}  // namespace ashlar::kv
