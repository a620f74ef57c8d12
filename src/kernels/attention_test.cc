#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/half.h"
#include "kernels/kernel_set.h"
#include "kernels/testing/lane.h"
#include "kernels/testing/random_data.h"
#include "kernels/testing/same_bits.h"

namespace ashlar::kernels {
namespace {

using testing::AttendAll;
using testing::AttendSegment;
using testing::Both;
using testing::Lane;
using testing::LaneSpec;
using testing::Random;
using testing::Rows;
using testing::RowStates;
using testing::SameBits;

constexpr KvCodecKind kRawKinds[] = {KvCodecKind::kF32, KvCodecKind::kF16, KvCodecKind::kBF16};

const KernelSet& Reference() { return KernelsFor(Isa::kReference); }

// Rows at random positions of block `block`.
Rows RandomRows(const LaneSpec& spec, std::size_t count, std::size_t block, std::uint64_t seed) {
  Random random(seed);
  Rows rows{.q = random.Floats(count * spec.head_dim, 0.4f), .positions = {}};
  for (std::size_t r = 0; r < count; ++r) {
    rows.positions.push_back(
        static_cast<std::uint32_t>(block * spec.block_tokens + random.Below(spec.block_tokens)));
  }
  return rows;
}

::testing::AssertionResult SameStates(const RowStates& got, const RowStates& want) {
  for (const auto member : {&RowStates::max, &RowStates::sum, &RowStates::acc}) {
    const auto same = SameBits(got.*member, want.*member);
    if (!same) return same;
  }
  return SameBits(got.logits, want.logits);
}

// --- One segment, every kind ---

TEST(Attend, EqualsTheReferenceForEveryKindAndShape) {
  for (const KvCodecKind kind : AllKvCodecKinds()) {
    for (const std::size_t dim : {8, 24, 64, 80, 96}) {
      Lane lane(Both(kind, dim, 16));
      lane.AppendRandom(Reference(), 96, dim);
      for (std::size_t count = 0; count <= 14; count += dim == 64 ? 1 : 5) {
        const Rows rows = RandomRows(lane.spec(), count, 5, count);
        const RowStates want = AttendSegment(Reference(), lane, 0, rows);
        for (const Isa isa : RunnableIsas()) {
          ASSERT_TRUE(SameStates(AttendSegment(KernelsFor(isa), lane, 0, rows), want))
              << NameOf(isa) << " " << NameOf(kind) << ", " << count << " rows, dim " << dim;
        }
      }
    }
  }
}

TEST(Attend, KAndVMayHaveKindsOfTheirOwn) {
  for (const KvCodecKind key : AllKvCodecKinds()) {
    for (const KvCodecKind value : AllKvCodecKinds()) {
      Lane lane({.key_kind = key,
                 .value_kind = value,
                 .head_dim = 32,
                 .value_dim = 48,
                 .block_tokens = 32});
      lane.AppendRandom(Reference(), 120, 3);
      const Rows rows = RandomRows(lane.spec(), 3, 3, 4);
      Rows some = rows;
      for (std::uint32_t& position : some.positions) position = std::min(position, 119u);
      const RowStates want = AttendSegment(Reference(), lane, 0, some);
      for (const Isa isa : RunnableIsas()) {
        ASSERT_TRUE(SameStates(AttendSegment(KernelsFor(isa), lane, 0, some), want))
            << NameOf(isa) << " k=" << NameOf(key) << " v=" << NameOf(value);
      }
    }
  }
}

TEST(Attend, EqualsTheReferenceForLargeHeadsAndAFullSegment) {
  for (const KvCodecKind kind : AllKvCodecKinds()) {
    for (const std::size_t block_tokens : {64, 256}) {
      Lane lane(Both(kind, 256, block_tokens));
      lane.AppendRandom(KernelsFor(BestIsa()), kSegmentTokens + 1, 8);
      const Rows rows = RandomRows(lane.spec(), 7, kSegmentTokens / block_tokens, 9);
      const RowStates want = AttendSegment(Reference(), lane, 0, rows);
      for (const Isa isa : RunnableIsas()) {
        ASSERT_TRUE(SameStates(AttendSegment(KernelsFor(isa), lane, 0, rows), want))
            << NameOf(isa) << " " << NameOf(kind);
      }
    }
  }
}

// A lane that ends where the row looks: the rest of its own block is NaN.
TEST(Attend, EveryPositionOfABlockAndNaNInTheUnseenSlots) {
  for (const KvCodecKind kind : {KvCodecKind::kF16, KvCodecKind::kQ8}) {
    Lane lane(Both(kind, 16, 64));
    lane.AppendRandom(Reference(), 128, 10);
    Random random(11);
    for (std::uint32_t position = 64; position < 128; ++position) {
      Lane shorter(lane.spec());
      shorter.AppendRandom(Reference(), position + 1, 10);
      const Rows rows{.q = random.Floats(16), .positions = {position}};
      const RowStates want = AttendSegment(Reference(), lane, 0, rows);
      ASSERT_TRUE(std::isfinite(want.acc[0]));
      for (const Isa isa : RunnableIsas()) {
        ASSERT_TRUE(SameStates(AttendSegment(KernelsFor(isa), lane, 0, rows), want))
            << NameOf(isa) << position;
        ASSERT_TRUE(SameStates(AttendSegment(KernelsFor(isa), shorter, 0, rows), want))
            << NameOf(isa) << position;
      }
    }
  }
}

TEST(Attend, ARowsResultDoesNotDependOnTheOtherRows) {
  for (const KvCodecKind kind : AllKvCodecKinds()) {
    Lane lane(Both(kind, 40, 32));
    lane.AppendRandom(Reference(), 192, 14);
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      Rows rows = RandomRows(lane.spec(), 13, 5, 15 + seed);
      rows.window = seed % 2 == 0 ? 0 : 70;
      for (const Isa isa : RunnableIsas()) {
        const RowStates together = AttendSegment(KernelsFor(isa), lane, 0, rows);
        for (std::size_t r = 0; r < rows.count(); ++r) {
          const auto* const q = rows.q.data() + r * 40;
          const Rows one{.q = {q, q + 40}, .positions = {rows.positions[r]}, .window = rows.window};
          const RowStates alone = AttendSegment(KernelsFor(isa), lane, 0, one);
          ASSERT_TRUE(SameBits(alone.max[0], together.max[r]));
          ASSERT_TRUE(SameBits(alone.sum[0], together.sum[r]));
          ASSERT_TRUE(SameBits(alone.acc, {together.acc.data() + r * 40, 40}))
              << NameOf(isa) << " " << NameOf(kind) << " row " << r;
        }
      }
    }
  }
}

TEST(Attend, TheBlockSizeOfARawLaneDoesNotChangeABit) {
  for (const KvCodecKind kind : kRawKinds) {
    for (const Isa isa : RunnableIsas()) {
      std::vector<float> want;
      for (const std::size_t block_tokens : {16, 32, 64, 128, 256}) {
        Lane lane(Both(kind, 24, block_tokens));
        lane.AppendRandom(KernelsFor(isa), 2 * kSegmentTokens, 13);
        Random random(12);
        const Rows rows{.q = random.Floats(3 * 24), .positions = {501, 507, 500}};
        const std::vector<float> got = AttendAll(KernelsFor(isa), lane, rows);
        if (want.empty()) want = got;
        ASSERT_TRUE(SameBits(got, want)) << NameOf(isa) << ", blocks of " << block_tokens;
      }
    }
  }
}

TEST(Attend, AZeroMaximumIsNeverNegative) {
  Lane lane(Both(KvCodecKind::kF32, 8, 16));
  const std::vector<float> zero(8, 0.0f);
  for (int t = 0; t < 3; ++t) lane.Append(Reference(), zero.data(), zero.data());
  for (const Isa isa : RunnableIsas()) {
    const RowStates states = AttendSegment(KernelsFor(isa), lane, 0,
                                           {.q = std::vector<float>(8, -1.0f), .positions = {2}});
    EXPECT_TRUE(SameBits(states.max[0], 0.0f)) << NameOf(isa);
    EXPECT_TRUE(SameBits(states.sum[0], 3.0f)) << NameOf(isa);
  }
}

TEST(Attend, AQueryThatIsNotFiniteGivesNaNAndNothingElse) {
  for (const KvCodecKind kind : {KvCodecKind::kF32, KvCodecKind::kQ8, KvCodecKind::kQ4}) {
    Lane lane(Both(kind, 32, 16));
    lane.AppendRandom(Reference(), 33, 5);
    Rows rows = RandomRows(lane.spec(), 2, 2, 6);
    rows.positions = {32, 32};
    rows.q[3] = std::numeric_limits<float>::infinity();
    rows.q[4] = -std::numeric_limits<float>::infinity();
    for (const Isa isa : RunnableIsas()) {
      const RowStates states = AttendSegment(KernelsFor(isa), lane, 0, rows);
      EXPECT_TRUE(std::isnan(states.sum[0])) << NameOf(isa) << NameOf(kind);
      EXPECT_TRUE(std::isfinite(states.sum[1])) << NameOf(isa) << NameOf(kind);
    }
  }
}

// --- Windows, caps, latents ---

TEST(Attend, AWindowedRowSeesItsWindowOnly) {
  for (const KvCodecKind kind : {KvCodecKind::kF32, KvCodecKind::kF16, KvCodecKind::kQ8}) {
    Lane lane(Both(kind, 32, 16));
    lane.AppendRandom(Reference(), 3 * kSegmentTokens, 21);
    for (const std::uint32_t window : {1u, 5u, 16u, 17u, 100u, 256u, 300u}) {
      for (const std::size_t block : {0u, 1u, 15u, 16u, 17u, 40u}) {
        Rows rows = RandomRows(lane.spec(), 8, block, window + block);
        rows.window = window;
        const std::vector<float> want = AttendAll(Reference(), lane, rows);
        for (const Isa isa : RunnableIsas()) {
          ASSERT_TRUE(SameBits(AttendAll(KernelsFor(isa), lane, rows), want))
              << NameOf(isa) << " " << NameOf(kind) << " window " << window << " block " << block;
        }
        // Against plain sums in f64 over what the row may see.
        for (std::size_t r = 0; r < rows.count(); ++r) {
          const std::size_t end = rows.positions[r] + 1;
          const std::size_t begin = end < window ? 0 : end - window;
          std::vector<double> out(32, 0.0);
          double sum = 0.0;
          for (std::size_t t = begin; t < end; ++t) {
            const std::vector<float> k = lane.Seen(KvRole::kKey, t, block);
            const std::vector<float> v = lane.Seen(KvRole::kValue, t, block);
            double logit = 0.0;
            for (std::size_t c = 0; c < 32; ++c) logit += double{rows.q[r * 32 + c]} * k[c];
            sum += std::exp(logit);
            for (std::size_t c = 0; c < 32; ++c) out[c] += std::exp(logit) * v[c];
          }
          for (std::size_t c = 0; c < 32; ++c) {
            ASSERT_NEAR(want[r * 32 + c], out[c] / sum, 2e-3) << window << " " << r << " " << c;
          }
        }
      }
    }
  }
}

// Sinks: the first tokens of a block, and no more of it.
TEST(Attend, NoRowSeesBeyondALimit) {
  for (const KvCodecKind kind : AllKvCodecKinds()) {
    Lane lane(Both(kind, 32, 16));
    lane.AppendRandom(Reference(), 48, 26);
    for (const std::uint32_t limit : {1u, 4u, 16u, 17u, 30u}) {
      Rows rows = RandomRows(lane.spec(), 3, 2, 27);
      rows.limit = limit;
      const RowStates want = AttendSegment(Reference(), lane, 0, rows);
      double sum = 0.0;
      for (std::size_t t = 0; t < limit; ++t) sum += std::exp(want.logits[t] - want.max[0]);
      EXPECT_NEAR(want.sum[0], sum, 1e-5 * sum) << limit;
      for (const Isa isa : RunnableIsas()) {
        RowStates got = AttendSegment(KernelsFor(isa), lane, 0, rows);
        got.logits = want.logits;  // beyond the limit they are nobody's
        ASSERT_TRUE(SameStates(got, want)) << NameOf(isa) << " " << NameOf(kind) << " " << limit;
      }
    }
  }
}

TEST(Attend, ASoftcapBoundsTheLogits) {
  Lane lane(Both(KvCodecKind::kF32, 16, 16));
  lane.AppendRandom(Reference(), 40, 22);
  Rows rows = RandomRows(lane.spec(), 3, 2, 23);
  for (float& q : rows.q) q *= 50.0f;
  const RowStates plain = AttendSegment(Reference(), lane, 0, rows);
  rows.softcap = 30.0f;
  const RowStates want = AttendSegment(Reference(), lane, 0, rows);
  for (std::size_t t = 0; t <= rows.positions[0]; ++t) {
    EXPECT_NEAR(want.logits[t], 30.0 * std::tanh(plain.logits[t] / 30.0), 1e-5);
  }
  for (const Isa isa : RunnableIsas()) {
    EXPECT_TRUE(SameStates(AttendSegment(KernelsFor(isa), lane, 0, rows), want)) << NameOf(isa);
  }
}

// MLA: V is the first channels of K.
TEST(Attend, AReadsVFromALatent) {
  for (const KvCodecKind kind : AllKvCodecKinds()) {
    if (kind == KvCodecKind::kKc4 || kind == KvCodecKind::kKc2) continue;
    for (const std::size_t latent : {64u, 80u, 96u}) {
      Lane lane({.key_kind = kind,
                 .value_kind = kind,
                 .head_dim = 96,
                 .value_dim = 0,
                 .block_tokens = 16,
                 .latent_dim = latent});
      lane.AppendRandom(Reference(), 60, 24);
      Rows rows = RandomRows(lane.spec(), 8, 3, 25);
      for (std::uint32_t& position : rows.positions) position = std::min(position, 59u);
      const RowStates want = AttendSegment(Reference(), lane, 0, rows);
      for (const Isa isa : RunnableIsas()) {
        ASSERT_TRUE(SameStates(AttendSegment(KernelsFor(isa), lane, 0, rows), want))
            << NameOf(isa) << " " << NameOf(kind) << " latent " << latent;
      }
      // The definition, in f64.
      double sum = 0.0;
      std::vector<double> out(latent, 0.0);
      for (std::size_t t = 0; t <= rows.positions[0]; ++t) {
        const double p = std::exp(double{want.logits[t]} - want.max[0]);
        sum += p;
        const std::vector<float> k = lane.Seen(KvRole::kKey, t, 3);
        for (std::size_t c = 0; c < latent; ++c) out[c] += p * k[c];
      }
      EXPECT_NEAR(want.sum[0], sum, 1e-5 * sum);
      for (std::size_t c = 0; c < latent; ++c) EXPECT_NEAR(want.acc[c], out[c], 1e-4);
    }
  }
}

// --- Against f64 ---

// softmax(q K) V in f64 over the keys and values given; the largest error of `got`, relative to the
// largest magnitude of the result.
double ErrorOf(const std::vector<float>& got, const std::vector<float>& q,
               const std::vector<float>& k, const std::vector<float>& v, std::size_t tokens) {
  const std::size_t head_dim = q.size();
  std::vector<double> logits(tokens, 0.0);
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t c = 0; c < head_dim; ++c) {
      logits[t] += static_cast<double>(q[c]) * k[t * head_dim + c];
    }
  }
  const double max = *std::max_element(logits.begin(), logits.end());
  std::vector<double> out(head_dim, 0.0);
  double sum = 0;
  for (std::size_t t = 0; t < tokens; ++t) {
    const double p = std::exp(logits[t] - max);
    sum += p;
    for (std::size_t c = 0; c < head_dim; ++c) out[c] += p * v[t * head_dim + c];
  }
  double error = 0;
  double magnitude = 0;
  for (std::size_t c = 0; c < head_dim; ++c) {
    error = std::max(error, std::abs(got[c] - out[c] / sum));
    magnitude = std::max(magnitude, std::abs(out[c] / sum));
  }
  return error / magnitude;
}

