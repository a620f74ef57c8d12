// A cache in its steady state takes nothing from operator new: counted, in a program of its own, by
// replacing it. Steady means that as many sequences were live before, and as long ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "base/testing/allocation_count.h"
#include "kv/cache.h"

namespace ashlar::kv {
namespace {

constexpr std::uint64_t kBlockTokens = 16;
constexpr std::uint64_t kTextTokens = 20 * kBlockTokens;
constexpr int kWarmUps = 200;  // every block was replaced several times by then
constexpr int kRounds = 200;

// A group that keeps all tokens and one with a window, which is encoded or not; room for some 100
// blocks of each.
KvLayout TwoGroups(KvCodec codec) {
  auto layout = KvLayout::Create(
      {.block_tokens = kBlockTokens,
       .groups = {{.name = "full", .lanes = LanesOfAllLayers(1, 1), .key_dim = 8, .value_dim = 8},
                  {.name = "sliding",
                   .lanes = LanesOfAllLayers(1, 1, 1),
                   .key_dim = 8,
                   .value_dim = 8,
                   .key_codec = codec,
                   .value_codec = codec,
                   .window = 64}}});
  EXPECT_TRUE(layout.ok()) << layout.error().message;
  return std::move(*layout);
}

class CacheAllocation : public testing::TestWithParam<std::tuple<ReplacementKind, KvCodecKind>> {
 protected:
  CacheAllocation() {
    const KvLayout layout = TwoGroups({.kind = std::get<1>(GetParam())});
    is_encoded_ = layout.has_encoded();
    auto cache = KvCache::Create(
        layout,
        {.memory_bytes = 100 * (layout.group(0).block_bytes() + layout.group(1).block_bytes()),
         .has_bytes = false,
         .replacement = std::get<0>(GetParam())},
        clock_);
    EXPECT_TRUE(cache.ok()) << cache.error().message;
    cache_ = std::move(*cache);
  }

  Prompt PromptOf(std::span<const TokenId> tokens) {
    return {.scope = scope_, .digest = digest_, .tokens = tokens, .hashes = nullptr};
  }

  // A text that differs from all others from its first token on.
  std::span<const TokenId> Text(int number) {
    text_[0] = 1000 + number;
    return text_;
  }

  std::optional<Sequence> Admit(std::span<const TokenId> tokens, std::uint64_t max_tokens) {
    return cache_
        ->Admit(PromptOf(tokens), {.max_tokens = max_tokens, .chunk = 64, .max_rollback = 8})
        .sequence;
  }

  // In chunks, as an engine would.
  static bool Store(Sequence& sequence, std::span<const TokenId> tokens) {
    while (sequence.size() < tokens.size()) {
      const auto chunk = tokens.subspan(
          sequence.size(), std::min<std::uint64_t>(64, tokens.size() - sequence.size()));
      if (!sequence.Prepare(chunk.size())) return false;
      sequence.Commit(chunk);
    }
    return true;
  }

  // What `round` takes from operator new once it has been done often enough.
  std::uint64_t AllocationsOf(const std::function<bool(int)>& round) {
    for (int i = 0; i < kWarmUps; ++i) EXPECT_TRUE(round(i));
    bool is_done = true;
    const std::uint64_t before = AllocationsSoFar().calls;
    for (int i = kWarmUps; i < kWarmUps + kRounds; ++i) is_done = round(i) && is_done;
    const std::uint64_t after = AllocationsSoFar().calls;
    EXPECT_TRUE(is_done);
    cache_->CheckInvariants();
    return after - before;
  }

