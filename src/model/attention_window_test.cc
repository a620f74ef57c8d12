// What a row sees: windows, sinks, caps and latents, against softmax in f64 over the keys and
// values that it may see; and taps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "model/attention.h"
#include "model/testing/attention_rig.h"

namespace ashlar::model {
namespace {

using kernels::testing::Random;
using Part = AttentionRig::Part;
using Sequence = AttentionRig::Sequence;

KvCodec Plain(KvCodecKind kind) { return {.kind = kind}; }
KvCodec Rotated(KvCodecKind kind) { return {.kind = kind, .is_rotated = true}; }

// Fills a text but for its last `rest` tokens, computes these in one chunk, and holds a few of them
// against the oracle and all of them against other cuts.
void ExpectRightHoweverCut(const RigShape& shape, std::size_t tokens, std::size_t rest) {
  const Text text = RandomText(tokens, tokens);
  const std::span<const std::uint64_t> end = std::span(text).last(rest);
  AttentionRig rig(shape, 256);
  Sequence base = rig.NewSequence();
  rig.Fill(base, std::span(text).first(tokens - rest), 1 + tokens % 150);

  Sequence whole = rig.Clone(base, 0);
  const std::vector<float> want = rig.Step(whole, end, {});
  const AttentionOracle oracle(shape, 0, text);
  for (std::size_t t = 0; t < rest; t += 1 + rest / 6) {
    const double error =
        AttentionOracle::ErrorOf(std::span(want).subspan(t * shape.width(), shape.width()),
                                 oracle.At(tokens - rest + t).out);
    ASSERT_LT(error, oracle.Tolerance()) << "position " << tokens - rest + t;
  }
  Random random(tokens);
  for (const std::size_t most : {1, 50}) {
    for (const std::size_t threads : {1, 3}) {
      Sequence sequence = rig.Clone(base, 0);
      std::vector<float> got;
      for (std::size_t at = 0; at < rest;) {
        const std::size_t count = std::min(rest - at, 1 + random.Below(most));
        const std::vector<float> step =
            rig.Step(sequence, end.subspan(at, count), {.threads = threads});
        got.insert(got.end(), step.begin(), step.end());
        at += count;
      }
      ASSERT_TRUE(got == want) << "up to " << most << " tokens, " << threads << " threads";
    }
  }
}

struct WindowCase {
  std::uint64_t window;
  std::uint64_t sinks;
};

class Window : public testing::TestWithParam<WindowCase> {};

// Blocks that the window has passed are null in the rig: to read one is to crash.
TEST_P(Window, SeesItsTokensAndSinksOnly) {
  const auto [window, sinks] = GetParam();
  const CodecPair codecs[] = {
      {Plain(KvCodecKind::kF32), Plain(KvCodecKind::kF32)},
      {Rotated(KvCodecKind::kQ8), Plain(KvCodecKind::kQ8)},
      {Plain(KvCodecKind::kKc4), Rotated(KvCodecKind::kQ4)},
      {Plain(KvCodecKind::kFp8), Plain(KvCodecKind::kKc2)},
      {Plain(KvCodecKind::kQ5), Plain(KvCodecKind::kF16)},
  };
  for (std::size_t i = 0; i < std::size(codecs); ++i) {
    RigShape shape{.heads = 2, .kv_heads = i % 2 == 0 ? 1u : 2u, .head_dim = i == 3 ? 80u : 64u};
    // A window beside sinks holds a block.
    shape.block_tokens = i != 1 || (sinks > 0 && window < 64) ? 16 : 64;
    shape.groups = {{.codecs = codecs[i], .window = window, .sinks = sinks}};
    SCOPED_TRACE(NameOf(codecs[i].key) + " " + NameOf(codecs[i].value));
    ExpectRightHoweverCut(shape, 70, 70);                // from the first token on
    ExpectRightHoweverCut(shape, window + 340 + i, 60);  // past the window and all sinks
    ExpectRightHoweverCut(shape, window + 30, 31);       // as the window leaves the first token
  }
}

INSTANTIATE_TEST_SUITE_P(Sample, Window,
                         testing::Values(WindowCase{1, 0}, WindowCase{16, 0}, WindowCase{100, 0},
                                         WindowCase{700, 0}, WindowCase{1500, 0}, WindowCase{16, 1},
                                         WindowCase{64, 4}, WindowCase{100, 20}, WindowCase{700, 1},
                                         WindowCase{100, 300}, WindowCase{1500, 4},
                                         WindowCase{17, 16}),
                         [](const auto& param_info) {
                           return std::to_string(param_info.param.window) + "_sinks" +
                                  std::to_string(param_info.param.sinks);
                         });

TEST(AttentionSpecs, EveryCodecIsRightAndBitIdentical) {
  for (std::size_t i = 0; i < AllKvCodecKinds().size(); ++i) {
    const KvCodecKind kind = AllKvCodecKinds()[i];
    RigShape shape;
    shape.groups = {{.codecs = {Plain(kind), Plain(kind)}}};
    SCOPED_TRACE(NameOf(kind));
    ExpectRightHoweverCut(shape, 400, 40);
    if (IsRaw(kind)) continue;
    shape.groups = {{.codecs = {Rotated(kind), Rotated(kind)}}};
    ExpectRightHoweverCut(shape, 300, 30);
  }
}

// The own block is then all of a segment, and a chunk's row may see nothing before it.
TEST(AttentionSpecs, BlocksUpToASegmentAndHeadsFromTheLeastAreRightAndBitIdentical) {
  const CodecPair codecs[] = {{Rotated(KvCodecKind::kQ8), Plain(KvCodecKind::kQ8)},
                              {Plain(KvCodecKind::kF16), Rotated(KvCodecKind::kQ6)},
                              {Plain(KvCodecKind::kBF16), Plain(KvCodecKind::kF32)}};
  const WindowCase windows[] = {{0, 0}, {100, 0}, {300, 5}};
  for (const std::uint32_t block_tokens : {128u, 256u}) {
    for (std::size_t i = 0; i < std::size(codecs); ++i) {
      const auto [window, sinks] = windows[(i + block_tokens / 256) % 3];
      RigShape shape{.heads = 6, .kv_heads = 2, .head_dim = i % 2 == 0 ? 8u : 24u};
      shape.block_tokens = block_tokens;
      shape.groups = {{.codecs = codecs[i], .window = window, .sinks = sinks}};
      SCOPED_TRACE(NameOf(shape) + " window " + std::to_string(window));
      ExpectRightHoweverCut(shape, 600, 140);
    }
  }
}

TEST(AttentionSpecs, ACapAScaleAndSinkLogitsAreThoseOfTheDefinition) {
  const std::vector<float> logits = {0.5f, -3.0f, 4.0f, 10.0f};
  const AttentionSpec specs[] = {{.softcap = 5.0f},
                                 {.scale = 0.05f},
                                 {.sink_logits = logits},
                                 {.scale = 0.2f, .softcap = 8.0f, .sink_logits = logits}};
  for (const AttentionSpec& spec : specs) {
    for (const CodecPair& codecs :
         {CodecPair{Plain(KvCodecKind::kF16), Plain(KvCodecKind::kF16)},
          CodecPair{Rotated(KvCodecKind::kQ6), Plain(KvCodecKind::kQ8)}}) {
      RigShape shape{.heads = 4, .kv_heads = 2, .spec = spec};
      shape.groups = {{.codecs = codecs}};
      ExpectRightHoweverCut(shape, 1300, 40);
      shape.groups = {{.codecs = codecs, .window = 100, .sinks = 4}};
      ExpectRightHoweverCut(shape, 500, 40);
    }
  }
}

TEST(AttentionSpecs, ALatentIsBothKAndV) {
  struct Case {
    std::uint32_t head_dim;
    std::uint32_t latent_dim;
  };
  for (const auto& [head_dim, latent_dim] : {Case{96, 64}, Case{160, 128}, Case{576, 512}}) {
    for (const KvCodec codec :
         {Plain(KvCodecKind::kF32), Plain(KvCodecKind::kF16), Plain(KvCodecKind::kQ8),
          Rotated(KvCodecKind::kQ8), Rotated(KvCodecKind::kQ4), Plain(KvCodecKind::kFp8),
          Rotated(KvCodecKind::kLm4)}) {
      RigShape shape{.heads = 4, .kv_heads = 1, .head_dim = head_dim};
      shape.spec = {.latent_dim = latent_dim};
      shape.groups = {{.codecs = {codec, codec}}};
      SCOPED_TRACE(NameOf(codec) + " " + std::to_string(head_dim));
      ExpectRightHoweverCut(shape, 330, 40);
    }
  }
}

TEST(AttentionSpecsDeathTest, AHeadThatTheKernelsHaveNoRoomForIsABug) {
  RigShape shape{.heads = 1, .kv_heads = 1, .head_dim = kernels::kMaxHeadDim + 8};  // a layout has
  EXPECT_DEATH(AttentionRig(shape, 16), "584 and 584 channels; at most 576");
  shape.head_dim = 64;
  shape.spec = {.latent_dim = 72};
  EXPECT_DEATH(AttentionRig(shape, 16), "64 and 72 channels");
}

TEST(AttentionSpecsDeathTest, ALatentThatEndsWithinARotatedBlockIsABug) {
  RigShape shape{.heads = 4, .kv_heads = 1, .head_dim = 192};  // blocks of 64
  shape.spec = {.latent_dim = 160};
  shape.groups = {{.codecs = {Plain(KvCodecKind::kQ8), Plain(KvCodecKind::kQ8)}}};
  AttentionRig(shape, 16).NewSequence();
  shape.groups = {{.codecs = {Rotated(KvCodecKind::kQ8), Rotated(KvCodecKind::kQ8)}}};
  EXPECT_DEATH(AttentionRig(shape, 16), "a latent of 160 ends within a rotated block");
}

// --- Taps ---

struct TapBuffers {
  std::vector<float> logits;
  std::vector<float> lse;
  AttentionTap tap;

