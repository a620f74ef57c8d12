// Who leaves first: the policy's order, levels and their ends, pins; and tails before heads always.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "kv/testing/cache_scene.h"

namespace ashlar::kv {
namespace {

using testing::CacheScene;
using testing::First;
using testing::Join;
using testing::LayoutNamed;
using testing::RoomFor;
using testing::Text;
using testing::Tokens;

CacheOptions RoomUnder(ReplacementKind kind, std::uint64_t blocks) {
  CacheOptions options = RoomFor(blocks);
  options.replacement = kind;
  return options;
}

// Texts of one block each, by seed.
bool IsHere(CacheScene& scene, std::uint64_t seed) {
  return scene.Probe(Text(seed, 17)).hit_tokens > 0;
}
void ServeBlock(CacheScene& scene, std::uint64_t seed, const Retention& retention = {}) {
  scene.Serve(Text(seed, 16), {.retention = retention});
}
void TouchBlock(CacheScene& scene, std::uint64_t seed) { scene.Touch(Text(seed, 16)); }

// The seeds, in the order in which their blocks leave when a sequence needs all memory.
std::vector<std::uint64_t> OrderOfLeaving(CacheScene& scene, std::vector<std::uint64_t> seeds) {
  std::vector<std::uint64_t> order;
  const std::uint64_t blocks = scene->memory_bytes() / 512;
  Sequence hungry = scene.Start(Text(999, 1), {.max_tokens = blocks * 16, .reuse = Reuse::kOff});
  for (std::uint64_t i = 0; i < blocks; ++i) {
    EXPECT_TRUE(scene.Compute(hungry, Text(999, 16)));
    std::erase_if(seeds, [&](std::uint64_t seed) {
      if (IsHere(scene, seed)) return false;
      order.push_back(seed);
      return true;
    });
  }
  return order;
}

// --- The policy's order ---

TEST(CacheRetention, BlocksLeaveInTheOrderOfThePolicy) {
  const std::map<ReplacementKind, std::vector<std::uint64_t>> orders = {
      {ReplacementKind::kLru, {3, 4, 5, 1, 2}},    {ReplacementKind::kFifo, {1, 2, 3, 4, 5}},
      {ReplacementKind::kLfu, {3, 4, 5, 2, 1}},    {ReplacementKind::kSlru, {3, 4, 5, 1, 2}},
      {ReplacementKind::kS3Fifo, {2, 3, 4, 5, 1}}, {ReplacementKind::kSieve, {3, 4, 5, 1, 2}},
  };
  for (const auto& [kind, order] : orders) {
    CacheScene scene(LayoutNamed("full"), RoomUnder(kind, 5));
    for (std::uint64_t seed = 1; seed <= 5; ++seed) ServeBlock(scene, seed);
    TouchBlock(scene, 1);
    TouchBlock(scene, 1);
    TouchBlock(scene, 2);
    EXPECT_EQ(OrderOfLeaving(scene, {1, 2, 3, 4, 5}), order) << NameOf(kind);
  }
}

TEST(CacheRetention, CostAwareKeepsDeepBlocksLonger) {
  CacheScene scene(LayoutNamed("full"), RoomUnder(ReplacementKind::kCostAware, 400));
  const Tokens deep = Text(1, 16 * 300);
  scene.Serve(deep);
  for (std::uint64_t seed = 2; seed < 90; ++seed) ServeBlock(scene, seed);
  // A hundred blocks short of everything: newer and shallow ones leave before the old deep ones.
  for (std::uint64_t seed = 100; seed < 150; ++seed) ServeBlock(scene, seed);
  EXPECT_EQ(scene.Probe(deep).hit_tokens, deep.size() - 1);
}

// The cache asks the policy for every victim and tells it of every use: driven by the same calls,
// a queue of its own agrees on each block that leaves.
TEST(CacheRetention, EveryUseAndEveryVictimIsThePolicys) {
  constexpr std::uint32_t kBlocks = 8;
  for (const ReplacementKind kind : kReplacementKinds) {
    CacheScene scene(LayoutNamed("full"), RoomUnder(kind, kBlocks));
    const ReplacementRecordsPtr records = MakeReplacementRecords(kBlocks);
    const std::unique_ptr<ReplacementQueue> queue = MakeReplacementQueue(kind, *records);
    std::map<std::uint64_t, BlockId> here;  // by seed
    for (std::uint64_t i = 0; i < 2000; ++i) {
      const std::uint64_t seed = 1 + RandomBits(1, static_cast<std::uint64_t>(kind), i) % 14;
      ASSERT_EQ(IsHere(scene, seed), here.contains(seed)) << NameOf(kind) << " step " << i;
      if (here.contains(seed)) {
        TouchBlock(scene, seed);
        queue->OnUse(here[seed]);
        queue->OnIdle(here[seed], {.content = seed});
        continue;
      }
      BlockId block(static_cast<std::uint32_t>(here.size()));
      if (here.size() == kBlocks) {
        block = *queue->Victim();
        queue->OnDrop(block);
        std::erase_if(here, [&](const auto& entry) { return entry.second == block; });
      }
      ServeBlock(scene, seed);
      queue->OnIdle(block, {.content = seed});
      here[seed] = block;
    }
  }
}

TEST(CacheRetention, HitMovesABlockToTheEndOfTheLine) {
  CacheScene scene(LayoutNamed("full"), RoomFor(4));
  for (std::uint64_t seed = 1; seed <= 4; ++seed) ServeBlock(scene, seed);
  TouchBlock(scene, 1);
  for (std::uint64_t i = 0; i < 10; ++i) EXPECT_TRUE(IsHere(scene, 2));  // looking is no use
  EXPECT_EQ(OrderOfLeaving(scene, {1, 2, 3, 4}), (std::vector<std::uint64_t>{2, 3, 4, 1}));
}

// --- Tails before heads ---

// Every block that can be found has the block before it.
void ExpectNoHoles(const KvCache& cache, const BlockKey& root) {
  std::set<BlockKey> keys = {root};
  const Snapshot snapshot = cache.TakeSnapshot();
  for (const SnapshotEntry& entry : snapshot.entries) keys.insert(entry.key);
  for (const SnapshotEntry& entry : snapshot.entries) {
    EXPECT_TRUE(keys.contains(entry.parent)) << entry.key.ToHex() << " hangs in the air";
  }
}

TEST(CacheRetention, TailsLeaveBeforeHeadsUnderEveryPolicyAndLevel) {
  for (const ReplacementKind kind : kReplacementKinds) {
    CacheScene scene(LayoutNamed("full"), RoomUnder(kind, 24));
    const BlockKey root = RootKey(scene.PromptOf({}).digest);
    for (std::uint64_t i = 0; i < 300; ++i) {
      const std::uint64_t stem = RandomBits(2, 1, i) % 3;
      const Tokens text = Join(First(Text(stem, 96), RandomBits(2, 2, i) % 97),
                               Text(20 + RandomBits(2, 3, i) % 4, 1 + RandomBits(2, 4, i) % 60));
      const auto level = static_cast<std::uint8_t>(RandomBits(2, 5, i) % kRetentionLevels);
      scene.Serve(text, {.retention = {.level = level}});
      ExpectNoHoles(scene.cache(), root);
    }
    EXPECT_GT(scene->counters().replaced_blocks, 100u);
    scene->CheckInvariants();
  }
}

TEST(CacheRetention, ChainLeavesFromItsEndUnderEveryPolicy) {
  for (const ReplacementKind kind : kReplacementKinds) {
    CacheScene scene(LayoutNamed("full"), RoomUnder(kind, 6));
    const Tokens chain = Text(1, 96);
    scene.Serve(chain);
    scene.Touch(First(chain, 32));
    Sequence hungry = scene.Start(Text(2, 1), {.max_tokens = 96, .reuse = Reuse::kOff});
    for (std::uint64_t left = 6; left-- > 0;) {
      ASSERT_TRUE(scene.Compute(hungry, Text(2, 16)));
      EXPECT_EQ(scene.Probe(Join(chain, Tokens{0})).hit_tokens, left * 16) << NameOf(kind);
    }
  }
}

TEST(CacheRetention, PinnedTailKeepsItsWholePrefix) {
  CacheScene scene(LayoutNamed("full"), RoomFor(6));
  scene.Serve(Text(1, 65));
  const PrefixLease lease = scene.Lookup(Text(1, 65));
  ASSERT_EQ(lease.tokens(), 64u);
  for (std::uint64_t seed = 2; seed < 20; ++seed) scene.Serve(Text(seed, 32));
  EXPECT_EQ(scene.Probe(Text(1, 65)).hit_tokens, 64u);
}

// --- Levels ---

TEST(CacheRetention, LowerLevelsLeaveFirstWhateverTheirAge) {
  const std::vector<std::uint8_t> levels = {5, 0, 7, 2, 3, 6, 1, 4};
  for (const ReplacementKind kind : kReplacementKinds) {
    CacheScene scene(LayoutNamed("full"), RoomUnder(kind, levels.size()));
    for (const std::uint8_t level : levels) ServeBlock(scene, 1 + level, {.level = level});
    EXPECT_EQ(OrderOfLeaving(scene, {1, 2, 3, 4, 5, 6, 7, 8}),
              (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6, 7, 8}))
        << NameOf(kind);
  }
}

TEST(CacheRetention, LevelEndsAtItsDeadlineAndNotBefore) {
  constexpr std::int64_t kTtlNs = 1'000'000'000;
  for (const std::int64_t after_ns : {kTtlNs / 2, kTtlNs - 1, 2 * kTtlNs, 300 * kTtlNs}) {
    CacheScene scene(LayoutNamed("full"), RoomFor(2));
    ServeBlock(scene, 1, {.level = 7, .ttl_ns = kTtlNs});
    scene.clock().AdvanceNs(after_ns);
    ServeBlock(scene, 2);
    ServeBlock(scene, 3);
    EXPECT_EQ(IsHere(scene, 1), after_ns < kTtlNs) << after_ns;
    EXPECT_EQ(IsHere(scene, 2), after_ns >= kTtlNs) << after_ns;
  }
}

TEST(CacheRetention, LowLevelEndsAsWell) {
  CacheScene scene(LayoutNamed("full"), RoomFor(2));
  ServeBlock(scene, 1);
  ServeBlock(scene, 2, {.level = 0, .ttl_ns = 1'000'000'000});
  scene.clock().AdvanceNs(2'000'000'000);
  ServeBlock(scene, 3);
  EXPECT_FALSE(IsHere(scene, 1));
  EXPECT_TRUE(IsHere(scene, 2));
}

TEST(CacheRetention, HighestLevelABlockWasUsedWithCounts) {
  CacheScene scene(LayoutNamed("full"), RoomFor(3));
  ServeBlock(scene, 1, {.level = 6});
  scene.Serve(Text(1, 17), {.retention = {.level = 0}});  // and a tail of one token
  TouchBlock(scene, 1);
  ServeBlock(scene, 2);
  ServeBlock(scene, 3);
  ServeBlock(scene, 4);
  EXPECT_TRUE(IsHere(scene, 1));
  EXPECT_FALSE(IsHere(scene, 2));
}

// --- Pins ---

TEST(CacheRetention, PinKeepsAPrefixWhateverElseIsNeeded) {
  CacheOptions options = RoomFor(8);
  options.max_pinned_bytes = 8 * 512;
  CacheScene scene(LayoutNamed("full"), options);
  scene.Serve(Text(1, 65));
  const PinId pin = *scene->Pin(scene.Lookup(Text(1, 65)));
  EXPECT_EQ(scene->pinned_bytes(), 4u * 512);
  for (std::uint64_t seed = 2; seed < 40; ++seed) scene.Serve(Text(seed, 64));
  EXPECT_EQ(scene.Probe(Text(1, 65)).hit_tokens, 64u);
  ASSERT_TRUE(scene->Unpin(pin).ok());
  EXPECT_EQ(scene->pinned_bytes(), 0u);
  for (std::uint64_t seed = 2; seed < 40; ++seed) scene.Serve(Text(seed, 64));
  EXPECT_EQ(scene.Probe(Text(1, 65)).hit_tokens, 0u);
}

TEST(CacheRetention, PinsAreAddedUpAgainstTheirCap) {
  CacheOptions options = RoomFor(16);
  options.max_pinned_bytes = 3 * 512;
  CacheScene scene(LayoutNamed("full"), options);
  scene.Serve(Text(1, 64));
  scene.Serve(Text(2, 32));
  const Result<PinId> two = scene->Pin(scene.Lookup(Text(2, 32 + 1)));
  ASSERT_TRUE(two.ok());
  const std::string before = scene.State();
  const Result<PinId> beyond = scene->Pin(scene.Lookup(Text(1, 33)));
  ASSERT_FALSE(beyond.ok());
  EXPECT_EQ(beyond.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(scene.State(), before);
  EXPECT_TRUE(scene->Pin(scene.Lookup(Text(1, 17))).ok());  // exactly the cap
  EXPECT_EQ(scene->pinned_bytes(), 3u * 512);
  EXPECT_FALSE(scene->Pin(scene.Lookup(Text(1, 17))).ok());  // also the same one again
}

TEST(CacheRetention, EmptyLeaseCannotBePinned) {
  CacheScene scene(LayoutNamed("full"), RoomFor(4));
  const Result<PinId> pin = scene->Pin(scene.Lookup(Text(1, 40)));
  ASSERT_FALSE(pin.ok());
  EXPECT_EQ(pin.error().code, ErrorCode::kInvalidArgument);
}

TEST(CacheRetention, SecondUnpinForeignPinAndStalePinAreRefused) {
  CacheScene scene(LayoutNamed("full"), RoomFor(16));
  scene.Serve(Text(1, 32));
  const PinId pin = *scene->Pin(scene.Lookup(Text(1, 17)));
  ASSERT_TRUE(scene->Unpin(pin).ok());
  std::string before = scene.State();
  EXPECT_EQ(scene->Unpin(pin).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(scene->Unpin({.slot = 77, .generation = 1}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(scene->Unpin({}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(scene.State(), before);
  const PinId next = *scene->Pin(scene.Lookup(Text(1, 17)));  // in the same slot
  ASSERT_EQ(next.slot, pin.slot);
  before = scene.State();
  EXPECT_EQ(scene->Unpin(pin).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(scene.State(), before);
  EXPECT_TRUE(scene->Unpin(next).ok());
}

TEST(CacheRetention, PrefixPinnedTwiceStaysUntilBothPinsAreGone) {
  CacheScene scene(LayoutNamed("full"), RoomFor(8));
  scene.Serve(Text(1, 16));
  const PinId one = *scene->Pin(scene.Lookup(Text(1, 17)));
  const PinId two = *scene->Pin(scene.Lookup(Text(1, 17)));
  ASSERT_TRUE(scene->Unpin(one).ok());
  for (std::uint64_t seed = 2; seed < 20; ++seed) scene.Serve(Text(seed, 7 * 16));
  EXPECT_TRUE(IsHere(scene, 1));
  ASSERT_TRUE(scene->Unpin(two).ok());
  for (std::uint64_t seed = 2; seed < 20; ++seed) scene.Serve(Text(seed, 8 * 16));
  EXPECT_FALSE(IsHere(scene, 1));
}

}  // namespace
}  // namespace ashlar::kv
