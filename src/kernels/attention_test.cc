#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/half.h"
#include "kernels/kernel_set.h"
#include "kernels/testing/random_data.h"
#include "kernels/testing/same_bits.h"

namespace ashlar::kernels {
namespace {

using testing::AlignedFloats;
using testing::Random;
using testing::SameBits;

constexpr KvFormat kFormats[] = {KvFormat::kF32, KvFormat::kF16, KvFormat::kBF16};

// What a lane's K and V look like before they are stored, and their tiles.
class Lane {
 public:
  Lane(KvFormat format, std::size_t head_dim, std::size_t block_tokens)
      : format_(format), head_dim_(head_dim), block_tokens_(block_tokens) {}

  // Appends a token. Slots not yet written hold NaN in every format.
  void Append(const KernelSet& kernels, const float* k, const float* v) {
    const std::size_t slot = tokens_ % block_tokens_;
    if (slot == 0) {
      k_.emplace_back(TileBytes(), std::byte{0xFF});
      v_.emplace_back(TileBytes(), std::byte{0xFF});
    }
    ++tokens_;
    kernels.store_kv({.format = format_,
                      .k = k,
                      .v = v,
                      .head_dim = head_dim_,
                      .block_tokens = block_tokens_,
                      .slot = slot,
                      .k_tile = k_.back().data(),
                      .v_tile = v_.back().data()});
  }
  void AppendRandom(std::size_t tokens, std::uint64_t seed) {
    Random random(seed);
    for (std::size_t t = 0; t < tokens; ++t) {
      const std::vector<float> k = random.Floats(head_dim_, 2.0f);
      const std::vector<float> v = random.Floats(head_dim_);
      Append(KernelsFor(Isa::kReference), k.data(), v.data());
    }
  }

  KvFormat format() const { return format_; }
  std::size_t head_dim() const { return head_dim_; }
  std::size_t block_tokens() const { return block_tokens_; }
  std::size_t tokens() const { return tokens_; }
  const std::vector<std::vector<std::byte>>& k_tiles() const { return k_; }
  const std::vector<std::vector<std::byte>>& v_tiles() const { return v_; }

 private:
  std::size_t TileBytes() const { return head_dim_ * block_tokens_ * BytesPerElement(format_); }

  KvFormat format_;
  std::size_t head_dim_;
  std::size_t block_tokens_;
  std::size_t tokens_ = 0;
  std::vector<std::vector<std::byte>> k_;
  std::vector<std::vector<std::byte>> v_;
};

// Rows' partial states.
struct State {
  std::vector<float> max;
  std::vector<float> sum;
  std::vector<float> acc;