enum class Oracle { kGiven, kStored };

// Of one row that sees `tokens` keys, against the vectors that were given, or those the tiles hold.
double ErrorAgainstF64(KvCodecKind kind, std::size_t head_dim, std::size_t tokens, Oracle oracle) {
  Random random(18);
  Rows rows{.q = random.Floats(head_dim, 0.5f),
            .positions = {static_cast<std::uint32_t>(tokens - 1)}};
  std::vector<float> k = random.Floats(tokens * head_dim, 2.0f);
  std::vector<float> v = random.Floats(tokens * head_dim);
  for (float& value : v) value += 0.5f;  // a result that does not average out to nothing
  const KernelSet& kernels = KernelsFor(BestIsa());
  Lane lane(Both(kind, head_dim, 256));
  for (std::size_t t = 0; t < tokens; ++t) {
    lane.Append(kernels, k.data() + t * head_dim, v.data() + t * head_dim);
  }
  if (oracle == Oracle::kStored) {
    for (std::size_t t = 0; t < tokens; ++t) {
      const std::size_t own = (tokens - 1) / 256;
      std::ranges::copy(lane.Seen(KvRole::kKey, t, own), k.data() + t * head_dim);
      std::ranges::copy(lane.Seen(KvRole::kValue, t, own), v.data() + t * head_dim);
    }
  }
  return ErrorOf(AttendAll(kernels, lane, rows), rows.q, k, v, tokens);
}