  SteadyClock clock_;
  const Scope scope_ = {.model_fingerprint = "m", .codec_spec = "f16"};
  const ScopeDigest digest_ = DigestOf(scope_);
  std::vector<TokenId> text_ = std::vector<TokenId>(kTextTokens, 7);
  bool is_encoded_ = false;
  std::unique_ptr<KvCache> cache_;
};

TEST_P(CacheAllocation, NewTextsThatReplaceOthersTakeNothing) {
  const std::uint64_t allocations = AllocationsOf([&](int i) {
    auto sequence = Admit(Text(i), kTextTokens);
    return sequence && Store(*sequence, Text(i));
  });
  EXPECT_EQ(allocations, 0u);
  EXPECT_GT(cache_->counters().replaced_blocks, 1000u);
}

TEST_P(CacheAllocation, HitsOfWholeBlocksTakeNothing) {
  const auto prompt = Text(0);
  const std::uint64_t hits_before = cache_->counters().hit_tokens;
  const std::uint64_t allocations = AllocationsOf([&](int) {
    auto sequence = Admit(prompt.first(kTextTokens - kBlockTokens + 1), kTextTokens);
    return sequence && Store(*sequence, prompt);
  });
  EXPECT_EQ(allocations, 0u);
  EXPECT_GT(cache_->counters().hit_tokens - hits_before, kRounds * kTextTokens / 2);
}

TEST_P(CacheAllocation, DecodingTakesNothing) {
  auto sequence = Admit(Text(0).first(kBlockTokens), kTextTokens);
  ASSERT_TRUE(sequence && Store(*sequence, Text(0).first(kBlockTokens)));
  std::uint64_t allocations = 0;
  for (std::uint64_t size = sequence->size(); size < kTextTokens; ++size) {
    const auto token = Text(0).subspan(size, 1);
    const std::uint64_t before = AllocationsSoFar().calls;
    const bool is_prepared = sequence->Prepare(1);
    sequence->Commit(token);
    allocations += AllocationsSoFar().calls - before;
    ASSERT_TRUE(is_prepared);
  }
  EXPECT_LE(allocations, 3u);  // the first block a window passes makes its owner's queue
  sequence.reset();
  sequence = Admit(Text(1).first(kBlockTokens), kTextTokens);  // in the memory of the first
  ASSERT_TRUE(sequence && Store(*sequence, Text(1).first(kBlockTokens)));
  const std::uint64_t before = AllocationsSoFar().calls;
  bool is_done = true;
  for (std::uint64_t size = sequence->size(); size < kTextTokens; ++size) {
    is_done = sequence->Prepare(1) && is_done;
    sequence->Commit(Text(1).subspan(size, 1));
  }
  EXPECT_EQ(AllocationsSoFar().calls - before, 0u);
  EXPECT_TRUE(is_done);
}

TEST_P(CacheAllocation, ForksAndTheirCopiesTakeNothing) {
  const std::uint64_t tokens = kTextTokens - kBlockTokens / 2;  // the last block is shared, open
  auto sequence = Admit(Text(0).first(tokens), kTextTokens);
  ASSERT_TRUE(sequence && Store(*sequence, Text(0).first(tokens)));
  const std::uint64_t allocations = AllocationsOf([&](int i) {
    auto fork = sequence->Fork(kTextTokens);
    if (!fork || !fork->Prepare(1)) return false;
    const TokenId token = i;
    fork->Commit(std::span(&token, 1));
    return true;
  });
  EXPECT_EQ(allocations, 0u);
}

TEST_P(CacheAllocation, GoingBackTakesNothing) {
  const std::uint64_t tokens = kTextTokens - kBlockTokens / 2;
  auto sequence = Admit(Text(0).first(tokens), kTextTokens);
  ASSERT_TRUE(sequence && Store(*sequence, Text(0).first(tokens)));
  const std::uint64_t allocations = AllocationsOf([&](int) {
    if (!sequence->Prepare(4)) return false;
    sequence->Commit(Text(0).subspan(tokens, 4));
    return sequence->Truncate(tokens) == tokens;
  });
  EXPECT_EQ(allocations, 0u);
}

TEST_P(CacheAllocation, LookupsTakeNothing) {
  {
    auto sequence = Admit(Text(0), kTextTokens);
    ASSERT_TRUE(sequence && Store(*sequence, Text(0)));
  }
  const std::uint64_t allocations = AllocationsOf([&](int i) {
    const bool is_known = i % 2 == 0;
    return (cache_->Probe(PromptOf(Text(is_known ? 0 : 1))).hit_tokens > 0) == is_known;
  });
  EXPECT_EQ(allocations, 0u);
}

TEST_P(CacheAllocation, LeasesTakeNothing) {
  {
    auto sequence = Admit(Text(0), kTextTokens);
    ASSERT_TRUE(sequence && Store(*sequence, Text(0)));
  }
  const std::uint64_t allocations = AllocationsOf(
      [&](int) { return !cache_->Lookup(PromptOf(Text(0)), kCommonAccount, nullptr).empty(); });
  EXPECT_EQ(allocations, 0u);
}

TEST_P(CacheAllocation, PartialHitsTakeNothing) {
  constexpr std::uint64_t kCommon = 10 * kBlockTokens + 8;
  {
    auto sequence = Admit(Text(0), kTextTokens);
    ASSERT_TRUE(sequence && Store(*sequence, Text(0)));
  }
  std::vector<TokenId> other(Text(0).begin(), Text(0).end());
  const std::uint64_t allocations = AllocationsOf([&](int i) {
    other[kCommon] = 100'000 + i;
    const auto sequence = Admit(other, kTextTokens);
    const std::uint64_t part = is_encoded_ ? kCommon % kBlockTokens : 0;
    return sequence && sequence->hit_tokens() == kCommon - part;
  });
  EXPECT_EQ(allocations, 0u);
}

TEST(CacheAllocationCounter, Counts) {
  const std::uint64_t before = AllocationsSoFar().calls;
  int* volatile escaped = new int(1);  // volatile: or the compiler drops the pair
  delete escaped;
  EXPECT_GT(AllocationsSoFar().calls, before);
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, CacheAllocation,
                         testing::Combine(testing::ValuesIn(kReplacementKinds),
                                          testing::Values(KvCodecKind::kF16, KvCodecKind::kQ8)),
                         [](const auto& test) {
                           std::string name(NameOf(std::get<0>(test.param)));
                           std::erase(name, '-');
                           return name.append("_").append(NameOf(std::get<1>(test.param)));
                         });

}  // namespace
}  // namespace ashlar::kv
