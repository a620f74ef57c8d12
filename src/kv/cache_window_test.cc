// Windows: what passes is given back and can be found again; a hit is the longest prefix that is
// valid in every group.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
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

TEST(CacheWindow, PassedBlocksAreGivenBackAtOnce) {
  CacheScene scene(LayoutNamed("window"), RoomFor(32));  // of 40 tokens
  const Tokens text = Text(1, 200);
  Sequence sequence = scene.Start(text);
  for (std::uint64_t n = 1; n <= text.size(); ++n) {
    ASSERT_TRUE(scene.Compute(sequence, std::span(text).subspan(n - 1, 1)));
    for (std::uint64_t b = 0; b < sequence.blocks(0).size(); ++b) {
      // Block b ends before the first key that a query at n reads.
      const bool is_passed = (b + 1) * 16 + 40 <= n + 1;
      ASSERT_EQ(sequence.blocks(0)[b] == kNoBlock, is_passed) << "block " << b << " at " << n;
      ASSERT_EQ(sequence.addresses(0)[b] == nullptr, is_passed);
    }
  }
  EXPECT_EQ(scene.IdleBlocks(), 10u);
}

// Gemma 3 270M in f16 at its whole context: 3 full layers, 15 that see 512 tokens, one kv head of
// 256 channels each.
TEST(CacheWindow, At32kASlidingGroupHoldsItsWindowAndAChunkToTheByte) {
  constexpr std::uint64_t kContext = 32768;
  constexpr std::uint64_t kChunk = 256;
  constexpr std::uint64_t kWindow = 512;
  KvLayoutSpec spec;
  for (const auto& [name, layers, window] :
       {std::tuple{"full", 3u, std::uint64_t{0}}, {"sliding", 15u, kWindow}}) {
    LaneGroupSpec group = {.name = name,
                           .key_dim = 256,
                           .value_dim = 256,
                           .key_codec = {.kind = KvCodecKind::kF16},
                           .value_codec = {.kind = KvCodecKind::kF16},
                           .window = window};
    for (std::uint32_t i = 0; i < layers; ++i) {
      group.lanes.push_back({.layer = static_cast<std::uint32_t>(spec.groups.size()) * 3 + i});
    }
    spec.groups.push_back(std::move(group));
  }
  const ManualClock clock;
  const auto cache = *KvCache::Create(*KvLayout::Create(spec),
                                      {.memory_bytes = 256 << 20, .has_bytes = false}, clock);
  const Tokens text = Text(1, kContext);
  const Scope scope;
  const ScopeDigest digest = DigestOf(scope);
  std::optional<Sequence> sequence = cache
                                         ->Admit({.scope = scope, .digest = digest, .tokens = text},
                                                 {.max_tokens = kContext, .chunk = kChunk})
                                         .sequence;
  ASSERT_TRUE(sequence.has_value());
  constexpr std::uint64_t kFullBytes = 3 * (256 + 256) * 2;  // a token
  constexpr std::uint64_t kSlidingBytes = 15 * (256 + 256) * 2;
  for (std::uint64_t at = 0; at < kContext; at += kChunk) {
    ASSERT_TRUE(sequence->Prepare(kChunk));
    ASSERT_LE(sequence->group_bytes(1).held, (kWindow + kChunk) * kSlidingBytes);
    sequence->Commit(std::span(text).subspan(at, kChunk));
    ASSERT_LE(sequence->group_bytes(1).held, kWindow * kSlidingBytes);
  }
  EXPECT_EQ(sequence->group_bytes(0).held, 100'663'296u);
  EXPECT_EQ(sequence->group_bytes(0).most, kContext * kFullBytes);
  EXPECT_EQ(sequence->group_bytes(1).held, 7'864'320u);
  EXPECT_EQ(sequence->group_bytes(1).most, 11'796'480u);
  EXPECT_EQ((kWindow + kChunk) * kSlidingBytes, 11'796'480u);
}

