// Whatever happens, every slot of every sequence holds what was written for its prefix: in the
// cache's own bytes, and in an embedder's memory that makes the copies it is told to.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "ashlar/kv_cache.h"
#include "embed/testing/small_cache.h"

namespace ashlar::cache {
namespace {

using testing::HybridLayout;
using testing::MakeCache;
using testing::Numbers;
using testing::Remember;
using testing::SmallLayout;
using testing::Start;
using testing::Store;
using testing::TestScope;

constexpr std::size_t kBlockTokens = 16;
using Slots = std::array<std::uint64_t, kBlockTokens>;  // what stands for K and V of a token

// An engine whose K and V of a token is a hash of the prefix that ends with it.
class HashEngine {
 public:
  HashEngine(Storage storage, std::uint32_t seed)
      : cache_(MakeCache(HybridLayout(), {.memory_bytes = 40 * 512, .storage = storage})),
        is_owned_(storage == Storage::kOwned),
        memory_(cache_.max_blocks()),
        random_(seed) {}

  void Step() {
    const std::uint32_t what = random_() % 10;
    if (sequences_.empty() || what < 2) return Admit();
    const std::size_t i = random_() % sequences_.size();
    if (what < 7) return Extend(sequences_[i]);
    if (what == 7) return (void)sequences_[i].Truncate(random_() % (sequences_[i].size() + 1));
    if (what == 8 && sequences_.size() < 6) return Fork(i);
    sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  void Check() {
    MakeCopies();
    for (const Sequence& sequence : sequences_) CheckSlots(sequence);
    cache_.CheckInvariants();
  }

  Counters counters() const { return cache_.counters(); }
  std::uint64_t copies() const { return copies_; }

 private:
  void Admit() {
    std::vector<TokenId> prompt = Numbers(static_cast<TokenId>(random_() % 2), 20);
    const std::size_t length = 20 + random_() % 40;
    while (prompt.size() < length) prompt.push_back(static_cast<TokenId>(random_() % 2));
    Expected<Admission> admission = cache_.Admit(TestScope(), prompt,
                                                 {.max_tokens = 100,
                                                  .chunk = 20,
                                                  .max_rollback = random_() % 20,
                                                  .on_pending = OnPending::kCompute});
    ASSERT_TRUE(admission);
    if (admission->sequence) sequences_.push_back(std::move(*admission->sequence));
  }

  void Extend(Sequence& sequence) {
    const std::size_t count = std::min<std::size_t>(1 + random_() % 20, 100 - sequence.size());
    std::vector<TokenId> tokens;
    while (tokens.size() < count) tokens.push_back(static_cast<TokenId>(random_() % 2));
    const Expected<void> prepared = sequence.Prepare(count);
    ASSERT_TRUE(prepared) << prepared.error().message;
    MakeCopies();
    std::uint64_t hash = HashOf(sequence.tokens());
    for (std::size_t i = 0; i < count; ++i) {
      hash = Next(hash, tokens[i]);
      const std::uint64_t position = sequence.size() + i;
      for (std::uint32_t g = 0; g < 2; ++g) Slot(sequence, g, position) = hash;
    }
    ASSERT_TRUE(sequence.Commit(tokens));
  }

  void Fork(std::size_t i) {
    Expected<Sequence> fork = sequences_[i].Fork(100);
    if (fork) sequences_.push_back(std::move(*fork));
  }

  void MakeCopies() {
    for (const BlockCopy& copy : cache_.TakeCopies()) {
      ASSERT_NE(copy.source, copy.target);
      memory_[copy.target] = memory_[copy.source];
      ++copies_;
    }
  }

  std::uint64_t& Slot(const Sequence& sequence, std::uint32_t group, std::uint64_t position) {
    const std::size_t number = position / kBlockTokens;
    Slots& slots = is_owned_ ? *reinterpret_cast<Slots*>((*sequence.Addresses(group))[number])
                             : memory_[(*sequence.Blocks(group))[number]];
    return slots[position % kBlockTokens];
  }

  void CheckSlots(const Sequence& sequence) {
    std::uint64_t hash = 0;
    for (std::uint64_t position = 0; position < sequence.size(); ++position) {
      hash = Next(hash, sequence.tokens()[position]);
      for (std::uint32_t g = 0; g < 2; ++g) {
        if ((*sequence.Blocks(g))[position / kBlockTokens] == kNoBlock) continue;
        ASSERT_EQ(Slot(sequence, g, position), hash) << "group " << g << " position " << position;
      }
    }
  }

  static std::uint64_t Next(std::uint64_t hash, TokenId token) {
    return (hash + static_cast<std::uint64_t>(token) + 1) * 0x9E3779B97F4A7C15ull;
  }
  static std::uint64_t HashOf(std::span<const TokenId> tokens) {
    std::uint64_t hash = 0;
    for (const TokenId token : tokens) hash = Next(hash, token);
    return hash;
  }

  Cache cache_;
  bool is_owned_;
  std::vector<Slots> memory_;  // by block id
  std::mt19937 random_;
  std::vector<Sequence> sequences_;
  std::uint64_t copies_ = 0;
};

class StorageTest : public ::testing::TestWithParam<Storage> {};

TEST_P(StorageTest, EverySlotHoldsWhatWasWrittenForItsPrefix) {
  for (std::uint32_t seed = 0; seed < 8; ++seed) {
    HashEngine engine(GetParam(), seed);
    for (int step = 0; step < 300; ++step) {
      engine.Step();
      engine.Check();
      if (HasFatalFailure()) FAIL() << "seed " << seed << " step " << step;
    }
    EXPECT_GT(engine.counters().copied_blocks, 0u);
    EXPECT_GT(engine.counters().replaced_blocks, 0u);
    EXPECT_EQ(engine.copies(), GetParam() == Storage::kOwned ? 0 : engine.counters().copied_blocks);
  }
}

INSTANTIATE_TEST_SUITE_P(All, StorageTest,
                         ::testing::Values(Storage::kOwned, Storage::kDecisionsOnly));

TEST(CopiesTest, WithoutBytesThereAreNoAddresses) {
  Cache cache =
      MakeCache(SmallLayout(), {.memory_bytes = 1 << 16, .storage = Storage::kDecisionsOnly});
  Remember(cache, Numbers(1, 64));
  const Sequence sequence = Start(cache, Numbers(1, 64), {.max_tokens = 64});
  EXPECT_EQ(sequence.Addresses(0).error().code, ErrorCode::kUnsupported);
  const Expected<LookupResult> found = cache.Lookup(TestScope(), Numbers(1, 64));
  EXPECT_EQ(found->lease.Address(0, 0).error().code, ErrorCode::kUnsupported);
}

TEST(CopiesTest, CopiesThatNobodyTakesReachALimit) {
  Cache cache =
      MakeCache(SmallLayout(), {.memory_bytes = 1 << 16, .storage = Storage::kDecisionsOnly});
  Remember(cache, Numbers(1, 20));
  for (std::size_t i = 0; i < kMaxWaitingCopies; ++i) {
    const Expected<Admission> admission =
        cache.Admit(TestScope(), Numbers(1, 10), {.max_tokens = 16});
    ASSERT_TRUE(admission) << i;
    ASSERT_EQ(admission->sequence->hit_tokens(), 9u);
  }
  EXPECT_EQ(cache.Admit(TestScope(), Numbers(1, 10), {.max_tokens = 16}).error().code,
            ErrorCode::kLimit);
  EXPECT_EQ(cache.TakeCopies().size(), kMaxWaitingCopies);
  EXPECT_TRUE(cache.Admit(TestScope(), Numbers(1, 10), {.max_tokens = 16}));
}

}  // namespace
}  // namespace ashlar::cache
