// Sequence and Lease: what they hold, and that no order of ending is wrong.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "ashlar/kv_cache.h"
#include "embed/testing/small_cache.h"

namespace ashlar::cache {
namespace {

using testing::HybridLayout;
using testing::kSmallBlockBytes;
using testing::MakeCache;
using testing::MakeSmallCache;
using testing::Numbers;
using testing::Remember;
using testing::Start;
using testing::Store;
using testing::TestScope;

TEST(SequenceTest, HoldsABlockPerSixteenTokens) {
  Cache cache = MakeSmallCache();
  Sequence sequence = Start(cache, {}, {.max_tokens = 100});
  EXPECT_TRUE(sequence.Blocks(0)->empty());
  Store(sequence, Numbers(1, 17));
  EXPECT_EQ(sequence.size(), 17u);
  EXPECT_EQ(sequence.Blocks(0)->size(), 2u);
  EXPECT_EQ(sequence.Addresses(0)->size(), 2u);
  EXPECT_EQ(sequence.bytes(), 2 * kSmallBlockBytes);
  EXPECT_EQ(std::vector<TokenId>(sequence.tokens().begin(), sequence.tokens().end()),
            Numbers(1, 17));
  for (const BlockId block : *sequence.Blocks(0)) EXPECT_LT(block, cache.max_blocks());
}

TEST(SequenceTest, AHitReadsTheBytesThatWereWritten) {
  Cache cache = MakeSmallCache();
  {
    Sequence writer = Start(cache, Numbers(1, 32), {.max_tokens = 32});
    ASSERT_TRUE(writer.Prepare(32));
    std::memset((*writer.Addresses(0))[0], 0x5A, kSmallBlockBytes);
    std::memset((*writer.Addresses(0))[1], 0xA5, kSmallBlockBytes);
    ASSERT_TRUE(writer.Commit(Numbers(1, 32)));
  }
  Sequence reader = Start(cache, Numbers(1, 32), {.max_tokens = 64});
  EXPECT_EQ(reader.hit_tokens(), 31u);
  EXPECT_EQ((*reader.Addresses(0))[0][100], std::byte{0x5A});
  EXPECT_EQ((*reader.Addresses(0))[1][100], std::byte{0xA5});  // copied
}

TEST(SequenceTest, ABlockThatItsWindowHasPassedIsNoBlock) {
  Cache cache = MakeCache(HybridLayout(), {.memory_bytes = 1 << 20});
  Sequence sequence = Start(cache, {}, {.max_tokens = 160, .chunk = 16});
  for (TokenId i = 0; i < 10; ++i) Store(sequence, Numbers(i * 16, 16));
  const std::span<const BlockId> sliding = *sequence.Blocks(1);
  EXPECT_NE(sliding[0], kNoBlock);  // sinks
  for (std::size_t i = 1; i < 7; ++i) EXPECT_EQ(sliding[i], kNoBlock) << i;
  for (std::size_t i = 7; i < 10; ++i) EXPECT_NE(sliding[i], kNoBlock) << i;
  EXPECT_EQ((*sequence.Addresses(1))[3], nullptr);
  for (const BlockId block : *sequence.Blocks(0)) EXPECT_NE(block, kNoBlock);
}

TEST(SequenceTest, OnlyWhatIsPreparedCanBeCommitted) {
  Cache cache = MakeSmallCache();
  Sequence sequence = Start(cache, {}, {.max_tokens = 64});
  EXPECT_EQ(sequence.Commit(Numbers(1, 1)).error().code, ErrorCode::kInvalidArgument);
  ASSERT_TRUE(sequence.Prepare(3));
  EXPECT_EQ(sequence.Commit(Numbers(1, 4)).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(sequence.size(), 0u);
  EXPECT_TRUE(sequence.Commit(Numbers(1, 2)));
  EXPECT_TRUE(sequence.Commit(Numbers(3, 1)));
  EXPECT_EQ(sequence.Commit(Numbers(4, 1)).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(sequence.Prepare(0));
  EXPECT_TRUE(sequence.Commit({}));
}

TEST(SequenceTest, BeyondItsPromiseItMayBeRefusedAndIsUnchanged) {
  Cache cache = MakeSmallCache();
  const std::uint64_t all = cache.memory_bytes() / kSmallBlockBytes * 16;
  const Sequence other = Start(cache, {}, {.max_tokens = all - 16});
  Sequence sequence = Start(cache, {}, {.max_tokens = 16});
  Store(sequence, Numbers(1, 16));
  EXPECT_EQ(sequence.Prepare(1).error().code, ErrorCode::kNoMemory);
  EXPECT_EQ(sequence.size(), 16u);
  EXPECT_EQ(sequence.Blocks(0)->size(), 1u);
  EXPECT_EQ(sequence.Prepare(kMaxTokens).error().code, ErrorCode::kInvalidArgument);
}

TEST(SequenceTest, TruncateGoesBackAndOn) {
  Cache cache = MakeSmallCache();
  Sequence sequence = Start(cache, {}, {.max_tokens = 64});
  Store(sequence, Numbers(1, 40));
  EXPECT_EQ(sequence.Truncate(41).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(*sequence.Truncate(20), 20u);
  EXPECT_EQ(sequence.Commit(Numbers(500, 1)).error().code, ErrorCode::kInvalidArgument);
  Store(sequence, Numbers(500, 44));
  EXPECT_EQ(sequence.size(), 64u);
  EXPECT_EQ(*sequence.Truncate(0), 0u);
  cache.CheckInvariants();
}

TEST(SequenceTest, ForksShareUntilTheyWrite) {
  Cache cache = MakeSmallCache();
  Sequence sequence = Start(cache, {}, {.max_tokens = 64});
  Store(sequence, Numbers(1, 20));
  ASSERT_TRUE(sequence.Prepare(1));
  EXPECT_EQ(sequence.Fork(19).error().code, ErrorCode::kInvalidArgument);
  Expected<Sequence> fork = sequence.Fork(64);
  ASSERT_TRUE(fork);
  EXPECT_EQ((*fork->Blocks(0))[1], (*sequence.Blocks(0))[1]);
  // It was prepared before there was a second reader.
  EXPECT_EQ(sequence.Commit(Numbers(21, 1)).error().code, ErrorCode::kInvalidArgument);
  Store(sequence, Numbers(21, 1));
  Store(*fork, Numbers(90, 1));
  EXPECT_EQ((*fork->Blocks(0))[0], (*sequence.Blocks(0))[0]);
  EXPECT_NE((*fork->Blocks(0))[1], (*sequence.Blocks(0))[1]);
  EXPECT_EQ(cache.live_sequences(), 2u);
}

TEST(SequenceTest, AForkIsRefusedWhereOthersHoldTheMemory) {
  Cache cache = MakeSmallCache();
  const std::uint64_t all = cache.memory_bytes() / kSmallBlockBytes * 16;
  Sequence sequence = Start(cache, {}, {.max_tokens = all / 2 + 16});
  EXPECT_EQ(sequence.Fork(all / 2 + 16).error().code, ErrorCode::kNoMemory);
  EXPECT_EQ(cache.live_sequences(), 1u);
}

TEST(SequenceTest, AReleasedOrMovedHandleIsEmptyAndItsCallsFail) {
  Cache cache = MakeSmallCache();
  Sequence sequence = Start(cache, {}, {.max_tokens = 64});
  Sequence moved = std::move(sequence);
  EXPECT_FALSE(moved.empty());
  moved.Release();
  moved.Release();
  EXPECT_EQ(cache.live_sequences(), 0u);
  for (Sequence* empty :
       {&sequence, &moved}) {  // NOLINT(bugprone-use-after-move): it is documented
    EXPECT_TRUE(empty->empty());
    EXPECT_EQ(empty->size() + empty->hit_tokens() + empty->bytes() + empty->tokens().size(), 0u);
    EXPECT_EQ(empty->Prepare(1).error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(empty->Commit({}).error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(empty->Truncate(0).error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(empty->Fork(1).error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(empty->Blocks(0).error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(empty->Addresses(0).error().code, ErrorCode::kInvalidArgument);
  }
  moved = Start(cache, {}, {.max_tokens = 16});
  EXPECT_EQ(cache.live_sequences(), 1u);
}

TEST(LeaseTest, NamesItsBlocks) {
  Cache cache = MakeCache(HybridLayout(), {.memory_bytes = 1 << 20});
  Remember(cache, Numbers(1, 160));
  Expected<LookupResult> found = cache.Lookup(TestScope(), Numbers(1, 161));
  Lease& lease = found->lease;
  ASSERT_EQ(lease.tokens(), 160u);
  EXPECT_NE(*lease.Block(0, 3), kNoBlock);
  EXPECT_EQ(*lease.Block(1, 3), kNoBlock);
  EXPECT_EQ(*lease.Address(1, 3), nullptr);
  EXPECT_NE(*lease.Address(0, 9), nullptr);
  EXPECT_EQ(lease.Block(2, 0).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(lease.Block(0, 10).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(lease.Address(0, ~0ull).error().code, ErrorCode::kInvalidArgument);
  Lease moved = std::move(lease);
  EXPECT_EQ(lease.Block(0, 0).error().code,  // NOLINT(bugprone-use-after-move): it is documented
            ErrorCode::kInvalidArgument);
  moved.Release();
  EXPECT_TRUE(moved.empty());
  EXPECT_EQ(moved.bytes(), 0u);
  EXPECT_TRUE(cache.Reset());
}

TEST(LifetimeTest, HandlesMayOutliveTheirCache) {
  std::optional<Cache> cache = MakeSmallCache();
  Remember(*cache, Numbers(1, 64));
  Expected<LookupResult> found = cache->Lookup(TestScope(), Numbers(1, 64));
  Expected<LookupResult> pinned = cache->Lookup(TestScope(), Numbers(1, 64));
  ASSERT_TRUE(cache->Pin(std::move(pinned->lease)));
  Sequence sequence = Start(*cache, Numbers(1, 64), {.max_tokens = 128});
  cache.reset();
  EXPECT_NE(*found->lease.Address(0, 0), nullptr);
  Store(sequence, Numbers(static_cast<TokenId>(sequence.size() + 1), 10));
  Expected<Sequence> fork = sequence.Fork(128);
  ASSERT_TRUE(fork);
  sequence.Release();
  Store(*fork, Numbers(1, 10));
}

TEST(LifetimeTest, AMovedCacheIsEmptyAndItsHandlesFollow) {
  Cache cache = MakeSmallCache();
  Sequence sequence = Start(cache, {}, {.max_tokens = 16});
  Cache moved = std::move(cache);
  EXPECT_EQ(moved.live_sequences(), 1u);
  Store(sequence, Numbers(1, 16));
  moved = MakeSmallCache();
  EXPECT_EQ(moved.live_sequences(), 0u);
  EXPECT_EQ(sequence.size(), 16u);
}

}  // namespace
}  // namespace ashlar::cache