// f32: roundings of the chains only. f16 and bf16 store with 11 and 8 significant bits: an error of
// up to 2^-12 and 2^-9 per element.
TEST(Attend, IsCloseToSoftmaxInF64) {
  EXPECT_LT(ErrorAgainstF64(KvCodecKind::kF32, 64, 1000, Oracle::kGiven), 1e-5);
  EXPECT_LT(ErrorAgainstF64(KvCodecKind::kF16, 64, 1000, Oracle::kGiven), 2e-3);
  EXPECT_LT(ErrorAgainstF64(KvCodecKind::kBF16, 64, 1000, Oracle::kGiven), 1.6e-2);
  EXPECT_LT(ErrorAgainstF64(KvCodecKind::kF32, 256, 300, Oracle::kGiven), 1e-5);
}

// What is added to the error of the stored values themselves: weights of 15 bits, and queries of 15
// bits (q8, q6, kc) or 7 (q5, q4, lm).
TEST(Attend, IsCloseToSoftmaxInF64OfWhatTheTilesHold) {
  for (const KvCodecKind kind : AllKvCodecKinds()) {
    const bool is_coarse = !IsRaw(kind) && kind != KvCodecKind::kFp8 && QueryDigits(kind) == 1;
    EXPECT_LT(ErrorAgainstF64(kind, 64, 1000, Oracle::kStored), is_coarse ? 1e-2 : 2e-4)
        << NameOf(kind);
  }
}

