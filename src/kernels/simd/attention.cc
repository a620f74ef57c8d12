// Attention over one segment, a tile of query rows at a time: scores (lanes are tokens), softmax,
// values (lanes are channels). In each of the two products a vector of K or V is loaded and taken
// apart once for all rows of the tile, and every sum is one lane's own.
#include "kernels/simd/targets.h"  // first: says which targets exist

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/attention.cc"
#include "hwy/foreach_target.h"
#include "kernels/prepared_query.h"
#include "kernels/simd/kernels-inl.h"
#include "kernels/simd/tiles-inl.h"
#include "kernels/simd/vectors-inl.h"
#include "kernels/tile_layout.h"

#if ASHLAR_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace ashlar::kernels::HWY_NAMESPACE {
namespace {

// The parts of kAttendScratchFloats.
struct Scratch {
  float* logits;        // [rows of a tile, kSegmentTokens]; then probabilities
  std::int8_t* digits;  // [rows of a tile, 2, kSegmentTokens]
  float* scales;        // [2, kSegmentTokens]
  float* channels;      // [4 * kMaxHeadDim]

  explicit Scratch(float* base)
      : logits(base),
        digits(reinterpret_cast<std::int8_t*>(logits + kAttendTileRows * kSegmentTokens)),
        scales(logits + kAttendTileRows * (kSegmentTokens + 2 * kSegmentTokens / 4)),
        channels(scales + 2 * kSegmentTokens) {}
};

// Of a segment's work, in eighths: scores. Weights cost integers of their own where V has units.
constexpr std::size_t ScoreShare(KvCodecKind value_kind) { return InUnits(value_kind) ? 3 : 4; }

// Logits of rows [row, row + count) for all tokens that any of them sees.
void Score(const AttendArgs& args, std::size_t row, std::size_t count, const Scratch& scratch,
           ReadAhead& ahead) {
  ScoreRowsArgs rows = {.q = args.q + row * args.q_stride,
                        .q_stride = args.q_stride,
                        .head_dim = args.head_dim,
                        .block_tokens = args.block_tokens,
                        .tiles = args.k_tiles,
                        .begin = args.begin,
                        .end = args.sealed,
                        .logits = scratch.logits};
  const std::byte* prepared = nullptr;
  if (InUnits(args.key_kind) && !IsAsymmetric(args.key_kind)) {
    prepared = args.prepared + row * PreparedLayout(args.key_kind, args.head_dim).row_bytes;
  }
  if (args.begin < args.sealed) {
    const std::size_t tokens = args.sealed - args.begin;
    ahead.Pace(ScoreAsks(args.key_kind, count, tokens, args.head_dim), ScoreShare(args.value_kind));
    ScoreTiles(args.key_kind, count, rows, prepared, scratch.channels, ahead);
  }
  if (args.own_k == nullptr) return;
  rows.tiles = &args.own_k;
  rows.begin = 0;
  rows.end = *std::max_element(args.own_visible + row, args.own_visible + row + count);
  rows.logits = scratch.logits + args.sealed;
  ReadAhead none;
  ScoreTiles(args.own_key_kind, count, rows, nullptr, scratch.channels, none);
}

// --- Softmax ---

// softcap * tanh(x / softcap), as the contract says.
HWY_INLINE V Capped(V x, V cap) {
  const D d;
  const V one = hn::Set(d, 1.0f);
  const V two = hn::Set(d, 2.0f);
  const V e = ExpOf(hn::Mul(two, hn::Div(x, cap)));
  return hn::Mul(cap, hn::Sub(one, hn::Div(two, hn::Add(e, one))));
}

// Turns a row's logits p[begin, end) into exp(logit - max), 0 before `first`; writes max and sum.
void SoftmaxRow(const AttendArgs& args, std::size_t row, float* p) {
  const D d;
  const std::size_t stored = args.sealed + (args.own_k == nullptr ? 0 : args.own_visible[row]);
  const std::size_t end = std::min(stored, args.limit);
  const std::size_t first =
      std::max<std::size_t>(args.begin, args.first == nullptr ? 0 : args.first[row]);
  if (args.softcap > 0.0f) {
    const V cap = hn::Set(d, args.softcap);
    for (std::size_t t = args.begin; t < end; t += kLanes) {
      hn::Store(Capped(hn::Load(d, p + t), cap), d, p + t);
    }
  }
  if (args.logits != nullptr) {
    std::copy(p + args.begin, p + end, args.logits + row * kSegmentTokens + args.begin);
  }
  // Vectors in [whole, whole_end) are seen in all lanes.
  const std::size_t whole = (first + 15) / 16 * 16;
  const std::size_t whole_end = end / 16 * 16;
  const auto seen = [&](std::size_t t) HWY_ATTR {
    const auto upper = hn::FirstN(d, end - t);
    return first <= t ? upper : hn::AndNot(hn::FirstN(d, first - t), upper);
  };
  const V lowest = hn::Set(d, std::numeric_limits<float>::lowest());

  V max = lowest;
  for (std::size_t t = args.begin; t < end; t += kLanes) {
    V logit = hn::Load(d, p + t);
    if (t < whole || t >= whole_end) logit = hn::IfThenElse(seen(t), logit, lowest);
    max = hn::IfThenElse(hn::Gt(logit, max), logit, max);  // NaN never wins
  }
  // The order of the lanes does not matter to a maximum, except for the sign of zero: + 0 settles
  // it.
  max = hn::Add(hn::MaxOfLanes(d, max), hn::Zero(d));
  args.max[row] = hn::GetLane(max);

  V sums[kVectorsPer16];
  for (V& sum : sums) sum = hn::Zero(d);
  for (std::size_t t = args.begin; t < end; t += 16) {
    const bool is_whole = t >= whole && t < whole_end;
    ASHLAR_UNROLL
    for (std::size_t h = 0; h < kVectorsPer16; ++h) {
      const std::size_t at = t + h * kLanes;
      if (at >= end) break;
      V e = ExpOf(hn::Sub(hn::Load(d, p + at), max));
      if (!is_whole) e = hn::IfThenElseZero(seen(at), e);  // + 0 changes no sum of exponentials
      hn::Store(e, d, p + at);
      sums[h] = hn::Add(sums[h], e);
    }
  }
  args.sum[row] = Fold16(sums);
  if (end < stored) std::fill(p + end, p + stored, 0.0f);
}

// --- Values ---

// Own tokens [begin, end) of a raw block, which all these rows see.
void WeighOwn(const AttendArgs& args, AccumulateRowsArgs rows, std::size_t count, std::size_t begin,
              std::size_t end) {
  rows.tiles = &args.own_v;
  rows.weights += args.sealed;
  rows.begin = begin;
  rows.end = end;
  ReadAhead none;
  WeighTiles(args.own_value_kind, count, rows, nullptr, nullptr, none);
}

void Weigh(const AttendArgs& args, std::size_t row, std::size_t count, const Scratch& scratch,
           ReadAhead& ahead) {
  AccumulateRowsArgs rows = {.weights = scratch.logits,
                             .value_dim = args.value_dim,
                             .block_tokens = args.block_tokens,
                             .tiles = args.v_tiles,
                             .begin = args.begin,
                             .end = args.sealed,
                             .acc = args.acc + row * args.value_dim};
  std::fill(rows.acc, rows.acc + count * args.value_dim, 0.0f);
  if (args.begin < args.sealed) {
    ahead.Pace(WeighAsks(args.value_kind, count, args.sealed - args.begin, args.value_dim), 8);
    WeighTiles(args.value_kind, count, rows, scratch.scales, scratch.digits, ahead);
  }
  if (args.own_k == nullptr) return;
  // Together up to where all rows see, then each row alone: a token that a row does not see is
  // never multiplied for it, not even by zero.
  const std::uint32_t* const visible = args.own_visible + row;
  const std::size_t common = *std::min_element(visible, visible + count);
  WeighOwn(args, rows, count, 0, common);
  for (std::size_t r = 0; r < count; ++r) {
    AccumulateRowsArgs one = rows;
    one.weights += r * kSegmentTokens;
    one.acc += r * args.value_dim;
    WeighOwn(args, one, 1, common, visible[r]);
  }
}

void AttendTile(const AttendArgs& args, std::size_t row, std::size_t count) {
  const Scratch scratch(args.scratch);
  // The first tile of rows asks for all.
  ReadAhead ahead(args.next, row == 0 ? args.next_count : 0, args.next_bytes);
  Score(args, row, count, scratch, ahead);
  for (std::size_t r = 0; r < count; ++r) {
    SoftmaxRow(args, row + r, scratch.logits + r * kSegmentTokens);
  }
  if (args.is_latent) {
    WeighLatent(args, row, count, scratch.logits);
  } else {
    Weigh(args, row, count, scratch, ahead);
  }
}

}  // namespace

void Attend(const AttendArgs& args) {
  std::size_t row = 0;
  while (row < args.rows) {  // tiles of nearly equal size
    const std::size_t tiles = (args.rows - row + kTileRows - 1) / kTileRows;
    const std::size_t count = (args.rows - row + tiles - 1) / tiles;
    AttendTile(args, row, count);
    row += count;
  }
}

}  // namespace ashlar::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ASHLAR_SIMD_TARGET