  bool operator==(const State& other) const {
    return SameBits(max, other.max) && SameBits(sum, other.sum) && SameBits(acc, other.acc);
  }
};

struct Query {
  std::vector<float> q;  // [rows, head_dim]
  std::vector<std::uint32_t> visible;
  std::size_t rows() const { return visible.size(); }
};

State Attend(const KernelSet& kernels, const Lane& lane, std::size_t segment, const Query& query) {
  const std::size_t rows = query.rows();
  State state{std::vector<float>(rows, kMaxHeadDim), std::vector<float>(rows),
              std::vector<float>(rows * lane.head_dim())};
  if (rows == 0) return state;
  const std::size_t most = *std::max_element(query.visible.begin(), query.visible.end());
  const std::size_t first_block = segment * kSegmentTokens / lane.block_tokens();
  std::vector<const std::byte*> k;
  std::vector<const std::byte*> v;
  for (std::size_t t = 0; t < most; t += lane.block_tokens()) {
    k.push_back(lane.k_tiles()[first_block + k.size()].data());
    v.push_back(lane.v_tiles()[first_block + v.size()].data());
  }
  AlignedFloats scratch(AttendScratchFloats(rows));
  for (float& value : scratch.span()) value = std::numeric_limits<float>::quiet_NaN();
  kernels.attend({.format = lane.format(),
                  .head_dim = lane.head_dim(),
                  .block_tokens = lane.block_tokens(),
                  .k_tiles = k.data(),
                  .v_tiles = v.data(),
                  .q = query.q.data(),
                  .q_stride = lane.head_dim(),
                  .rows = rows,
                  .visible = query.visible.data(),
                  .max = state.max.data(),
                  .sum = state.sum.data(),
                  .acc = state.acc.data(),
                  .scratch = scratch.data()});
  return state;
}

Query RandomQuery(std::size_t rows, std::size_t head_dim, std::size_t tokens, std::uint64_t seed) {
  Random random(seed);
  Query query{random.Floats(rows * head_dim, 0.4f), {}};
  for (std::size_t r = 0; r < rows; ++r) {
    query.visible.push_back(static_cast<std::uint32_t>(1 + random.Below(tokens)));
  }
  return query;
}

TEST(StoreKv, RoundsToNearestEvenOnEveryIsa) {
  Random random(7);
  for (const KvFormat format : kFormats) {
    for (const std::size_t head_dim : {8, 24, 80}) {
      std::vector<float> k = random.Floats(head_dim, 70000.0f);
      std::vector<float> v = random.Floats(head_dim, 1e-6f);
      k[3] = std::numeric_limits<float>::infinity();
      v[5] = 1.0f + 0x1p-11f;     // a tie in f16
      v[6] = 1.0f + 3 * 0x1p-8f;  // a tie in bf16
      Lane want(format, head_dim, 16);
      want.Append(KernelsFor(Isa::kReference), k.data(), v.data());
      for (const Isa isa : RunnableIsas()) {
        Lane got(format, head_dim, 16);
        got.Append(KernelsFor(isa), k.data(), v.data());
        EXPECT_EQ(got.k_tiles(), want.k_tiles()) << NameOf(isa);
        EXPECT_EQ(got.v_tiles(), want.v_tiles()) << NameOf(isa);
      }
    }
  }
}

TEST(StoreKv, LaysKOutByChannelAndVByToken) {
  const std::vector<float> k = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> v = {-1, -2, -3, -4, -5, -6, -7, -8};
  std::vector<float> k_tile(8 * 16);
  std::vector<float> v_tile(16 * 8);
  KernelsFor(BestIsa()).store_kv({.format = KvFormat::kF32,
                                  .k = k.data(),
                                  .v = v.data(),
                                  .head_dim = 8,
                                  .block_tokens = 16,
                                  .slot = 3,
                                  .k_tile = reinterpret_cast<std::byte*>(k_tile.data()),
                                  .v_tile = reinterpret_cast<std::byte*>(v_tile.data())});
  for (std::size_t c = 0; c < 8; ++c) {
    EXPECT_EQ(k_tile[c * 16 + 3], k[c]);
    EXPECT_EQ(v_tile[3 * 8 + c], v[c]);
  }
}

TEST(StoreKv, ANaNStaysANaN) {
  const std::vector<float> nan(8, std::bit_cast<float>(0x7F800001u));
  for (const Isa isa : RunnableIsas()) {
    std::vector<std::uint16_t> k(8 * 16);
    std::vector<std::uint16_t> v(16 * 8);
    for (const KvFormat format : {KvFormat::kF16, KvFormat::kBF16}) {
      KernelsFor(isa).store_kv({format, nan.data(), nan.data(), 8, 16, 0,
                                reinterpret_cast<std::byte*>(k.data()),
                                reinterpret_cast<std::byte*>(v.data())});
      const float back = format == KvFormat::kF16 ? F16ToF32(v[0]) : Bf16ToF32(v[0]);
      EXPECT_TRUE(std::isnan(back)) << NameOf(isa);
    }
  }
}

TEST(Attend, EqualsTheReferenceForEveryShape) {
  for (const KvFormat format : kFormats) {
    for (const std::size_t head_dim : {8, 24, 64, 80, 96, 128}) {
      Lane lane(format, head_dim, 16);
      lane.AppendRandom(90, head_dim);
      for (std::size_t rows = 0; rows <= 14; rows += head_dim == 64 ? 1 : 5) {
        const Query query = RandomQuery(rows, head_dim, lane.tokens(), rows);
        const State want = Attend(KernelsFor(Isa::kReference), lane, 0, query);
        for (const Isa isa : RunnableIsas()) {
          ASSERT_TRUE(Attend(KernelsFor(isa), lane, 0, query) == want)
              << NameOf(isa) << ", " << rows << " rows, head_dim " << head_dim;
        }
      }
    }
  }
}

TEST(Attend, EqualsTheReferenceForTheLargestHeadAndAFullSegment) {
  Lane lane(KvFormat::kBF16, kMaxHeadDim, 256);
  lane.AppendRandom(kSegmentTokens, 8);
  const Query query = RandomQuery(3, kMaxHeadDim, lane.tokens(), 9);
  const State want = Attend(KernelsFor(Isa::kReference), lane, 0, query);
  for (const Isa isa : RunnableIsas()) {
    EXPECT_TRUE(Attend(KernelsFor(isa), lane, 0, query) == want) << NameOf(isa);
  }
}

TEST(Attend, EveryNumberOfVisibleTokensAndNaNInTheUnseenSlots) {
  const std::size_t head_dim = 16;
  Lane lane(KvFormat::kF16, head_dim, 64);
  lane.AppendRandom(kSegmentTokens, 10);
  Random random(11);
  for (std::uint32_t visible = 1; visible <= kSegmentTokens; ++visible) {
    if (visible > 36 && visible % 16 > 1 && visible < 254) continue;
    // A lane that ends where the view ends: the rest of its last block is NaN.
    Lane shorter(KvFormat::kF16, head_dim, 64);
    shorter.AppendRandom(visible, 10);
    const Query query{random.Floats(head_dim), {visible}};
    const State want = Attend(KernelsFor(Isa::kReference), lane, 0, query);
    ASSERT_TRUE(std::isfinite(want.acc[0]));
    for (const Isa isa : RunnableIsas()) {
      ASSERT_TRUE(Attend(KernelsFor(isa), lane, 0, query) == want) << NameOf(isa) << visible;
      ASSERT_TRUE(Attend(KernelsFor(isa), shorter, 0, query) == want) << NameOf(isa) << visible;
    }
  }
}

TEST(Attend, TheBlockSizeDoesNotChangeABit) {
  for (const KvFormat format : kFormats) {
    const std::size_t head_dim = 24;
    const Query query = RandomQuery(7, head_dim, kSegmentTokens, 12);
    for (const Isa isa : RunnableIsas()) {
      Lane small(format, head_dim, 16);
      small.AppendRandom(kSegmentTokens, 13);
      const State want = Attend(KernelsFor(isa), small, 0, query);
      for (const std::size_t block_tokens : {32, 64, 128, 256}) {
        Lane lane(format, head_dim, block_tokens);
        lane.AppendRandom(kSegmentTokens, 13);
        ASSERT_TRUE(Attend(KernelsFor(isa), lane, 0, query) == want)
            << NameOf(isa) << ", blocks of " << block_tokens;
      }
    }
  }
}

TEST(Attend, ARowsResultDoesNotDependOnTheOtherRows) {
  const std::size_t head_dim = 40;
  Lane lane(KvFormat::kF16, head_dim, 32);
  lane.AppendRandom(200, 14);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Query query = RandomQuery(13, head_dim, lane.tokens(), 15 + seed);
    for (const Isa isa : RunnableIsas()) {
      const KernelSet& kernels = KernelsFor(isa);
      const State together = Attend(kernels, lane, 0, query);
      for (std::size_t r = 0; r < query.rows(); ++r) {
        const auto* q = query.q.data() + r * head_dim;
        const State alone = Attend(kernels, lane, 0, {{q, q + head_dim}, {query.visible[r]}});
        ASSERT_TRUE(SameBits(alone.max[0], together.max[r]));
        ASSERT_TRUE(SameBits(alone.sum[0], together.sum[r]));
        ASSERT_TRUE(SameBits(alone.acc, {together.acc.data() + r * head_dim, head_dim}))
            << NameOf(isa) << " row " << r;
      }
    }
  }
}

TEST(Attend, AVisibleNaNReachesOnlyTheRowsThatSeeIt) {
  Lane lane(KvFormat::kF32, 8, 16);
  lane.AppendRandom(20, 16);
  const std::vector<float> nan(8, std::numeric_limits<float>::quiet_NaN());
  lane.Append(KernelsFor(Isa::kReference), nan.data(), nan.data());
  Query query = RandomQuery(2, 8, 20, 17);
  query.visible = {20, 21};
  const State want = Attend(KernelsFor(Isa::kReference), lane, 0, query);
  EXPECT_TRUE(std::isfinite(want.acc[0]));
  EXPECT_TRUE(std::isnan(want.acc[8]));
  for (const Isa isa : RunnableIsas()) {
    EXPECT_TRUE(Attend(KernelsFor(isa), lane, 0, query) == want) << NameOf(isa);
  }
}

TEST(Attend, AZeroMaximumIsNeverNegative) {
  Lane lane(KvFormat::kF32, 8, 16);
  const std::vector<float> zero(8, 0.0f);
  for (int t = 0; t < 3; ++t) lane.Append(KernelsFor(Isa::kReference), zero.data(), zero.data());
  for (const Isa isa : RunnableIsas()) {
    const State state = Attend(KernelsFor(isa), lane, 0, {std::vector<float>(8, -1.0f), {3}});
    EXPECT_TRUE(SameBits(state.max[0], 0.0f)) << NameOf(isa);
    EXPECT_TRUE(SameBits(state.sum[0], 3.0f)) << NameOf(isa);
  }
}

// Attention over any number of tokens: segments in order, merged.
std::vector<float> AttendAll(const KernelSet& kernels, const Lane& lane,
                             const std::vector<float>& q, std::size_t tokens) {
  State state;
  for (std::size_t s = 0; s * kSegmentTokens < tokens; ++s) {
    const std::size_t left = std::min(kSegmentTokens, tokens - s * kSegmentTokens);
    const Query query{q, {static_cast<std::uint32_t>(left)}};
    const State next = Attend(kernels, lane, s, query);
    if (s == 0) {
      state = next;
      continue;
    }
    kernels.merge({.rows = 1,
                   .head_dim = lane.head_dim(),
                   .max = state.max.data(),
                   .sum = state.sum.data(),
                   .acc = state.acc.data(),
                   .from_max = next.max.data(),
                   .from_sum = next.sum.data(),
                   .from_acc = next.acc.data()});
  }
  std::vector<float> out(lane.head_dim());
  kernels.finish(state.acc.data(), state.sum.data(), 1, lane.head_dim(), out.data(),
                 lane.head_dim());
  return out;
}

// softmax(q K) V in f64, from the f32 vectors that were stored; the largest error of `got`,
// relative to the largest magnitude of the result.
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

double ErrorAgainstF64(KvFormat format, std::size_t head_dim, std::size_t tokens) {
  Random random(18);
  const std::vector<float> q = random.Floats(head_dim, 0.5f);
  std::vector<float> k = random.Floats(tokens * head_dim, 2.0f);
  std::vector<float> v = random.Floats(tokens * head_dim);
  for (float& value : v) value += 0.5f;  // a result that does not average out to nothing
  const KernelSet& kernels = KernelsFor(BestIsa());
  Lane lane(format, head_dim, 256);
  for (std::size_t t = 0; t < tokens; ++t) {
    lane.Append(kernels, k.data() + t * head_dim, v.data() + t * head_dim);
  }
  return ErrorOf(AttendAll(kernels, lane, q, tokens), q, k, v, tokens);
}

// f32: roundings of the chains only. f16 and bf16 store with 11 and 8 significant bits: an error of
// up to 2^-12 and 2^-9 per element.
TEST(Attend, IsCloseToSoftmaxInF64) {
  EXPECT_LT(ErrorAgainstF64(KvFormat::kF32, 64, 1000), 1e-5);
  EXPECT_LT(ErrorAgainstF64(KvFormat::kF16, 64, 1000), 2e-3);
  EXPECT_LT(ErrorAgainstF64(KvFormat::kBF16, 64, 1000), 1.6e-2);
  EXPECT_LT(ErrorAgainstF64(KvFormat::kF32, 256, 300), 1e-5);
}

TEST(Attend, IsCloseToSoftmaxInF64Over131072Keys) {
  EXPECT_LT(ErrorAgainstF64(KvFormat::kF32, 8, 131072), 1e-5);
  EXPECT_LT(ErrorAgainstF64(KvFormat::kF16, 8, 131072), 2e-3);
}

TEST(Merge, EqualsTheReferenceOnEveryIsa) {
  Random random(19);
  for (const std::size_t head_dim : {8, 16, 24, 72}) {
    const std::size_t rows = 5;
    State into{random.Floats(rows, 50.0f), random.Floats(rows), random.Floats(rows * head_dim)};
    const State from{random.Floats(rows, 50.0f), random.Floats(rows),
                     random.Floats(rows * head_dim)};
    into.max[2] = from.max[2];
    into.max[3] = -200.0f;  // weighs nothing
    std::vector<State> results;
    for (const Isa isa : RunnableIsas()) {
      State state = into;
      KernelsFor(isa).merge({rows, head_dim, state.max.data(), state.sum.data(), state.acc.data(),
                             from.max.data(), from.sum.data(), from.acc.data()});
      results.push_back(state);
      EXPECT_TRUE(state == results.front()) << NameOf(isa);
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