TEST(Attend, IsCloseToSoftmaxInF64Over131072Keys) {
  EXPECT_LT(ErrorAgainstF64(KvCodecKind::kF32, 8, 131072, Oracle::kGiven), 1e-5);
  EXPECT_LT(ErrorAgainstF64(KvCodecKind::kF16, 8, 131072, Oracle::kGiven), 2e-3);
  EXPECT_LT(ErrorAgainstF64(KvCodecKind::kQ8, 8, 131072, Oracle::kStored), 2e-4);
}

// 131,072 equal keys: every value counts the same, so any accumulator that stops growing, wraps or
// rounds towards what it holds is seen.
TEST(Attend, AverageOf131072EqualValuesIsThatValue) {
  for (const KvCodecKind kind : {KvCodecKind::kF32, KvCodecKind::kF16, KvCodecKind::kFp8,
                                 KvCodecKind::kQ8, KvCodecKind::kQ4}) {
    const KernelSet& kernels = KernelsFor(BestIsa());
    Lane lane(Both(kind, 8, 256));
    const std::vector<float> ones(8, 1.0f);
    for (std::size_t t = 0; t < 131072; ++t) lane.Append(kernels, ones.data(), ones.data());
    const std::vector<float> out = AttendAll(kernels, lane, {.q = ones, .positions = {131071}});
    const float stored = lane.Seen(KvRole::kValue, 0, 511)[0];
    EXPECT_NEAR(stored, 1.0f, 0.01f) << NameOf(kind);
    EXPECT_NEAR(out[0], stored, 1e-4f) << NameOf(kind);  // the last block is raw
  }
}

