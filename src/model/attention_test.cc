// However attention is cut, its results are the same bits, and what was read is counted.
#include "model/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "model/testing/attention_rig.h"

namespace ashlar::model {
namespace {

using kernels::kSegmentTokens;
using kernels::testing::Random;
using Do = AttentionRig::Do;
using Part = AttentionRig::Part;
using Sequence = AttentionRig::Sequence;

std::size_t LengthFor(const RigShape& shape) { return 150 + 40'000 / shape.head_dim; }

// All results of a text that is computed alone in one chunk.
std::vector<float> Whole(AttentionRig& rig, std::span<const std::uint64_t> text) {
  Sequence sequence = rig.NewSequence();
  return rig.Step(sequence, text, {});
}

void AppendTo(std::vector<float>& results, const std::vector<float>& more) {
  results.insert(results.end(), more.begin(), more.end());
}

class EveryShape : public testing::TestWithParam<std::size_t> {};

TEST_P(EveryShape, ChunksAndThreadsChangeNoBit) {
  const RigShape shape = SampleShape(GetParam());
  const Text text = RandomText(LengthFor(shape), GetParam());
  AttentionRig rig(shape, text.size());
  const std::vector<float> want = Whole(rig, text);
  for (const float value : want) ASSERT_TRUE(std::isfinite(value));
  Random random(GetParam());
  for (const std::size_t threads : {1, 2, 3}) {
    Sequence sequence = rig.NewSequence();
    std::vector<float> got;
    while (sequence.text.size() < text.size()) {
      const std::size_t rest = text.size() - sequence.text.size();
      const std::size_t most = random.Below(3) == 0 ? 1 : 120;
      const std::size_t count = std::min(rest, 1 + random.Below(most));
      AppendTo(got, rig.Step(sequence, std::span(text).subspan(sequence.text.size(), count),
                             {.threads = threads}));
    }
    ASSERT_TRUE(got == want) << threads << " threads";
  }
}

TEST_P(EveryShape, ABatchOfPrefillsAndDecodesChangesNoBit) {
  const RigShape shape = SampleShape(GetParam());
  constexpr std::size_t kSequences = 5;
  AttentionRig rig(shape, 1000);
  Random random(100 + GetParam());
  std::vector<Text> texts;
  std::vector<Sequence> sequences;
  std::vector<std::vector<float>> results(kSequences);
  for (std::size_t i = 0; i < kSequences; ++i) {
    texts.push_back(RandomText(20 + 90 * i, 10 * GetParam() + i));
    sequences.push_back(rig.NewSequence());
  }
  for (std::size_t step = 0;; ++step) {
    std::vector<Part> parts;
    std::vector<std::size_t> who;
    for (std::size_t i = 0; i < kSequences; ++i) {
      const std::size_t at = sequences[i].text.size();
      if (at == texts[i].size() || random.Below(5) == 0) continue;
      const std::size_t count = random.Below(2) == 0 ? 1 : 1 + random.Below(100);
      parts.push_back(
          {&sequences[i], std::span(texts[i]).subspan(at, std::min(count, texts[i].size() - at))});
      who.push_back(i);
    }
    if (parts.empty() && std::ranges::all_of(sequences, [&](const Sequence& sequence) {
          return sequence.text.size() == texts[&sequence - sequences.data()].size();
        })) {
      break;
    }
    if (parts.empty()) continue;
    const auto got = rig.Step(parts, {.threads = 1 + step % 3});
    for (std::size_t p = 0; p < who.size(); ++p) AppendTo(results[who[p]], got[p]);
  }
  for (std::size_t i = 0; i < kSequences; ++i) {
    ASSERT_TRUE(results[i] == Whole(rig, texts[i])) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Sample, EveryShape, testing::Range<std::size_t>(0, 2 * kSampleRound),
                         [](const auto& param_info) {
                           return NameOf(SampleShape(param_info.param));
                         });

TEST(Attention, LayersInGroupsOfTheirOwnChangeNoBit) {
  RigShape shape;
  shape.groups = {{.codecs = {SampleCodec(4, 1), SampleCodec(7, 0)}},
                  {.codecs = {SampleCodec(1, 0), SampleCodec(1, 0)}, .window = 100},
                  {.codecs = {SampleCodec(8, 0), SampleCodec(2, 0)}, .window = 48, .sinks = 4}};
  const Text text = RandomText(500, 1);
  AttentionRig rig(shape, text.size());
  const std::vector<float> want = Whole(rig, text);
  for (std::size_t layer = 0; layer < shape.groups.size(); ++layer) {
    const std::size_t last = (text.size() - 1) * shape.groups.size() + layer;
    const AttentionOracle oracle(shape, layer, text);
    EXPECT_LT(AttentionOracle::ErrorOf(std::span(want).subspan(last * shape.width(), shape.width()),
                                       oracle.At(text.size() - 1).out),
              oracle.Tolerance());
  }
  for (const std::size_t threads : {1, 3}) {
    Sequence sequence = rig.NewSequence();
    std::vector<float> got;
    for (std::size_t at = 0; at < text.size(); at += 37) {
      AppendTo(got,
               rig.Step(sequence,
                        std::span(text).subspan(at, std::min<std::size_t>(37, text.size() - at)),
                        {.threads = threads}));
    }
    EXPECT_TRUE(got == want) << threads;
  }
}

// --- Prefixes ---

// Sequences that share the first tokens[i] of one text (whole blocks of it by address) and go on by
// 1 to 40 tokens of their own.
struct Family {
  std::vector<Sequence> sequences;
  std::vector<std::uint64_t> shared;  // tokens in blocks that the longest prefix has too
};

Family MakeFamily(AttentionRig& rig, std::vector<std::size_t> prefixes, std::uint64_t seed) {
  Family family;
  family.sequences.resize(prefixes.size());
  const Text text = RandomText(std::ranges::max(prefixes), seed);
  Sequence base = rig.NewSequence();
  std::vector<std::size_t> order(prefixes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](std::size_t i) { return prefixes[i]; });
  for (const std::size_t i : order) {
    const std::size_t at = base.text.size();
    rig.Fill(base, std::span(text).subspan(at, prefixes[i] - at), 100);
    family.sequences[i] = rig.Clone(base, prefixes[i]);
    rig.Fill(family.sequences[i], RandomText(1 + (7 * i + seed) % 40, seed + i + 1), 100);
  }
  for (const std::size_t prefix : prefixes) {
    family.shared.push_back(prefix / rig.shape().block_tokens * rig.shape().block_tokens);
  }
  return family;
}

// One token more of each, all in one step.
std::vector<std::vector<float>> DecodeAll(AttentionRig& rig, std::vector<Sequence> sequences,
                                          const AttentionRig::How& how) {
  const Text next = RandomText(sequences.size(), 99);
  std::vector<Part> parts;
  parts.reserve(sequences.size());
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    parts.push_back({&sequences[i], std::span(next).subspan(i, 1)});
  }
  return rig.Step(parts, how);
}

std::vector<Sequence> CloneAll(AttentionRig& rig, const std::vector<Sequence>& sequences,
                               std::size_t shared_tokens) {
  std::vector<Sequence> clones;
  clones.reserve(sequences.size());
  for (const Sequence& sequence : sequences) clones.push_back(rig.Clone(sequence, shared_tokens));
  return clones;
}

struct PrefixCase {
  std::vector<std::size_t> prefixes;
  std::size_t seed;
};

class SharedPrefix : public testing::TestWithParam<PrefixCase> {};

TEST_P(SharedPrefix, SharedOrPrivateIsTheSameBits) {
  const PrefixCase& c = GetParam();
  RigShape shape = SampleShape(c.seed);
  shape.head_dim = std::min(shape.head_dim, 96u);
  AttentionRig rig(shape, 128);
  const Family family = MakeFamily(rig, c.prefixes, c.seed);
  // Alone, on one thread.
  std::vector<std::vector<float>> want;
  const Text next = RandomText(c.prefixes.size(), 99);
  for (std::size_t i = 0; i < c.prefixes.size(); ++i) {
    Sequence alone = rig.Clone(family.sequences[i], 0);
    want.push_back(rig.Step(alone, std::span(next).subspan(i, 1), {}));
  }
  for (const std::size_t threads : {1, 3}) {
    const std::vector<Sequence> shared = CloneAll(rig, family.sequences, 1 << 20);
    EXPECT_TRUE(DecodeAll(rig, shared, {.threads = threads}) == want) << threads;
    const std::vector<Sequence> apart = CloneAll(rig, family.sequences, 0);
    EXPECT_TRUE(DecodeAll(rig, apart, {.threads = threads}) == want) << threads << ", private";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sample, SharedPrefix,
    testing::Values(PrefixCase{{300, 300}, 0}, PrefixCase{{300, 300, 300}, 1},
                    PrefixCase{{1024, 1024}, 2}, PrefixCase{{1024, 300, 1024, 1500}, 3},
                    PrefixCase{{1500, 1500, 1500}, 4}, PrefixCase{{2600, 1500, 2600, 1024}, 5},
                    PrefixCase{std::vector<std::size_t>(20, 1024), 6},
                    PrefixCase{std::vector<std::size_t>(12, 2600), 7},
                    PrefixCase{{2600, 300, 2600, 700, 2600, 1500}, 8},
                    PrefixCase{{1500, 10, 1500, 200, 1500}, 9}, PrefixCase{{2600, 2600}, 10},
                    PrefixCase{{1023, 1024, 1025, 1040, 1280}, 11}));

TEST(Attention, DecodesBesidePrefillsAreTheSameBits) {
  RigShape shape = SampleShape(7);
  AttentionRig rig(shape, 256);
  const Family family = MakeFamily(rig, {1500, 1500, 1500, 600}, 3);
  const Text next = RandomText(200, 98);
  const std::vector<std::size_t> counts = {1, 60, 1, 130};
  std::vector<std::vector<float>> want;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    Sequence alone = rig.Clone(family.sequences[i], 0);
    want.push_back(rig.Step(alone, std::span(next).first(counts[i]), {}));
  }
  for (const std::size_t threads : {1, 2, 3}) {
    std::vector<Sequence> sequences = CloneAll(rig, family.sequences, 1 << 20);
    std::vector<Part> parts;
    parts.reserve(counts.size());
    for (std::size_t i = 0; i < counts.size(); ++i) {
      parts.push_back({&sequences[i], std::span(next).first(counts[i])});
    }
    EXPECT_TRUE(rig.Step(parts, {.threads = threads}) == want) << threads;
  }
}

// No cache has it so, but only the same blocks throughout are the same keys.
TEST(Attention, ACommonBlockBehindOthersIsNotASharedPrefix) {
  AttentionRig rig(SampleShape(4), 128);
  const std::size_t common = kSegmentTokens / rig.shape().block_tokens - 1;
  std::vector<Sequence> sequences;
  for (const std::uint64_t seed : {1, 2}) {
    sequences.push_back(rig.NewSequence());
    rig.Fill(sequences.back(), RandomText(300, seed), 100);
    sequences.back().groups[0].blocks[common] = sequences[0].groups[0].blocks[common];
  }
  const auto want = DecodeAll(rig, CloneAll(rig, sequences, 0), {.threads = 1});
  EXPECT_TRUE(DecodeAll(rig, sequences, {.threads = 1}) == want);
}

// --- What is planned ---

class PlannedBytes : public testing::TestWithParam<std::size_t> {};  // threads

// Whole segments that are shared are read once; what is left, and what is private, by each.
TEST_P(PlannedBytes, CountsASharedBlockOnce) {
  RigShape shape;
  shape.groups = {{.codecs = {SampleCodec(4, 1), SampleCodec(7, 0)}}};
  AttentionRig rig(shape, 128);
  const AttentionRig::How how = {.threads = GetParam(), .what = Do::kPlan};
  for (const std::vector<std::size_t>& prefixes : std::vector<std::vector<std::size_t>>{
           {1024, 1024}, {300, 300, 300}, {1500, 1500}, {2600, 2600, 2600}, {200, 200}}) {
    const Family family = MakeFamily(rig, prefixes, 5);
    const std::uint64_t whole = prefixes[0] / kSegmentTokens * kSegmentTokens;
    std::uint64_t tokens = whole;
    std::uint64_t private_tokens = 0;
    for (const Sequence& sequence : family.sequences) {
      const std::uint64_t sealed = sequence.text.size() / 16 * 16;
      tokens += sealed - whole;
      private_tokens += sealed;
    }
    (void)DecodeAll(rig, family.sequences, how);
    EXPECT_EQ(rig.planned_bytes(0), tokens / 16 * rig.BlockBytes(0)) << prefixes[0];
    (void)DecodeAll(rig, CloneAll(rig, family.sequences, 0), how);
    EXPECT_EQ(rig.planned_bytes(0), private_tokens / 16 * rig.BlockBytes(0)) << prefixes[0];
  }
}

// Also where another sequence that shares less comes between two that share more.
TEST_P(PlannedBytes, CountsEveryCommonSegmentOfUnequalPrefixesOnce) {
  RigShape shape;
  AttentionRig rig(shape, 128);
  const std::vector<std::size_t> prefixes = {2600, 300, 2600, 700, 2600, 1500, 300, 1500};
  const Family family = MakeFamily(rig, prefixes, 5);
  std::uint64_t tokens = 0;
  for (const Sequence& sequence : family.sequences) tokens += sequence.text.size() / 16 * 16;
  // All but one of those that have a whole span in common are spared it; of the others, all but one
  // of those that have a whole segment.
  constexpr std::uint64_t kSpan = kernels::kSpanSegments * kSegmentTokens;
  for (std::uint64_t begin = 0; begin < 2600; begin += kSpan) {
    const auto sharing = [&](std::uint64_t least, std::uint64_t below) {
      const auto count = std::ranges::count_if(
          family.shared, [&](std::uint64_t shared) { return shared >= least && shared < below; });
      return static_cast<std::uint64_t>(std::max(count, std::ptrdiff_t{1}) - 1);
    };
    tokens -= sharing(begin + kSpan, 1 << 20) * kSpan;
    for (std::uint64_t end = begin + kSegmentTokens; end <= begin + kSpan; end += kSegmentTokens) {
      tokens -= sharing(end, begin + kSpan) * kSegmentTokens;
    }
  }
  (void)DecodeAll(rig, family.sequences, {.threads = GetParam(), .what = Do::kPlan});
  EXPECT_EQ(rig.planned_bytes(0), tokens / 16 * rig.BlockBytes(0));
}

TEST_P(PlannedBytes, CountsWhatEachTileOfAPrefillReads) {
  RigShape shape;
  shape.heads = 8;  // 4 a kv head: 16 tokens are 64 rows
  AttentionRig rig(shape, 128);
  Sequence sequence = rig.NewSequence();
  rig.Fill(sequence, RandomText(100, 1), 100);
  (void)rig.Step(sequence, RandomText(60, 2), {.threads = GetParam(), .what = Do::kPlan});
  // Positions 100..111, 112..127, 128..143, 144..159: 6, 7, 8 and 9 blocks before their own.
  EXPECT_EQ(rig.planned_bytes(0), (6 + 7 + 8 + 9) * rig.BlockBytes(0));
}

// Window 100 at position 1000: keys from 901 on, blocks 56 to 61 before its own (62), and sinks.
TEST_P(PlannedBytes, CountsTheBlocksOfAWindowAndItsSinks) {
  RigShape shape;
  shape.groups = {{.window = 100}, {.window = 100, .sinks = 20}};
  AttentionRig rig(shape, 128);
  Sequence sequence = rig.NewSequence();
  rig.Fill(sequence, RandomText(1000, 1), 100);
  (void)rig.Step(sequence, RandomText(1, 2), {.threads = GetParam(), .what = Do::kPlan});
  EXPECT_EQ(rig.planned_bytes(0), 6 * rig.BlockBytes(0));
  EXPECT_EQ(rig.planned_bytes(1), (6 + 2) * rig.BlockBytes(1));
}

INSTANTIATE_TEST_SUITE_P(Threads, PlannedBytes, testing::Values(1, 3));

TEST(AttentionPlan, SplitsALoneSequenceForTheSakeOfThreadsOnly) {
  AttentionRig rig({}, 128);
  Sequence sequence = rig.NewSequence();
  rig.Fill(sequence, RandomText(2600, 1), 64);
  const Text next = RandomText(1, 2);
  (void)rig.Step(sequence, next, {.threads = 1, .what = Do::kPlan});
  EXPECT_EQ(rig.planned_items(0), 2u);  // kv heads
  (void)rig.Step(sequence, next, {.threads = 3, .what = Do::kPlan});
  EXPECT_EQ(rig.planned_items(0), 2u * 3);  // spans of 1,024
  // Enough sequences keep all threads busy: no splitting.
  std::vector<Sequence> many;
  many.reserve(12);
  for (std::size_t i = 0; i < 12; ++i) many.push_back(rig.Clone(sequence, 0));
  (void)DecodeAll(rig, many, {.threads = 3, .what = Do::kPlan});
  EXPECT_EQ(rig.planned_items(0), 2u * 12);
  many.pop_back();
  (void)DecodeAll(rig, many, {.threads = 3, .what = Do::kPlan});
  EXPECT_EQ(rig.planned_items(0), 2u * 11 * 3);
}

TEST(AttentionPlan, SharedSpansAreOneItemOnOneThreadToo) {
  AttentionRig rig({}, 128);
  const Family family = MakeFamily(rig, {1024, 1024, 1024}, 1);
  (void)DecodeAll(rig, family.sequences, {.threads = 1, .what = Do::kPlan});
  EXPECT_EQ(rig.planned_items(0), 2u * (1 + 3));
}

// There is room for a number of partial states: who comes too late is not split.
TEST(AttentionPlan, WithoutRoomForPartialStatesASequenceIsOneItem) {
  RigShape shape;
  shape.heads = 128;
  shape.kv_heads = 1;
  shape.head_dim = 256;
  AttentionRig rig(shape, 64);
  Sequence sequence = rig.NewSequence();
  rig.Fill(sequence, RandomText(64, 1), 64);
  const std::size_t room = (std::size_t{1} << 23) / (std::size_t{128} * (256 + 2));
  // A text that repeats one block.
  const auto repeat = [&](std::size_t segments) {
    Sequence longer = sequence;
    longer.text.resize(segments * kSegmentTokens - 1, 1000);
    longer.groups[0].blocks.resize(segments * 16, sequence.groups[0].blocks[0]);
    return longer;
  };
  const auto items = [&](std::size_t segments) {
    (void)DecodeAll(rig, {repeat(segments)}, {.threads = 3, .what = Do::kPlan});
    return rig.planned_items(0);
  };
  EXPECT_EQ(items(room - 1), (room - 1 + 3) / 4);
  EXPECT_EQ(items(room), (room + 3) / 4);
  EXPECT_EQ(items(room + 1), 1u);
}

// --- Refusal ---

class Refusal : public testing::TestWithParam<std::uint64_t> {};

TEST_P(Refusal, OfOneChunkDoesNotTouchTheOthers) {
  for (const std::size_t seed : {1, 4, 6, 8, 10}) {
    const RigShape shape = SampleShape(seed);
    AttentionRig rig(shape, 256);
    const Family family = MakeFamily(rig, {600, 600, 600, 40}, seed);
    Text bad = RandomText(70, 1);
    bad[50] = GetParam();
    const Text good = RandomText(70, 2);
    const auto step = [&](std::span<const std::uint64_t> first,
                          std::span<const std::uint64_t> third) {
      std::vector<Sequence> sequences = CloneAll(rig, family.sequences, 1 << 20);
      return rig.Step(std::vector<Part>{{&sequences[0], first},
                                        {&sequences[1], std::span(good).first(1)},
                                        {&sequences[2], third},
                                        {&sequences[3], good}},
                      {.threads = 2});
    };
    const auto want = step(good, std::span(good).subspan(1, 1));
    const auto got = step(bad, std::span(bad).subspan(50, 1));
    EXPECT_TRUE(rig.IsRefused(0));
    EXPECT_FALSE(rig.IsRefused(1));
    EXPECT_TRUE(rig.IsRefused(2));
    EXPECT_FALSE(rig.IsRefused(3));
    EXPECT_TRUE(got[1] == want[1]) << seed;
    EXPECT_TRUE(got[3] == want[3]) << seed;
    // A refusal is of its step.
    (void)step(good, std::span(good).subspan(1, 1));
    EXPECT_FALSE(rig.IsRefused(0));
  }
}

INSTANTIATE_TEST_SUITE_P(Tokens, Refusal, testing::Values(kInfiniteKeyToken, kHugeValueToken));

}  // namespace
}  // namespace ashlar::model