TEST(CacheWindow, SinksStay) {
  CacheScene scene(LayoutNamed("sinks"), RoomFor(32));
  const Tokens text = Text(1, 200);
  Sequence sequence = scene.Start(text);
  scene.Finish(sequence, text);
  EXPECT_NE(sequence.blocks(0)[0], kNoBlock);
  EXPECT_EQ(sequence.blocks(0)[1], kNoBlock);
}

TEST(CacheWindow, PassedBlocksAreRevivedByAShorterPrompt) {
  CacheScene scene(LayoutNamed("hybrid"), {.memory_bytes = 1u << 18});
  const Tokens text = Text(1, 200);
  scene.Serve(text);
  for (std::uint64_t n = 2; n <= 200; ++n) {
    const Sequence sequence = scene.Start(First(text, n));
    ASSERT_EQ(sequence.size(), n - 1);
    ASSERT_EQ(CacheScene::HeldBy(sequence, 1),
              scene->layout().group(1).BlocksHeld(sequence.size(), 0));
  }
}

TEST(CacheWindow, RollbackGoesToWhereNothingThatIsReadIsLost) {
  CacheOptions options = RoomFor(6, LayoutNamed("window"));
  CacheScene scene(LayoutNamed("window"), options);
  const Tokens text = Text(1, 200);
  Sequence sequence = scene.Start(text);
  scene.Finish(sequence, text);
  // Six blocks: the live ones and the last two or three of those that passed.
  std::uint64_t least = 0;
  for (std::uint64_t b = 0; b < 200 / 16; ++b) {
    if (scene.Probe(Join(First(text, 16 * (b + 1)), Tokens{0})).hit_tokens == 16 * (b + 1)) {
      least = 16 * (b + 1);
      break;
    }
  }
  ASSERT_GT(least, 0u);
  ASSERT_LE(least, 200 - 40u);  // blocks 7 to 9 come back from the index
  EXPECT_EQ(sequence.Truncate(least), least);
  scene.Check(sequence);
  EXPECT_EQ(sequence.Truncate(least - 16), 0u);
}

TEST(CacheWindow, LongestPrefixIsRefusedWhereOnlyTheWindowIsMissing) {
  // The window group's blocks are lost first: they became idle while the text went on.
  CacheOptions options{.memory_bytes = BytesOfOneOfEach(LayoutNamed("hybrid")) * 16};
  CacheScene scene(LayoutNamed("hybrid"), options);
  const Tokens text = Text(1, 160);
  scene.Serve(text);
  std::uint64_t windows_passed = 0;
  for (std::uint64_t seed = 2; seed < 30; ++seed) {
    scene.Serve(Text(seed, 20));
    const LookupReport report = scene.Probe(First(text, 100));
    if (report.hit_tokens < 99 && report.reason == MissReason::kWindowPassed) ++windows_passed;
  }
  EXPECT_GT(windows_passed, 0u);
}

// --- The longest valid prefix, against brute force ---

// What the events say is stored, which knows nothing of how the cache finds it.
class Presence {
 public:
  Presence(const KvCache& cache, const ScopeDigest& digest)
      : layout_(cache.layout()), root_(RootKey(digest)) {
    for (SnapshotEntry& entry : cache.TakeSnapshot().entries) {
      groups_[entry.key].insert(entry.group);
      children_[entry.parent].push_back({entry.key, std::move(entry.tokens)});
    }
  }

  // Every length is tried, from the longest.
  std::uint64_t LongestHit(std::span<const TokenId> prompt) {
    std::vector<BlockKey> keys = {root_};
    for (std::uint64_t b = 0; b < prompt.size() / 16; ++b) {
      keys.push_back(hasher_.NextKey(keys.back(), prompt.subspan(b * 16, 16)));
    }
    std::uint64_t tokens = prompt.size() - 1;
    while (tokens > 0 && !IsValid(prompt, keys, tokens)) --tokens;
    return tokens;
  }

