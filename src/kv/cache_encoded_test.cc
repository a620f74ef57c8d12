// Encoded groups: what is open and what is sealed, hits of whole blocks, going back into a block,
// and the memory of open blocks.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kv/testing/cache_scene.h"
#include "kv/testing/marks.h"

namespace ashlar::kv {
namespace {

using testing::BytesOfOneOfEach;
using testing::CacheScene;
using testing::First;
using testing::Join;
using testing::LayoutNamed;
using testing::Text;
using testing::Tokens;

constexpr std::uint64_t kAmple = 1u << 20;

std::uint64_t BytesOfOpenBlocks(CacheScene& scene) {
  std::uint64_t bytes = 0;
  for (const MemoryRow& row : scene->Account().rows) bytes += row.is_open_blocks ? row.bytes : 0;
  return bytes;
}

// --- Hits ---

TEST(CacheEncoded, AFullHitComputesTheLastBlockAgainAndOneTokenWhereAllIsRaw) {
  for (const std::string layout : {"full", "encoded", "codecs"}) {
    for (std::uint64_t n = 1; n <= 70; ++n) {
      CacheScene scene(LayoutNamed(layout), {.memory_bytes = kAmple});
      scene.Serve(Text(1, n));
      const std::uint64_t hit = layout == "full" ? n - 1 : (n - 1) / 16 * 16;
      ASSERT_EQ(scene.Probe(Text(1, n)).hit_tokens, hit) << layout << ", " << n;
      ASSERT_EQ(scene.Serve(Text(1, n)), hit) << layout << ", " << n;
    }
  }
}

TEST(CacheEncoded, AHitOfPartOfABlockIsBelowTheGranularity) {
  for (const std::string layout : {"encoded", "codecs"}) {
    CacheScene scene(LayoutNamed(layout), {.memory_bytes = kAmple});
    scene.Serve(Text(1, 64));
    const Tokens prompt = Join(Text(1, 40), Text(2, 30));
    EXPECT_EQ(scene.Probe(prompt).reason, MissReason::kBelowGranularity);
    EXPECT_EQ(scene.Serve(prompt), 32u);
  }
}

// --- The ring ---

TEST(CacheEncoded, ARawGroupHasNoOpenBlocks) {
  CacheScene scene(LayoutNamed("codecs"), {.memory_bytes = kAmple});
  Sequence sequence = scene.Start(Text(1, 20));
  ASSERT_TRUE(sequence.Prepare(20));
  EXPECT_EQ(sequence.open_block(0, 1), nullptr);
  for (const std::uint32_t g : {1u, 2u, 3u}) EXPECT_NE(sequence.open_block(g, 1), nullptr);
}

TEST(CacheEncoded, OpenBlocksOfSequencesGroupsAndNumbersAreApart) {
  CacheScene scene(LayoutNamed("codecs"), {.memory_bytes = kAmple});
  const AdmitOptions options{.max_tokens = 60, .chunk = 40, .max_rollback = 17};  // rings of three
  std::vector<Sequence> sequences;
  sequences.push_back(scene.Start(Text(1, 60), options));
  sequences.push_back(scene.Start(Text(2, 60), options));
  for (Sequence& sequence : sequences) ASSERT_TRUE(scene.Compute(sequence, Text(3, 40), 40));
  sequences.push_back(*sequences[0].Fork(60));
  std::set<const std::byte*> open;
  std::set<const std::byte*> others;
  for (const Sequence& sequence : sequences) {
    ASSERT_EQ(sequence.open_blocks(), 3u);
    for (const std::uint32_t g : {1u, 2u, 3u}) {
      for (const std::uint64_t n : {0u, 1u, 2u}) open.insert(sequence.open_block(g, n));
    }
    for (const std::uint32_t g : {0u, 1u, 2u, 3u}) {
      for (const std::byte* const block : sequence.addresses(g)) others.insert(block);
    }
  }
  EXPECT_EQ(open.size(), 3u * 3u * 3u);
  for (const std::byte* const block : open) EXPECT_FALSE(others.contains(block));
}

// Whatever the pieces, the step reads the open rows of the block it goes on in before it has
// written over them: Compute checks it.
TEST(CacheEncoded, EveryCutOfATextLeavesTheSameRows) {
  for (const std::uint64_t max_rollback : {0u, 1u, 16u, 40u}) {
    CacheScene scene(LayoutNamed("encoded"), {.memory_bytes = kAmple});
    const Tokens text = Text(1, 150);
    for (const std::uint64_t piece : {1u, 7u, 16u, 17u, 31u, 33u, 150u}) {
      Sequence sequence =
          scene.Start(text, {.chunk = piece, .max_rollback = max_rollback, .reuse = Reuse::kOff});
      ASSERT_TRUE(scene.Compute(sequence, text, piece));
      scene.Check(sequence);
    }
  }
}

TEST(CacheEncoded, OpenBlocksMoveWithTheirBytes) {
  const KvLayoutSpec layout = LayoutNamed("encoded");
  const std::uint64_t unit = BytesOfOneOfEach(layout);
  CacheScene scene(layout, {.memory_bytes = unit * 80, .page_bytes = unit * 2});
  std::vector<Sequence> sequences;
  for (std::uint64_t i = 0; i < 12; ++i) {
    sequences.push_back(scene.Start(Text(1 + i, 20), {.reuse = Reuse::kOff}));
    scene.Finish(sequences.back(), Text(1 + i, 20));
  }
  for (std::size_t i = 0; i < sequences.size(); ++i) {  // holes in every page
    sequences.erase(sequences.begin() + static_cast<std::ptrdiff_t>(i));
  }
  std::vector<const std::byte*> places;
  places.reserve(sequences.size());
  for (const Sequence& sequence : sequences) places.push_back(sequence.open_block(0, 1));
  while (scene->Resize(scene->memory_bytes() - scene->core().pool.store().page_bytes()).ok()) {
  }
  std::uint64_t moved = 0;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    moved += sequences[i].open_block(0, 1) != places[i] ? 1 : 0;
    scene.Check(sequences[i]);
  }
  EXPECT_GT(moved, 0u);
}

// --- Going back ---

TEST(CacheEncoded, GoingBackOpensTheBlockAgainAndLeavesTheSealedOne) {
  CacheScene scene(LayoutNamed("encoded"), {.memory_bytes = kAmple});
  const Tokens text = Text(1, 33);
  Sequence sequence = scene.Start(text, {.max_tokens = 60, .max_rollback = 20});
  scene.Finish(sequence, text);
  const BlockId sealed = sequence.blocks(0)[0];
  ASSERT_EQ(sequence.Truncate(13), 13u);
  ASSERT_TRUE(scene.Compute(sequence, Text(2, 5)));
  EXPECT_NE(sequence.blocks(0)[0], sealed);
  scene.Check(sequence);
  Sequence other = scene.Start(Join(text, Tokens{0}));
  EXPECT_EQ(other.size(), 32u);
  EXPECT_EQ(other.blocks(0)[0], sealed);
}

TEST(CacheEncoded, BeyondTheRingItGoesBackToABorder) {
  CacheScene scene(LayoutNamed("encoded"), {.memory_bytes = kAmple});
  const Tokens text = Text(1, 64);
  for (const std::uint64_t size : {47u, 48u, 31u, 17u, 16u, 1u, 0u}) {
    Sequence sequence = scene.Start(text, {.max_rollback = 16, .reuse = Reuse::kOff});
    scene.Finish(sequence, text);  // blocks 2 and 3 are in the ring
    const std::uint64_t reached = size >= 32 ? size : size / 16 * 16;
    EXPECT_EQ(sequence.Truncate(size), reached);
    scene.Finish(sequence, text);
  }
}

TEST(CacheEncoded, AStepThatIsNotCommittedCanBeGivenUp) {
  CacheScene scene(LayoutNamed("encoded"), {.memory_bytes = kAmple});
  const Tokens text = Text(1, 60);
  Sequence sequence = scene.Start(text, {.chunk = 40, .reuse = Reuse::kOff});
  ASSERT_TRUE(scene.Compute(sequence, First(text, 20)));
  ASSERT_TRUE(sequence.Prepare(40));
  ASSERT_EQ(sequence.Truncate(20), 20u);  // nothing was written
  ASSERT_TRUE(sequence.Prepare(40));
  for (const std::uint64_t n : {1u, 3u}) ASSERT_NE(sequence.open_block(0, n), nullptr);
  ASSERT_EQ(sequence.Truncate(20), 16u);  // block 3 is where block 1 was
  scene.Finish(sequence, text);
}

TEST(CacheEncoded, WhatIsLeftOfAStepIsAtMostMaxRollback) {
  for (const std::uint64_t left : {0u, 1u, 16u}) {
    CacheScene scene(LayoutNamed("encoded"), {.memory_bytes = kAmple});
    const Tokens text = Text(1, 61);
    Sequence sequence = scene.Start(text, {.chunk = 60, .max_rollback = 16});
    ASSERT_TRUE(sequence.Prepare(60));
    testing::WriteMarks(sequence, scene->layout(), 1, First(text, 60), 0);
    sequence.Commit(First(text, 60 - left));
    testing::CheckMarks(sequence, scene->layout(), 1);
    ASSERT_TRUE(sequence.Prepare(1));
    testing::WriteMarks(sequence, scene->layout(), 1, First(text, 60 - left + 1), 60 - left);
  }
}

TEST(CacheEncodedDeathTest, RowsThatWereWrittenOverAreNotServed) {
  CacheScene scene(LayoutNamed("encoded"), {.memory_bytes = kAmple});
  const Tokens text = Text(1, 60);
  Sequence sequence = scene.Start(text, {.max_tokens = 90, .chunk = 60, .max_rollback = 16});
  EXPECT_DEATH(sequence.open_block(0, 0), "open block 0");
  ASSERT_TRUE(sequence.Prepare(60));
  EXPECT_DEATH(sequence.open_block(0, 4), "open block 4");
  EXPECT_DEATH(sequence.open_block(0, 1), "open block 1");
  sequence.Commit(First(text, 20));
  EXPECT_DEATH((void)sequence.Prepare(1), "written over");
  EXPECT_DEATH((void)sequence.Fork(90), "written over");
  EXPECT_EQ(sequence.Truncate(20), 16u);
  EXPECT_TRUE(sequence.Prepare(1));
}

// --- Memory ---

TEST(CacheEncoded, OpenBlocksAreTakenByTheFirstPrepareAndGivenBackWithTheSequence) {
  CacheOptions options{.memory_bytes = kAmple};
  options.accounts = {{.name = "a"}};
  CacheScene scene(LayoutNamed("encoded"), options);
  const std::uint64_t ring = 3 * scene->layout().group(0).open_block_bytes();
  const AdmitOptions admit{.max_tokens = 60, .max_rollback = 20, .account = AccountId(1)};
  std::optional<Sequence> sequence = scene.Start(Text(1, 20), admit);
  EXPECT_EQ(BytesOfOpenBlocks(scene), 0u);
  EXPECT_EQ(scene->core().pool.promised(1), 3u);
  std::optional<Sequence> early = sequence->Fork(60);  // before there is anything to copy
  EXPECT_EQ(scene->core().pool.promised(1), 6u);
  early.reset();
  ASSERT_TRUE(sequence->Prepare(1));
  EXPECT_EQ(BytesOfOpenBlocks(scene), ring);
  EXPECT_EQ(scene->core().pool.promised(1), 0u);
  EXPECT_EQ(scene->core().pool.count(AccountId(1), 1, BlockState::kOpen), 3u);
  EXPECT_EQ(sequence->bytes(), ring + scene->layout().group(0).block_bytes());
  ASSERT_TRUE(scene.Compute(*sequence, Text(1, 20)));
  std::optional<Sequence> fork = sequence->Fork(60);
  EXPECT_EQ(BytesOfOpenBlocks(scene), 2 * ring);
  sequence.reset();
  EXPECT_EQ(BytesOfOpenBlocks(scene), ring);
  scene.Check(*fork);
  fork.reset();
  EXPECT_EQ(BytesOfOpenBlocks(scene), 0u);
  EXPECT_EQ(scene->live_bytes(), 0u);
  scene->CheckInvariants();
}

// One page holds one block of either kind: rings and blocks are counted in the same pages.
TEST(CacheEncoded, AdmissionCountsOpenBlocks) {
  KvLayoutSpec spec = LayoutNamed("encoded");
  const KvLayout layout = *KvLayout::Create(spec);
  const std::uint64_t page =
      std::max(layout.group(0).block_bytes(), layout.group(0).open_block_bytes());
  // Three blocks of tokens, one to copy a sealed one into, and a ring of two.
  const AdmitOptions options{.max_tokens = 48, .max_rollback = 16};
  const CacheOptions enough{.memory_bytes = 6 * page, .page_bytes = page};
  const CacheOptions too_little{.memory_bytes = 5 * page, .page_bytes = page};
  const Tokens text = Text(1, 48);
  CacheScene scene(spec, enough);
  std::vector<std::uint64_t> needed;
  scene->BlocksNeeded(options, needed);
  EXPECT_EQ(needed, (std::vector<std::uint64_t>{4, 2}));
  EXPECT_EQ(layout.BytesOf(needed),
            4 * layout.group(0).block_bytes() + 2 * layout.group(0).open_block_bytes());
  EXPECT_TRUE(scene->CouldEverFit(options));
  std::optional<Sequence> sequence = scene.Start(text, options);
  scene.Finish(*sequence, text);
  const std::string before = scene.State();
  EXPECT_FALSE(sequence->Fork(48));
  EXPECT_EQ(scene.Admit(Text(2, 1)).status, AdmitStatus::kNoMemory);
  EXPECT_EQ(scene.State(), before);
  CacheScene small(spec, too_little);
  EXPECT_FALSE(small->CouldEverFit(options));
  EXPECT_EQ(small.Admit(text, options).status, AdmitStatus::kNoMemory);
  EXPECT_TRUE(small->CouldEverFit({.max_tokens = 64}));
  EXPECT_FALSE(small->CouldEverFit({.max_tokens = 65}));
}

}  // namespace
}  // namespace ashlar::kv
