#include "kv/tree_summary.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
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

constexpr std::uint64_t kBlockBytes = 512;  // of LayoutNamed("full"), 16 tokens

TEST(TreeSummary, AnEmptyCacheHasNothing) {
  CacheScene scene(LayoutNamed("full"), RoomFor(8));
  const TreeSummary summary = SummarizeTree(scene.cache(), 10);
  EXPECT_EQ(summary.nodes, 0u);
  EXPECT_EQ(summary.bytes, 0u);
  EXPECT_TRUE(summary.runs.empty());
}

// 48 common tokens, then two ways of 32 and of 20 tokens (16 and a tail of 4).
TEST(TreeSummary, TextsWithACommonBeginningAreThreeRuns) {
  CacheScene scene(LayoutNamed("full"), RoomFor(32));
  const Tokens common = Text(1, 48);
  scene.Serve(Join(common, Text(2, 32)));
  scene.Serve(Join(common, Text(3, 20)));
  const TreeSummary summary = SummarizeTree(scene.cache(), 10);
  EXPECT_EQ(summary.roots, 1u);
  EXPECT_EQ(summary.nodes, 7u);
  EXPECT_EQ(summary.tails, 1u);
  EXPECT_EQ(summary.leaves, 2u);
  EXPECT_EQ(summary.bytes, 7 * kBlockBytes);
  EXPECT_EQ(summary.by_depth[0], 1u);  // 1 block
  EXPECT_EQ(summary.by_depth[1], 2u);  // 2, 3
  EXPECT_EQ(summary.by_depth[2], 4u);  // 4, 5 on two ways
  ASSERT_EQ(summary.total_runs, 3u);
  ASSERT_EQ(summary.runs.size(), 3u);

  EXPECT_EQ(summary.runs[0].parent, PrefixRun::kNoParent);
  EXPECT_EQ(summary.runs[0].position, 0u);
  EXPECT_EQ(summary.runs[0].tokens, 48u);
  EXPECT_EQ(summary.runs[0].children, 2u);
  EXPECT_EQ(summary.runs[0].bytes, 3 * kBlockBytes);
  EXPECT_EQ(summary.runs[0].subtree_bytes, 7 * kBlockBytes);
  std::uint64_t tokens = 0;
  for (const std::size_t i : {1u, 2u}) {
    EXPECT_EQ(summary.runs[i].parent, 0u);
    EXPECT_EQ(summary.runs[i].position, 48u);
    EXPECT_EQ(summary.runs[i].children, 0u);
    EXPECT_EQ(summary.runs[i].subtree_bytes, 2 * kBlockBytes);
    EXPECT_TRUE(summary.runs[i].key.has_value());
    tokens += summary.runs[i].tokens;
  }
  EXPECT_EQ(tokens, 52u);
  EXPECT_EQ(SummarizeTree(scene.cache(), 1).runs.size(), 1u);
  EXPECT_EQ(SummarizeTree(scene.cache(), 0).total_runs, 3u);
}

TEST(TreeSummary, WhatSequencesHoldIsLive) {
  CacheScene scene(LayoutNamed("full"), RoomFor(32));
  const Tokens text = Text(1, 64);
  scene.Serve(text);
  EXPECT_EQ(SummarizeTree(scene.cache(), 10).runs.at(0).live_bytes, 0u);
  const Sequence sequence = scene.Start(Join(First(text, 32), Text(2, 8)));
  const TreeSummary summary = SummarizeTree(scene.cache(), 10);
  EXPECT_EQ(summary.runs.at(0).live_bytes, 2 * kBlockBytes);
  // What it promised to compute hangs there already, without bytes.
  EXPECT_EQ(summary.bytes, 4 * kBlockBytes);
}

TEST(TreeSummary, WhatCannotBeFoundIsCountedApart) {
  CacheScene scene(LayoutNamed("full"), RoomFor(32));
  scene.Serve(Text(1, 48));
  scene->Invalidate();
  scene.Serve(Text(2, 16));
  const TreeSummary summary = SummarizeTree(scene.cache(), 10);
  EXPECT_EQ(summary.stale_nodes, 3u);
  EXPECT_EQ(summary.nodes, 1u);
  EXPECT_EQ(summary.bytes, kBlockBytes);
}

// In any tree the top runs' subtrees are all bytes there are, each run's is its own and its
// children's, and parents come first.
TEST(TreeSummary, SubtreesAddUp) {
  const KvLayoutSpec layout = LayoutNamed("hybrid");
  CacheScene scene(layout, {.memory_bytes = BytesOfOneOfEach(layout) * 200});
  for (std::uint64_t round = 0; round < 200; ++round) {
    const std::uint64_t family = RandomBits(7, 0, round) % 5;
    const std::uint64_t common = 16 * (1 + RandomBits(7, 1, round) % 6);
    scene.Serve(Join(Text(family, common), Text(10 + RandomBits(7, 2, round) % 9, 1 + round % 40)));
    if (round % 20 != 0) continue;
    const TreeSummary summary = SummarizeTree(scene.cache(), 1'000);
    ASSERT_EQ(summary.runs.size(), summary.total_runs);
    std::uint64_t top = 0;
    std::vector<std::uint64_t> below(summary.runs.size());
    std::vector<std::uint32_t> children(summary.runs.size());
    for (std::uint32_t i = 0; i < summary.runs.size(); ++i) {
      const PrefixRun& run = summary.runs[i];
      if (run.parent == PrefixRun::kNoParent) {
        top += run.subtree_bytes;
        ASSERT_EQ(run.position, 0u);
      } else {
        ASSERT_LT(run.parent, i);
        below[run.parent] += run.subtree_bytes;
        ++children[run.parent];
        ASSERT_EQ(run.position,
                  summary.runs[run.parent].position + summary.runs[run.parent].tokens);
      }
    }
    ASSERT_EQ(top, summary.bytes);
    ASSERT_EQ(summary.bytes, scene->idle_bytes());
    for (std::size_t i = 0; i < summary.runs.size(); ++i) {
      ASSERT_EQ(summary.runs[i].subtree_bytes, summary.runs[i].bytes + below[i]);
      ASSERT_EQ(summary.runs[i].children, children[i]);
    }
    ASSERT_EQ(std::accumulate(summary.by_depth.begin(), summary.by_depth.end(), std::uint64_t{0}),
              summary.nodes);
  }
}

}  // namespace
}  // namespace ashlar::kv