// --- States ---

TEST(Merge, EqualsTheReferenceOnEveryIsa) {
  Random random(19);
  for (const std::size_t head_dim : {8, 16, 24, 72}) {
    const std::size_t rows = 5;
    RowStates into{
        random.Floats(rows, 50.0f), random.Floats(rows), random.Floats(rows * head_dim), {}};
    const RowStates from{
        random.Floats(rows, 50.0f), random.Floats(rows), random.Floats(rows * head_dim), {}};
    into.max[2] = from.max[2];
    into.max[3] = -200.0f;  // weighs nothing
    std::vector<RowStates> results;
    for (const Isa isa : RunnableIsas()) {
      RowStates state = into;
      KernelsFor(isa).merge({rows, head_dim, state.max.data(), state.sum.data(), state.acc.data(),
                             from.max.data(), from.sum.data(), from.acc.data()});
      results.push_back(state);
      EXPECT_TRUE(SameStates(state, results.front())) << NameOf(isa);
      EXPECT_EQ(state.sum[3], from.sum[3]);
    }
  }
}

TEST(Finish, DividesByTheSumOnEveryIsaAlsoInPlace) {
  Random random(20);
  const std::size_t head_dim = 24;
  std::vector<float> acc = random.Floats(3 * head_dim);
  const std::vector<float> sum = {1.0f, 3.0f, 7.5f};
  for (const Isa isa : RunnableIsas()) {
    std::vector<float> out(3 * 30, -1.0f);
    KernelsFor(isa).finish(acc.data(), sum.data(), 3, head_dim, out.data(), 30);
    for (std::size_t r = 0; r < 3; ++r) {
      for (std::size_t c = 0; c < 30; ++c) {
        EXPECT_EQ(out[r * 30 + c], c < head_dim ? acc[r * head_dim + c] / sum[r] : -1.0f);
      }
    }
    std::vector<float> in_place = acc;
    KernelsFor(isa).finish(in_place.data(), sum.data(), 3, head_dim, in_place.data(), head_dim);
    EXPECT_EQ(in_place[head_dim + 1], acc[head_dim + 1] / 3.0f);
  }
}

}  // namespace
}  // namespace ashlar::kernels
