// Cache: prompts, pins, accounts, memory, resets.
#include <gtest/gtest.h>

#include <string>

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
using testing::SmallLayout;
using testing::Start;
using testing::Store;
using testing::TestScope;

std::uint64_t SumOf(const MemoryReport& memory) {
  std::uint64_t sum =
      memory.free_slot_bytes + memory.slack_bytes + memory.free_page_bytes + memory.remainder_bytes;
  for (const MemoryRow& row : memory.rows) sum += row.bytes;
  return sum;
}

TEST(CacheTest, ServesAPrefixOnceItIsKnown) {
  Cache cache = MakeSmallCache();
  const std::vector<TokenId> prompt = Numbers(1, 50);
  EXPECT_EQ(Remember(cache, prompt), 0u);
  EXPECT_EQ(Remember(cache, prompt), 49u);
  EXPECT_EQ(cache.counters().admitted, 2u);
  EXPECT_EQ(cache.counters().prompt_tokens, 100u);
  EXPECT_EQ(cache.counters().hit_tokens, 49u);
  EXPECT_EQ(cache.live_sequences(), 0u);
  cache.CheckInvariants();
}

TEST(CacheTest, ProbeSaysWhyNotMoreAndChangesNothing) {
  Cache cache = MakeSmallCache();
  const std::vector<TokenId> prompt = Numbers(1, 64);
  EXPECT_EQ(cache.Probe(TestScope(), prompt)->reason, MissReason::kNeverSeen);
  Remember(cache, prompt);
  std::vector<TokenId> other = prompt;
  other[40] = 999;
  const LookupReport report = *cache.Probe(TestScope(), other);
  EXPECT_EQ(report.reason, MissReason::kDiverged);
  EXPECT_EQ(report.hit_tokens, 40u);
  EXPECT_EQ(report.position, 40u);
  EXPECT_NE(report.Explain().find("token 40"), std::string::npos);
  Scope salted = TestScope();
  salted.tenant_salt = "x";
  EXPECT_EQ(cache.Probe(salted, prompt)->reason, MissReason::kOtherSalt);
  EXPECT_EQ(cache.Probe(TestScope(), prompt)->reason, MissReason::kNone);
  EXPECT_EQ(cache.counters().admitted, 1u);
}

TEST(CacheTest, WithReuseOffNothingIsServedOrLeft) {
  Cache cache = MakeSmallCache();
  const std::vector<TokenId> prompt = Numbers(1, 64);
  {
    Sequence sequence = Start(cache, prompt, {.max_tokens = 64, .reuse = Reuse::kOff});
    Store(sequence, prompt);
  }
  EXPECT_EQ(cache.Probe(TestScope(), prompt)->hit_tokens, 0u);
  EXPECT_EQ(cache.Memory().BytesIn(BlockState::kIdle), 0u);
}

TEST(CacheTest, ASecondSequenceWaitsForWhatTheFirstComputes) {
  Cache cache = MakeSmallCache();
  const std::vector<TokenId> prompt = Numbers(1, 64);
  Sequence first = Start(cache, prompt, {.max_tokens = 64});
  Expected<Admission> second = cache.Admit(TestScope(), prompt, {.max_tokens = 64});
  EXPECT_EQ(second->status, AdmitStatus::kWait);
  EXPECT_FALSE(second->sequence);
  EXPECT_EQ(second->report.reason, MissReason::kBeingComputed);
  EXPECT_EQ(second->report.pending_tokens, 63u);
  second = cache.Admit(TestScope(), prompt, {.max_tokens = 64, .on_pending = OnPending::kCompute});
  EXPECT_EQ(second->status, AdmitStatus::kAdmitted);
  Store(first, prompt);
  Store(*second->sequence, prompt);
  EXPECT_EQ(cache.counters().converged_blocks, 4u);
}

TEST(CacheTest, WhatFitsLaterWaitsAndWhatNeverFitsIsAnError) {
  Cache cache = MakeSmallCache();
  const std::uint64_t all = cache.memory_bytes() / kSmallBlockBytes * 16;
  Sequence large = Start(cache, {}, {.max_tokens = all / 2 + 16});
  const Expected<Admission> later = cache.Admit(TestScope(), {}, {.max_tokens = all / 2});
  EXPECT_EQ(later->status, AdmitStatus::kNoMemory);
  const Expected<Admission> never = cache.Admit(TestScope(), {}, {.max_tokens = 2 * all});
  EXPECT_EQ(never.error().code, ErrorCode::kLimit);
  large.Release();
  EXPECT_EQ(cache.Admit(TestScope(), {}, {.max_tokens = all / 2})->status, AdmitStatus::kAdmitted);
}