  TapBuffers(const RigShape& shape, std::size_t chunk, std::size_t last, std::size_t tokens) {
    tap.chunk = chunk;
    tap.last_tokens = last;
    tap.stride = (tokens + 255) / 256 * 256;
    logits.assign(last * shape.heads * tap.stride, kUntouched);
    lse.assign(last * shape.heads, kUntouched);
    tap.logits = logits.data();
    tap.lse = lse.data();
  }
  static constexpr float kUntouched = -1234.5f;
};

// A tap of `last` tokens of a chunk of `count` that ends the text, beside another chunk.
void ExpectTapIsRight(const RigShape& shape, std::size_t tokens, std::size_t count,
                      std::size_t last, std::size_t threads) {
  const Text text = RandomText(tokens, 3);
  AttentionRig rig(shape, 256);
  Sequence base = rig.NewSequence();
  rig.Fill(base, std::span(text).first(tokens - count), 100);
  const Text other = RandomText(30, 4);
  TapBuffers buffers(shape, 1, last, tokens);
  const auto step = [&](const AttentionTap* tap) {
    Sequence beside = rig.NewSequence();
    Sequence tapped = rig.Clone(base, 0);
    return rig.Step(std::vector<Part>{{&beside, other}, {&tapped, std::span(text).last(count)}},
                    {.threads = threads, .tap = tap});
  };
  const auto plain = step(nullptr);
  ASSERT_TRUE(step(&buffers.tap) == plain);

  const AttentionOracle oracle(shape, 0, text);
  const std::size_t taken = std::min(last, count);
  for (std::size_t t = 0; t < last; ++t) {
    const bool is_there = t < taken;
    const AttentionOracle::Row want = oracle.At(is_there ? tokens - taken + t : 0);
    for (std::size_t head = 0; head < shape.heads; ++head) {
      const float lse = buffers.lse[t * shape.heads + head];
      double sum = 0.0;
      for (std::size_t at = 0; at < buffers.tap.stride; ++at) {
        const float logit = buffers.logits[(t * shape.heads + head) * buffers.tap.stride + at];
        const double definition = at < tokens ? want.logits[head * tokens + at] : NAN;
        if (!is_there || std::isnan(definition)) {
          ASSERT_EQ(logit, TapBuffers::kUntouched) << t << " " << head << " " << at;
          continue;
        }
        ASSERT_NEAR(logit, definition, 40 * oracle.Tolerance()) << t << " " << head << " " << at;
        sum += std::exp(double{logit} - lse);
      }
      if (!is_there) {
        ASSERT_EQ(lse, TapBuffers::kUntouched);
        continue;
      }
      ASSERT_NEAR(lse, want.lse[head], 10 * oracle.Tolerance());
      if (shape.spec.sink_logits.empty()) {
        ASSERT_NEAR(sum, 1.0, 1e-5);
      }
    }
  }
}

TEST(AttentionTaps, AreTheLogitsAndTheirSumAndChangeNoBit) {
  const std::vector<float> logits = {0.5f, -3.0f, 4.0f, 10.0f};
  for (const std::size_t threads : {1, 3}) {
    RigShape shape;
    ExpectTapIsRight(shape, 700, 1, 1, threads);     // of a decode
    ExpectTapIsRight(shape, 1300, 1, 4, threads);    // more than there are
    ExpectTapIsRight(shape, 400, 120, 32, threads);  // of a prefill
    shape.spec = {.softcap = 20.0f, .sink_logits = logits};
    ExpectTapIsRight(shape, 300, 5, 2, threads);
    shape.spec = {};
    shape.groups = {{.codecs = {Rotated(KvCodecKind::kQ8), Plain(KvCodecKind::kQ4)}}};
    ExpectTapIsRight(shape, 600, 40, 8, threads);
    shape.groups = {{.window = 100}};
    ExpectTapIsRight(shape, 500, 40, 20, threads);
    shape.groups = {{.window = 100, .sinks = 20}};
    ExpectTapIsRight(shape, 500, 40, 20, threads);
  }
}

TEST(AttentionTaps, ReachASequenceThatSharesItsPrefix) {
  RigShape shape;
  AttentionRig rig(shape, 128);
  Text text = RandomText(1060, 5);
  Sequence base = rig.NewSequence();
  rig.Fill(base, std::span(text).first(1040), 100);
  std::vector<Sequence> sequences;
  for (std::size_t i = 0; i < 3; ++i) {
    sequences.push_back(rig.Clone(base, 1040));
    const Text rest = i == 1 ? Text(text.begin() + 1040, text.end() - 1) : RandomText(9, i);
    rig.Fill(sequences.back(), rest, 100);
  }
  TapBuffers buffers(shape, 1, 1, 1060);
  std::vector<Part> parts;
  parts.reserve(sequences.size());
  for (Sequence& sequence : sequences) parts.push_back({&sequence, std::span(text).last(1)});
  (void)rig.Step(parts, {.tap = &buffers.tap});
  const AttentionOracle oracle(shape, 0, text);
  const AttentionOracle::Row want = oracle.At(1059);
  for (std::size_t head = 0; head < shape.heads; ++head) {
    for (std::size_t at = 0; at < 1060; ++at) {
      ASSERT_NEAR(buffers.logits[head * buffers.tap.stride + at], want.logits[head * 1060 + at],
                  1e-4);
    }
    ASSERT_NEAR(buffers.lse[head], want.lse[head], 1e-4);
  }
}

}  // namespace
}  // namespace ashlar::model