 private:
  struct Child {
    BlockKey key;
    Tokens tokens;
  };

  bool IsValid(std::span<const TokenId> prompt, const std::vector<BlockKey>& keys,
               std::uint64_t tokens) const {
    const std::uint64_t whole = tokens / 16;
    for (std::uint32_t g = 0; g < layout_.groups().size(); ++g) {
      const LaneGroupSpec& spec = layout_.group(g).spec();
      for (std::uint64_t i = 0; i < whole * 16; ++i) {
        const bool is_read = spec.window == 0 || i + spec.window > tokens || i < spec.sinks;
        if (is_read && !Has(keys[i / 16 + 1], g)) return false;
      }
    }
    if (tokens % 16 != 0 && layout_.has_encoded()) return false;
    return tokens % 16 == 0 || HasPart(keys[whole], prompt.subspan(whole * 16, tokens % 16));
  }
  bool Has(const BlockKey& key, std::uint32_t group) const {
    const auto found = groups_.find(key);
    return found != groups_.end() && found->second.contains(group);
  }
  bool HasPart(const BlockKey& parent, std::span<const TokenId> part) const {
    const auto found = children_.find(parent);
    if (found == children_.end()) return false;
    return std::ranges::any_of(found->second, [&](const Child& child) {
      return child.tokens.size() >= part.size() &&
             std::ranges::equal(std::span(child.tokens).first(part.size()), part) &&
             groups_.at(child.key).size() == layout_.groups().size();
    });
  }

  const KvLayout& layout_;
  BlockKey root_;
  KeyHasher hasher_;
  std::map<BlockKey, std::set<std::uint32_t>> groups_;
  std::map<BlockKey, std::vector<Child>> children_;
};

// Few documents, cut anywhere, with few endings.
Tokens RandomText(std::uint64_t seed, std::uint64_t i) {
  const std::uint64_t cut = RandomBits(seed, 1, i) % 180;
  return Join(Text(RandomBits(seed, 2, i) % 3, cut),
              Text(10 + RandomBits(seed, 3, i) % 3, 1 + RandomBits(seed, 4, i) % 30));
}

class LongestHit : public ::testing::TestWithParam<std::string> {};

TEST_P(LongestHit, IsTheLongestThatIsValidInAllGroups) {
  const KvLayoutSpec layout = LayoutNamed(GetParam());
  std::uint64_t cut_short = 0;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    for (const ReplacementKind kind : {ReplacementKind::kLru, ReplacementKind::kFifo}) {
      CacheScene scene(layout,
                       {.memory_bytes = BytesOfOneOfEach(layout) * 20, .replacement = kind});
      for (std::uint64_t i = 0; i < 40; ++i) {
        const Tokens served = RandomText(seed, i);
        if (Admission admission = scene.Admit(served); admission.sequence) {
          scene.Finish(*admission.sequence, served);
        }
        Presence presence(scene.cache(), scene.PromptOf(served).digest);
        for (std::uint64_t k = 0; k < 10; ++k) {
          const Tokens prompt = RandomText(seed + 100, i * 10 + k);
          const std::uint64_t expected = presence.LongestHit(prompt);
          const LookupReport report = scene.Probe(prompt);
          ASSERT_EQ(report.hit_tokens, expected) << report.Explain();
          if (report.reason == MissReason::kWindowPassed) ++cut_short;
        }
      }
      EXPECT_GT(scene->counters().replaced_blocks, 50u);
    }
  }
  EXPECT_TRUE(cut_short > 0 || (GetParam() != "hybrid" && GetParam() != "mixed"));
}

INSTANTIATE_TEST_SUITE_P(Layouts, LongestHit,
                         ::testing::Values("full", "window", "sinks", "hybrid", "mixed", "encoded",
                                           "codecs"),
                         [](const auto& param_info) { return param_info.param; });

}  // namespace
}  // namespace ashlar::kv
