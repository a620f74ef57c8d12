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

// About how long the parts of a segment take, for memory to be asked for evenly: cycles for a row
// and 16 tokens, as measured with AVX-512.
struct Costs {
  std::size_t scores;
  std::size_t softmax = 12;
  std::size_t values;

  explicit Costs(const AttendArgs& args)
      : scores(InUnits(args.key_kind) ? ChannelUnits(args.head_dim) * 10 *
                                            static_cast<std::size_t>(QueryDigits(args.key_kind))
                                      : args.head_dim),
        values(InUnits(args.value_kind) ? ChannelUnits(args.value_dim) * 28 : args.value_dim) {}
};

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
    const Costs costs(args);
    ahead.Pace(ScoreAsks(args.key_kind, count, tokens, args.head_dim), costs.scores,
               costs.scores + costs.softmax + costs.values);
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

// What a row sees of its logits: tokens [first, end), of those in [begin, stored).
struct Seen {
  std::size_t first;
  std::size_t end;
  std::size_t stored;
  // Vectors in [whole, whole_end) are seen in all lanes, those before and from the latter on not.
  std::size_t whole;
  std::size_t whole_end;

  Seen(const AttendArgs& args, std::size_t row)
      : first(std::max<std::size_t>(args.begin, args.first == nullptr ? 0 : args.first[row])),
        end(0),
        stored(args.sealed + (args.own_k == nullptr ? 0 : args.own_visible[row])) {
    end = std::min(stored, args.limit);
    whole = std::min((first + 15) / 16 * 16, (end + 15) / 16 * 16);
    whole_end = std::max(whole, end / 16 * 16);
  }

  HWY_INLINE hn::Mask<D> At(std::size_t t) const {
    const D d;
    const auto upper = hn::FirstN(d, end - t);
    return first <= t ? upper : hn::AndNot(hn::FirstN(d, first - t), upper);
  }
};

// The greatest of a row's logits, which are capped and tapped first.
float MaxOfRow(const AttendArgs& args, std::size_t row, float* p) {
  const D d;
  const Seen seen(args, row);
  if (args.softcap > 0.0f) {
    const V cap = hn::Set(d, args.softcap);
    for (std::size_t t = args.begin; t < seen.end; t += kLanes) {
      hn::Store(Capped(hn::Load(d, p + t), cap), d, p + t);
    }
  }
  if (args.logits != nullptr && args.begin < seen.end) {
    std::copy(p + args.begin, p + seen.end, args.logits + row * kSegmentTokens + args.begin);
  }
  const V lowest = hn::Set(d, std::numeric_limits<float>::lowest());
  V max[4] = {lowest, lowest, lowest, lowest};
  const auto edge = [&](std::size_t from, std::size_t to) HWY_ATTR {
    for (std::size_t t = from; t < to; t += kLanes) {
      max[0] = MaxOfNumbers(hn::IfThenElse(seen.At(t), hn::Load(d, p + t), lowest), max[0]);
    }
  };
  edge(args.begin, std::min(seen.whole, seen.end));
  std::size_t t = seen.whole;
  for (; t + 4 * kLanes <= seen.whole_end; t += 4 * kLanes) {
    ASHLAR_UNROLL
    for (std::size_t i = 0; i < 4; ++i) {
      max[i] = MaxOfNumbers(hn::Load(d, p + t + i * kLanes), max[i]);
    }
  }
  for (; t < seen.whole_end; t += kLanes) max[0] = MaxOfNumbers(hn::Load(d, p + t), max[0]);
  edge(seen.whole_end, seen.end);
  max[0] = MaxOfNumbers(MaxOfNumbers(max[0], max[1]), MaxOfNumbers(max[2], max[3]));
  // The order of the lanes does not matter to a maximum, except for the sign of zero: + 0 settles
  // it.
  return hn::GetLane(hn::Add(hn::MaxOfLanes(d, max[0]), hn::Zero(d)));
}

// Turns a row's logits into exp(logit - max), 0 where it does not see. Returns their sum.
float SoftmaxRow(const AttendArgs& args, std::size_t row, float* p, ReadAhead& ahead) {
  const D d;
  const Seen seen(args, row);
  const V max = hn::Set(d, args.max[row]);
  V sums[kVectorsPer16];
  for (V& sum : sums) sum = hn::Zero(d);
  const auto edge = [&](std::size_t from, std::size_t to) HWY_ATTR {
    for (std::size_t t = from; t < to; t += kLanes) {
      V e = ExpOfNonPositive(hn::Sub(hn::Load(d, p + t), max));
      e = hn::IfThenElseZero(seen.At(t), e);  // + 0 changes no sum of exponentials
      hn::Store(e, d, p + t);
      V& sum = sums[t / kLanes % kVectorsPer16];
      sum = hn::Add(sum, e);
    }
  };
  edge(args.begin, std::min(seen.whole, seen.end));
  ReadAhead local = ahead;  // in registers
  for (std::size_t t = seen.whole; t < seen.whole_end; t += 16) {
    local.Ask();
    ASHLAR_UNROLL
    for (std::size_t h = 0; h < kVectorsPer16; ++h) {
      const V e = ExpOfNonPositive(hn::Sub(hn::Load(d, p + t + h * kLanes), max));
      hn::Store(e, d, p + t + h * kLanes);
      sums[h] = hn::Add(sums[h], e);
    }
  }
  ahead = local;
  edge(seen.whole_end, seen.end);
  if (seen.end < seen.stored) std::fill(p + seen.end, p + seen.stored, 0.0f);
  return Fold16(sums);
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
    ahead.Pace(WeighAsks(args.value_kind, count, args.sealed - args.begin, args.value_dim), 1, 1);
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
  // In two loops: to wait for one row's maximum would leave the others idle.
  for (std::size_t r = 0; r < count; ++r) {
    args.max[row + r] = MaxOfRow(args, row + r, scratch.logits + r * kSegmentTokens);
  }
  const Costs costs(args);
  ahead.Pace(count * kSegmentTokens / 16, costs.softmax, costs.softmax + costs.values);
  for (std::size_t r = 0; r < count; ++r) {
    args.sum[row + r] = SoftmaxRow(args, row + r, scratch.logits + r * kSegmentTokens, ahead);
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
