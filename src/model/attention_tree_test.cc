// The tree mask: every token of a tree has the bits that a plain sequence along its path has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "model/attention.h"
#include "model/testing/attention_rig.h"

namespace ashlar::model {
namespace {

using kernels::testing::Random;
using Part = AttentionRig::Part;
using Sequence = AttentionRig::Sequence;

struct Tree {
  Text tokens;
  std::vector<std::int32_t> parents;

  // The tokens that lead to one, itself included.
  Text PathTo(std::size_t token) const {
    Text path;
    for (auto at = static_cast<std::int32_t>(token); at >= 0; at = parents[at]) {
      path.insert(path.begin(), tokens[at]);
    }
    return path;
  }
};

// Long branches: two of three tokens go on from the one before.
Tree RandomTree(std::size_t tokens, std::uint64_t seed) {
  Random random(seed);
  Tree tree{.tokens = RandomText(tokens, seed), .parents = {}};
  for (std::size_t i = 0; i < tokens; ++i) {
    const auto any = static_cast<std::int32_t>(random.Below(i + 1)) - 1;
    tree.parents.push_back(random.Below(3) > 0 ? static_cast<std::int32_t>(i) - 1 : any);
  }
  return tree;
}

Tree Chain(std::size_t tokens, std::uint64_t seed) {
  Tree tree{.tokens = RandomText(tokens, seed), .parents = {}};
  for (std::size_t i = 0; i < tokens; ++i) {
    tree.parents.push_back(static_cast<std::int32_t>(i) - 1);
  }
  return tree;
}

// Room for a tree of kMaxTreeTokens.
RigShape WithOpenBlocks(RigShape shape) {
  shape.open_blocks = 1 + kMaxTreeTokens / shape.block_tokens;
  return shape;
}

// The result of a token alone: the last row of its path, computed as plain text.
std::vector<float> Along(AttentionRig& rig, const Sequence& base, const Text& path) {
  Sequence plain = rig.Clone(base, 0);
  const std::vector<float> rows = rig.Step(plain, path, {});
  const std::size_t width = rows.size() / path.size();
  return {rows.end() - static_cast<std::ptrdiff_t>(width), rows.end()};
}

void ExpectEveryTokenIsThatOfItsPath(AttentionRig& rig, const Sequence& base, const Tree& tree,
                                     const AttentionRig::How& how) {
  Sequence sequence = rig.Clone(base, 0);
  const Part part = {&sequence, tree.tokens, tree.parents};
  const std::vector<float> got = rig.Step({&part, 1}, how)[0];
  const std::size_t width = got.size() / tree.tokens.size();
  for (std::size_t i = 0; i < tree.tokens.size(); ++i) {
    const std::vector<float> want = Along(rig, base, tree.PathTo(i));
    ASSERT_TRUE(std::isfinite(want[0]));
    ASSERT_TRUE(
        std::equal(want.begin(), want.end(), got.begin() + static_cast<std::ptrdiff_t>(i * width)))
        << "token " << i << " of " << tree.tokens.size() << ", text of " << base.text.size();
  }
}

class EveryTree : public testing::TestWithParam<std::size_t> {};

TEST_P(EveryTree, TokensAreThoseOfAPlainSequenceAlongTheirPath) {
  const RigShape shape = WithOpenBlocks(SampleShape(GetParam()));
  AttentionRig rig(shape, 128);
  const std::uint32_t block = shape.block_tokens;
  Sequence base = rig.NewSequence();
  // The text ends on a border, just before one, just after one, and a segment or two later.
  for (const std::size_t length : {0u, block - 1, block, 2 * block + 3, 250u}) {
    rig.Fill(base, RandomText(length - base.text.size(), length), 100);
    const std::uint64_t seed = 100 * GetParam() + length;
    const std::size_t threads = 1 + length % 3;
    ExpectEveryTokenIsThatOfItsPath(rig, base, RandomTree(2 + seed % 25, seed),
                                    {.threads = threads});
  }
}

INSTANTIATE_TEST_SUITE_P(Sample, EveryTree, testing::Range<std::size_t>(0, 2 * kSampleRound),
                         [](const auto& param_info) {
                           return NameOf(SampleShape(param_info.param));
                         });

RigShape SmallShape(KvCodec key, KvCodec value) {
  RigShape shape{.heads = 2, .kv_heads = 1};
  shape.groups = {{.codecs = {key, value}}};
  return WithOpenBlocks(shape);
}
constexpr KvCodec kHq8 = {.kind = KvCodecKind::kQ8, .is_rotated = true};
constexpr KvCodec kQ4 = {.kind = KvCodecKind::kQ4, .is_rotated = false};

// As deep as they come, over up to four borders; and one token alone.
TEST(AttentionTree, TheLongestPathsCrossEveryBorder) {
  AttentionRig rig(SmallShape(kHq8, kQ4), 128);
  Sequence base = rig.NewSequence();
  for (const std::size_t length : {16, 31, 40, 240}) {
    rig.Fill(base, RandomText(length - base.text.size(), length), 100);
    ExpectEveryTokenIsThatOfItsPath(rig, base, Chain(kMaxTreeTokens, length), {.threads = 2});
    ExpectEveryTokenIsThatOfItsPath(rig, base, RandomTree(kMaxTreeTokens, length), {.threads = 3});
    ExpectEveryTokenIsThatOfItsPath(rig, base, RandomTree(1, length), {.threads = 3});
  }
}

// Softmax of several spans, a latent, and a spec that changes everything.
TEST(AttentionTree, HoldsBehindALongTextAndForEverySpec) {
  const std::vector<float> logits = {1.0f, -2.0f};
  RigShape shape = SmallShape(kHq8, kHq8);
  shape.spec = {.scale = 0.2f, .softcap = 10.0f, .sink_logits = logits};
  RigShape latent = SmallShape(kHq8, kHq8);
  latent.head_dim = 96;
  latent.spec = {.latent_dim = 64};
  RigShape groups = SmallShape(kHq8, kQ4);
  groups.groups.push_back({.codecs = {{.kind = KvCodecKind::kF16}, {.kind = KvCodecKind::kKc4}}});
  groups.groups.push_back({.codecs = {{.kind = KvCodecKind::kF32}, {.kind = KvCodecKind::kBF16}}});
  for (const RigShape& one : {shape, latent, groups}) {
    AttentionRig rig(one, 128);
    Sequence base = rig.NewSequence();
    rig.Fill(base, RandomText(1310, 1), 100);
    ExpectEveryTokenIsThatOfItsPath(rig, base, RandomTree(20, 2), {.threads = 3});
  }
}

TEST(AttentionTree, IsTheSameBitsInABatchAndTouchesNoOtherChunk) {
  AttentionRig rig(SmallShape(kHq8, kQ4), 256);
  Sequence base = rig.NewSequence();
  rig.Fill(base, RandomText(1060, 1), 100);
  const Tree tree = RandomTree(30, 2);
  const Text text = RandomText(50, 3);
  Sequence alone[] = {rig.Clone(base, 0), rig.Clone(base, 0), rig.Clone(base, 0)};
  const Part tree_alone = {&alone[0], tree.tokens, tree.parents};
  const std::vector<float> of_tree = rig.Step({&tree_alone, 1}, {})[0];
  const std::vector<float> of_chunk = rig.Step(alone[1], text, {});
  const std::vector<float> of_decode = rig.Step(alone[2], std::span(text).first(1), {});
  for (const std::size_t threads : {1, 3}) {
    Sequence s[5];
    for (Sequence& sequence : s) sequence = rig.Clone(base, 1 << 20);
    const auto got = rig.Step(std::vector<Part>{{&s[0], std::span(text).first(1)},
                                                {&s[1], tree.tokens, tree.parents},
                                                {&s[2], text},
                                                {&s[3], std::span(text).first(1)},
                                                {&s[4], tree.tokens, tree.parents}},
                              {.threads = threads});
    EXPECT_TRUE(got[0] == of_decode && got[3] == of_decode);
    EXPECT_TRUE(got[1] == of_tree && got[4] == of_tree);
    EXPECT_TRUE(got[2] == of_chunk);
  }
}

// The text goes on from where it was: the open block is as it was, and no block was sealed.
TEST(AttentionTree, LeavesTheTextAsItWas) {
  for (const KvCodec key : {kHq8, KvCodec{.kind = KvCodecKind::kF16}}) {
    AttentionRig rig(SmallShape(key, kQ4), 128);
    Sequence base = rig.NewSequence();
    rig.Fill(base, RandomText(42, 1), 100);
    Sequence tried = rig.Clone(base, 0);
    const Tree tree = RandomTree(kMaxTreeTokens, 2);
    const Part part = {&tried, tree.tokens, tree.parents};
    (void)rig.Step({&part, 1}, {.threads = 2});
    const std::size_t bytes = rig.BlockBytes(0);
    for (std::size_t b = 0; b < tried.groups[0].blocks.size(); ++b) {
      const std::byte* const block = tried.groups[0].blocks[b];
      if (b < 2) {
        EXPECT_EQ(std::memcmp(block, base.groups[0].blocks[b], bytes), 0);
      } else {
        EXPECT_TRUE(
            std::all_of(block, block + bytes, [](std::byte x) { return x == std::byte{0xFF}; }));
      }
    }
    const Text next = RandomText(40, 3);
    EXPECT_TRUE(rig.Step(tried, next, {}) == rig.Step(base, next, {}));
  }
}

TEST(AttentionTree, ATapHasTheLogitsAlongThePath) {
  RigShape shape = SmallShape(kHq8, kQ4);
  AttentionRig rig(shape, 128);
  Sequence base = rig.NewSequence();
  rig.Fill(base, RandomText(60, 1), 100);
  const Tree tree = Chain(20, 2);
  std::vector<float> logits[2], lse[2];
  for (const std::size_t is_tree : {0, 1}) {
    logits[is_tree].assign(20 * shape.heads * 256, -1.0f);
    lse[is_tree].assign(20 * shape.heads, -1.0f);
    const AttentionTap tap = {.last_tokens = 20,
                              .logits = logits[is_tree].data(),
                              .stride = 256,
                              .lse = lse[is_tree].data()};
    Sequence sequence = rig.Clone(base, 0);
    const Part part = {&sequence, tree.tokens,
                       is_tree == 1 ? std::span<const std::int32_t>(tree.parents)
                                    : std::span<const std::int32_t>{}};
    (void)rig.Step({&part, 1}, {.tap = &tap});
  }
  EXPECT_TRUE(logits[1] == logits[0]);
  EXPECT_TRUE(lse[1] == lse[0]);
}

TEST(AttentionTree, OneWithATokenThatIsNotFiniteIsRefused) {
  AttentionRig rig(SmallShape(kHq8, kQ4), 128);
  Sequence base = rig.NewSequence();
  rig.Fill(base, RandomText(60, 1), 100);
  Tree tree = Chain(30, 2);
  tree.tokens[3] = kInfiniteKeyToken;
  const Text text = RandomText(5, 3);
  Sequence s[2] = {rig.Clone(base, 0), rig.Clone(base, 0)};
  Sequence alone = rig.Clone(base, 0);
  const auto got =
      rig.Step(std::vector<Part>{{&s[0], tree.tokens, tree.parents}, {&s[1], text}}, {});
  EXPECT_TRUE(rig.IsRefused(0));
  EXPECT_FALSE(rig.IsRefused(1));
  EXPECT_TRUE(got[1] == rig.Step(alone, text, {}));
}

// Of what the cache holds: the text's sealed blocks, for each token of the tree.
TEST(AttentionTree, CountsWhatEachTokenReads) {
  AttentionRig rig(SmallShape(kHq8, kQ4), 128);
  Sequence base = rig.NewSequence();
  rig.Fill(base, RandomText(60, 1), 100);
  const Tree tree = Chain(20, 2);
  const Part part = {&base, tree.tokens, tree.parents};
  (void)rig.Step({&part, 1}, {.what = AttentionRig::Do::kPlan});
  EXPECT_EQ(rig.planned_bytes(0), 20 * 3 * rig.BlockBytes(0));
  EXPECT_EQ(rig.planned_items(0), 20u);
}

TEST(TreeDepth, CountsTheTokensBeforeOneOnItsPath) {
  const std::vector<std::int32_t> parents = {-1, 0, 0, 2, -1, 4, 3};
  const std::vector<std::size_t> want = {0, 1, 1, 2, 0, 1, 3};
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(TreeDepth(parents, i), want[i]) << i;
  EXPECT_EQ(TreeDepth({}, 5), 5u);
}

TEST(AttentionTreeDeathTest, WhatIsNoTreeIsABug) {
  const auto plan = [&](const RigShape& shape, std::vector<std::int32_t> parents,
                        std::size_t tokens) {
    AttentionRig one(shape, 128);
    Sequence sequence = one.NewSequence();
    const Text text = RandomText(tokens, 1);
    const Part part = {&sequence, text, parents};
    (void)one.Step({&part, 1}, {.what = AttentionRig::Do::kPlan});
  };
  const RigShape shape = SmallShape(kHq8, kQ4);
  const Tree most = Chain(kMaxTreeTokens, 1);
  const Tree more = Chain(kMaxTreeTokens + 1, 1);
  plan(shape, most.parents, kMaxTreeTokens);
  EXPECT_DEATH(plan(shape, more.parents, kMaxTreeTokens + 1), "at most 64");
  EXPECT_DEATH(plan(shape, {-1, 1}, 2), "goes on from 1");
  EXPECT_DEATH(plan(shape, {-2}, 1), "goes on from -2");
  EXPECT_DEATH(plan(shape, {-1}, 2), "1 parents of 2 tokens");
  RigShape windowed = shape;
  windowed.groups[0].window = 100;
  EXPECT_DEATH(plan(windowed, {-1}, 1), "with a window");
  RigShape few = shape;
  few.open_blocks = 1;
  plan(few, Chain(16, 1).parents, 16);
  EXPECT_DEATH(plan(few, Chain(17, 1).parents, 17), "a tree in 2 blocks, 1 open ones");
}

}  // namespace
}  // namespace ashlar::model