TEST(CacheTest, BlocksNeededGrowWithTheChunkOnlyWhereAWindowIs) {
  const Cache cache = MakeCache(HybridLayout(), {.memory_bytes = 1 << 20});
  const std::vector<std::uint64_t> small = *cache.BlocksNeeded({.max_tokens = 1600, .chunk = 1});
  const std::vector<std::uint64_t> large = *cache.BlocksNeeded({.max_tokens = 1600, .chunk = 160});
  EXPECT_EQ(small[0], 100u);
  EXPECT_EQ(large[0], 100u);
  EXPECT_EQ(small[1], 5u);  // sinks: 1; 40 tokens that end anywhere touch 4 blocks at most
  EXPECT_EQ(large[1], 1 + (39 + 160 - 2) / 16 + 2u);
}

TEST(CacheTest, ALeaseKeepsItsBlocksAndAPinOutlivesIt) {
  Cache cache = MakeSmallCache();
  const std::vector<TokenId> prompt = Numbers(1, 50);
  Remember(cache, prompt);
  Expected<LookupResult> found = cache.Lookup(TestScope(), prompt);
  EXPECT_EQ(found->lease.tokens(), 48u);
  EXPECT_EQ(found->lease.bytes(), 3 * kSmallBlockBytes);
  EXPECT_FALSE(found->lease.empty());
  EXPECT_FALSE(cache.Reset());
  const Expected<PinId> pin = cache.Pin(std::move(found->lease));
  ASSERT_TRUE(pin);
  EXPECT_EQ(cache.pinned_bytes(), 3 * kSmallBlockBytes);
  EXPECT_FALSE(cache.Reset());
  EXPECT_TRUE(cache.Unpin(*pin));
  EXPECT_EQ(cache.Unpin(*pin).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(cache.Reset());
  EXPECT_EQ(cache.Probe(TestScope(), prompt)->hit_tokens, 0u);
  EXPECT_TRUE(cache.Lookup(TestScope(), prompt)->lease.empty());
}

TEST(CacheTest, PinsHaveALimit) {
  Cache cache = MakeCache(SmallLayout(),
                          {.memory_bytes = 256 * 1024, .max_pinned_bytes = 3 * kSmallBlockBytes});
  Remember(cache, Numbers(1, 48));
  Remember(cache, Numbers(500, 80));
  const auto pin = [&cache](const std::vector<TokenId>& prompt) {
    Expected<LookupResult> found = cache.Lookup(TestScope(), prompt);
    return cache.Pin(std::move(found->lease));
  };
  EXPECT_TRUE(pin(Numbers(1, 49)));
  EXPECT_EQ(pin(Numbers(500, 81)).error().code, ErrorCode::kLimit);
  EXPECT_EQ(cache.pinned_bytes(), 3 * kSmallBlockBytes);
}

TEST(CacheTest, ResetAllForgetsWhileSequencesGoOn) {
  Cache cache = MakeSmallCache();
  const std::vector<TokenId> prompt = Numbers(1, 64);
  Sequence sequence = Start(cache, prompt, {.max_tokens = 128});
  Store(sequence, prompt);
  cache.ResetAll();
  EXPECT_EQ(cache.Probe(TestScope(), prompt)->hit_tokens, 0u);
  Store(sequence, Numbers(65, 64));
  EXPECT_EQ(sequence.size(), 128u);
  sequence.Release();
  EXPECT_EQ(cache.Probe(TestScope(), Numbers(1, 128))->hit_tokens, 0u);
  cache.CheckInvariants();
}

TEST(CacheTest, WhatIsInvalidatedIsNeverServedAgain) {
  Cache cache = MakeSmallCache();
  Remember(cache, Numbers(1, 64));
  cache.Invalidate();
  EXPECT_EQ(Remember(cache, Numbers(1, 64)), 0u);
  EXPECT_EQ(Remember(cache, Numbers(1, 64)), 63u);
}

TEST(CacheTest, ResizeKeepsWhatIsInUse) {
  Cache cache =
      MakeCache(SmallLayout(), {.memory_bytes = 256 * 1024, .max_memory_bytes = 512 * 1024});
  EXPECT_TRUE(cache.Resize(512 * 1024));
  EXPECT_EQ(cache.memory_bytes(), 512u * 1024);
  EXPECT_EQ(cache.Resize(512 * 1024 + 1).error().code, ErrorCode::kInvalidArgument);
  Sequence sequence = Start(cache, Numbers(1, 64), {.max_tokens = 4096});
  EXPECT_EQ(cache.Resize(64 * 1024).error().code, ErrorCode::kLimit);
  EXPECT_EQ(cache.Resize(0).error().code, ErrorCode::kLimit);
  EXPECT_EQ(cache.memory_bytes(), 512u * 1024);
  EXPECT_TRUE(cache.Resize(256 * 1024));
  Store(sequence, Numbers(1, 64));
  cache.CheckInvariants();
}

TEST(CacheTest, EveryByteIsInTheReport) {
  Cache cache = MakeCache(HybridLayout(),
                          {.memory_bytes = 300'000, .accounts = {{.name = "a"}, {.name = "b"}}});
  EXPECT_EQ(SumOf(cache.Memory()), 300'000u);
  Remember(cache, Numbers(1, 100));
  Sequence sequence = Start(cache, Numbers(1, 200), {.max_tokens = 300, .account = 2});
  Store(sequence, Numbers(static_cast<TokenId>(1 + sequence.size()), 200 - sequence.size()));
  const MemoryReport memory = cache.Memory();
  EXPECT_EQ(SumOf(memory), memory.memory_bytes);
  EXPECT_GT(memory.BytesIn(BlockState::kShared), 0u);
  bool has_account = false;
  for (const MemoryRow& row : memory.rows) has_account |= row.account == 2;
  EXPECT_TRUE(has_account);
}

TEST(CacheTest, AnAccountStaysBelowItsCeiling) {
  Cache cache = MakeCache(SmallLayout(),
                          {.memory_bytes = 256 * 1024,
                           .accounts = {{.name = "small", .ceiling_bytes = 8 * kSmallBlockBytes}}});
  EXPECT_EQ(cache.Admit(TestScope(), {}, {.max_tokens = 9 * 16, .account = 1}).error().code,
            ErrorCode::kLimit);
  EXPECT_EQ(cache.Admit(TestScope(), {}, {.max_tokens = 8 * 16, .account = 1})->status,
            AdmitStatus::kAdmitted);
}

TEST(CacheTest, RetentionEndsOnTheGivenClock) {
  std::int64_t now_ns = 1;
  Cache cache = MakeCache(SmallLayout(), {.memory_bytes = 8 * kSmallBlockBytes,
                                          .now_ns = [&now_ns] { return now_ns; }});
  const auto remember = [&cache](TokenId first, Retention retention) {
    Sequence sequence =
        Start(cache, Numbers(first, 48), {.max_tokens = 48, .retention = retention});
    Store(sequence, Numbers(first, 48));
  };
  remember(1, {.level = 7, .ttl_ns = 1'000'000'000});
  remember(1000, {});
  remember(2000, {});  // needs a block: of the default level
  EXPECT_EQ(cache.Probe(TestScope(), Numbers(1, 49))->hit_tokens, 48u);
  now_ns += 5'000'000'000;
  remember(3000, {});
  remember(4000, {});
  EXPECT_LT(cache.Probe(TestScope(), Numbers(1, 49))->hit_tokens, 48u);
  now_ns -= 9'000'000'000;  // a clock that goes back stands still
  remember(5000, {});
  cache.CheckInvariants();
}

TEST(ReportTest, NamesAreThereForAllValues) {
  for (int reason = 0; reason <= static_cast<int>(MissReason::kDisabled); ++reason) {
    EXPECT_FALSE(NameOf(static_cast<MissReason>(reason)).empty());
    EXPECT_FALSE(LookupReport{.reason = static_cast<MissReason>(reason)}.Explain().empty());
  }
  EXPECT_EQ(NameOf(static_cast<MissReason>(200)), "unknown");
  EXPECT_EQ(LookupReport{.reason = static_cast<MissReason>(200)}.Explain(), "unknown");
  EXPECT_EQ(NameOf(BlockState::kIdle), "idle");
  EXPECT_EQ(NameOf(static_cast<BlockState>(200)), "unknown");
}

}  // namespace
}  // namespace ashlar::cache
