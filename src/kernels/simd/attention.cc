// Attention over one segment, a tile of query rows at a time: scores (lanes are tokens), softmax,
// values (lanes are channels). In each of the two products a vector of K or V is loaded and
// converted once for all rows of the tile, and every sum is one lane's own chain.
#include "kernels/simd/targets.h"  // first: says which targets exist

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/attention.cc"
#include <cstring>

#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "kernels/simd/kernels-inl.h"
#include "kernels/simd/vectors-inl.h"

#if ASHLAR_SIMD_TARGET
#include "base/half.h"

HWY_BEFORE_NAMESPACE();
namespace ashlar::kernels::HWY_NAMESPACE {
namespace {

constexpr std::size_t kTileRows = 6;

// Vectors of K tokens or V channels beside `rows` rows: as many sums as the registers hold (24 of
// 32, 12 of 16), and for one row still enough to hide the latency of a fused multiply-add.
constexpr std::size_t TileVectors(std::size_t rows) {
  if (HWY_TARGET == HWY_AVX2) return rows <= 3 ? 4 : 2;
  return 4;
}

HWY_INLINE std::size_t Greatest(const std::uint32_t* visible, std::size_t rows) {
  return *std::max_element(visible, visible + rows);
}

// --- Scores ---

// Where the first element of vector `vector` of a segment's tokens lies in K; the next channel's
// follows block_tokens elements later.
HWY_INLINE const std::byte* KOf(const AttendArgs& args, std::size_t vector) {
  const std::size_t token = vector * kLanes;
  return args.k_tiles[token / args.block_tokens] +
         token % args.block_tokens * BytesPerElement(args.format);
}
// Where the rows of V of the same tokens begin.
HWY_INLINE const std::byte* VOf(const AttendArgs& args, std::size_t vector) {
  const std::size_t token = vector * kLanes;
  return args.v_tiles[token / args.block_tokens] +
         token % args.block_tokens * args.head_dim * BytesPerElement(args.format);
}

// Asks for memory ahead of its use, a channel's worth at a time: K of the tokens that come next, V
// of these tokens. Tiles lie anywhere in memory, so the processor cannot guess.
template <KvFormat kFormat, std::size_t kVectors>
class ReadAhead {
 public:
  // The vectors [vector, vector + kVectors) are being read; those below `end` will be.
  ReadAhead(const AttendArgs& args, std::size_t vector, std::size_t end)
      : k_step_(args.block_tokens * BytesPerElement(kFormat)) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      const std::size_t next = vector + kVectors + v;
      k_[v] = KOf(args, next < end ? next : vector + v);
      v_[v] = VOf(args, vector + v);
    }
  }
  HWY_INLINE void Channel() {
    for (std::size_t v = 0; v < kVectors; ++v) {
      hwy::Prefetch(k_[v]);
      hwy::Prefetch(v_[v]);
      k_[v] += k_step_;
      v_[v] += kLanes * BytesPerElement(kFormat);
    }
  }

 private:
  std::size_t k_step_;
  const std::byte* k_[kVectors];
  const std::byte* v_[kVectors];
};

// Logits of kRows rows from `row` on and the tokens of kVectors vectors from `vector` on, to
// scratch.
template <KvFormat kFormat, std::size_t kRows, std::size_t kVectors>
void ScoreTile(const AttendArgs& args, std::size_t row, std::size_t vector, std::size_t end) {
  const D d;
  const std::byte* k[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) k[v] = KOf(args, vector + v);
  V sums[kRows][kVectors];
  ASHLAR_UNROLL
  for (std::size_t r = 0; r < kRows; ++r) {
    ASHLAR_UNROLL
    for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
  }
  const float* q = args.q + row * args.q_stride;
  const std::size_t k_stride = args.block_tokens * BytesPerElement(kFormat);
  ReadAhead<kFormat, kVectors> ahead(args, vector, end);
  const bool is_first_reader = row == 0;  // later tiles of rows find K and V in the cache
  for (std::size_t c = 0, offset = 0; c < args.head_dim; ++c, offset += k_stride) {
    if (is_first_reader) ahead.Channel();
    V kv[kVectors];
    ASHLAR_UNROLL
    for (std::size_t v = 0; v < kVectors; ++v) kv[v] = LoadKv<kFormat>(d, k[v] + offset);
    ASHLAR_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) {
      const V qr = hn::Set(d, q[r * args.q_stride + c]);
      ASHLAR_UNROLL
      for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(qr, kv[v], sums[r][v]);
    }
  }
  float* logits = args.scratch + row * kSegmentTokens + vector * kLanes;
  ASHLAR_UNROLL
  for (std::size_t r = 0; r < kRows; ++r) {
    ASHLAR_UNROLL
    for (std::size_t v = 0; v < kVectors; ++v) {
      hn::Store(sums[r][v], d, logits + r * kSegmentTokens + v * kLanes);
    }
  }
}

template <KvFormat kFormat, std::size_t kRows>
void ScoreRows(const AttendArgs& args, std::size_t row, std::size_t tokens) {
  const std::size_t end = (tokens + kLanes - 1) / kLanes;
  constexpr std::size_t kVectors = TileVectors(kRows);
  std::size_t vector = 0;
  for (; vector + kVectors <= end; vector += kVectors) {
    ScoreTile<kFormat, kRows, kVectors>(args, row, vector, end);
  }
  if constexpr (kVectors > 2) {
    for (; vector + 2 <= end; vector += 2) ScoreTile<kFormat, kRows, 2>(args, row, vector, end);
  }
  for (; vector < end; ++vector) ScoreTile<kFormat, kRows, 1>(args, row, vector, end);
}

// --- Softmax ---

// Turns a row's logits (in scratch) into exp(logit - max); writes max and sum.
void SoftmaxRow(const AttendArgs& args, std::size_t row) {
  const D d;
  float* p = args.scratch + row * kSegmentTokens;
  const std::size_t visible = args.visible[row];
  const auto seen = [&](std::size_t t) HWY_ATTR { return hn::FirstN(d, visible - t); };
  const V lowest = hn::Set(d, -std::numeric_limits<float>::infinity());

  V max = lowest;
  for (std::size_t t = 0; t < visible; t += kLanes) {
    const V logit = hn::IfThenElse(seen(t), hn::Load(d, p + t), lowest);
    max = hn::IfThenElse(hn::Gt(logit, max), logit, max);  // NaN never wins
  }
  // The order of the lanes does not matter to a maximum, except for the sign of zero: + 0 settles
  // it.
  max = hn::Add(hn::MaxOfLanes(d, max), hn::Zero(d));
  args.max[row] = hn::GetLane(max);

  V sums[kVectorsPer16];
  for (V& sum : sums) sum = hn::Zero(d);
  for (std::size_t t = 0; t < visible; t += 16) {
    ASHLAR_UNROLL
    for (std::size_t h = 0; h < kVectorsPer16; ++h) {
      const std::size_t first = t + h * kLanes;
      if (first >= visible) break;
      V e = ExpOf(hn::Sub(hn::Load(d, p + first), max));
      e = hn::IfThenElseZero(seen(first), e);  // sums of exponentials are not changed by + 0
      hn::Store(e, d, p + first);
      sums[h] = hn::Add(sums[h], e);
    }
  }
  args.sum[row] = Fold16(sums);
}

// --- Values ---

// acc += p * V for kRows rows from `row` on, kVectors vectors of channels from `channel` on, and
// tokens [begin, end), which all these rows see.
template <KvFormat kFormat, std::size_t kRows, std::size_t kVectors, class DF>
void AccumulateTile(const AttendArgs& args, DF d, std::size_t row, std::size_t channel,
                    std::size_t begin, std::size_t end) {
  using VF = hn::Vec<DF>;
  constexpr std::size_t kWidth = hn::MaxLanes(DF());
  constexpr std::size_t kBytes = BytesPerElement(kFormat);
  float* acc = args.acc + row * args.head_dim + channel;
  VF sums[kRows][kVectors];
  ASHLAR_UNROLL
  for (std::size_t r = 0; r < kRows; ++r) {
    ASHLAR_UNROLL
    for (std::size_t v = 0; v < kVectors; ++v) {
      sums[r][v] = hn::LoadU(d, acc + r * args.head_dim + v * kWidth);
    }
  }
  const std::size_t v_stride = args.head_dim * kBytes;
  for (std::size_t t = begin; t < end;) {
    const std::size_t slot = t % args.block_tokens;
    const std::size_t block_end = std::min(end, t - slot + args.block_tokens);
    const std::byte* v_row =
        args.v_tiles[t / args.block_tokens] + slot * v_stride + channel * kBytes;
    for (; t < block_end; ++t, v_row += v_stride) {
      VF value[kVectors];
      ASHLAR_UNROLL
      for (std::size_t v = 0; v < kVectors; ++v) {
        value[v] = LoadKv<kFormat>(d, v_row + v * kWidth * kBytes);
      }
      ASHLAR_UNROLL
      for (std::size_t r = 0; r < kRows; ++r) {
        const VF p = hn::Set(d, args.scratch[(row + r) * kSegmentTokens + t]);
        ASHLAR_UNROLL
        for (std::size_t v = 0; v < kVectors; ++v) {
          sums[r][v] = hn::MulAdd(p, value[v], sums[r][v]);
        }
      }
    }
  }
  ASHLAR_UNROLL
  for (std::size_t r = 0; r < kRows; ++r) {
    ASHLAR_UNROLL
    for (std::size_t v = 0; v < kVectors; ++v) {
      hn::StoreU(sums[r][v], d, acc + r * args.head_dim + v * kWidth);
    }
  }
}

template <KvFormat kFormat, std::size_t kRows>
void AccumulateRows(const AttendArgs& args, std::size_t row, std::size_t begin, std::size_t end) {
  if (begin == end) return;
  const D d;
  constexpr std::size_t kVectors = TileVectors(kRows);
  std::size_t channel = 0;
  for (; channel + kVectors * kLanes <= args.head_dim; channel += kVectors * kLanes) {
    AccumulateTile<kFormat, kRows, kVectors>(args, d, row, channel, begin, end);
  }
  for (; channel + kLanes <= args.head_dim; channel += kLanes) {
    AccumulateTile<kFormat, kRows, 1>(args, d, row, channel, begin, end);
  }
  if (channel < args.head_dim) {  // head_dim is a multiple of 8, a vector may be 16
    AccumulateTile<kFormat, kRows, 1>(args, hn::CappedTag<float, 8>(), row, channel, begin, end);
  }
}

// --- Tiles of rows ---

template <KvFormat kFormat, std::size_t kRows>
void AttendTile(const AttendArgs& args, std::size_t row) {
  const std::uint32_t* visible = args.visible + row;
  ScoreRows<kFormat, kRows>(args, row, Greatest(visible, kRows));
  for (std::size_t r = 0; r < kRows; ++r) SoftmaxRow(args, row + r);

  float* acc = args.acc + row * args.head_dim;
  std::fill(acc, acc + kRows * args.head_dim, 0.0f);
  // Together up to where all rows see, then each row alone: a token that a row does not see is
  // never multiplied for it, not even by zero.
  const std::size_t common = *std::min_element(visible, visible + kRows);
  AccumulateRows<kFormat, kRows>(args, row, 0, common);
  for (std::size_t r = 0; r < kRows; ++r) {
    AccumulateRows<kFormat, 1>(args, row + r, common, visible[r]);
  }
}

// AttendTile<rows> for a number of rows known only now.
template <KvFormat kFormat, std::size_t kRows = kTileRows>
HWY_INLINE void AttendTileOf(const AttendArgs& args, std::size_t row, std::size_t rows) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return AttendTileOf<kFormat, kRows - 1>(args, row, rows);
  }
  AttendTile<kFormat, kRows>(args, row);
}

template <KvFormat kFormat>
void AttendOf(const AttendArgs& args) {
  std::size_t row = 0;
  while (row < args.rows) {  // tiles of nearly equal size
    const std::size_t tiles = (args.rows - row + kTileRows - 1) / kTileRows;
    const std::size_t rows = (args.rows - row + tiles - 1) / tiles;
    AttendTileOf<kFormat>(args, row, rows);
    row += rows;
  }
}

// --- Storing ---

HWY_INLINE void RoundToHalves(KvFormat format, const float* values, std::size_t count,
                              std::uint16_t* halves) {
  const D d;
  const hn::Rebind<std::uint16_t, D> d16;
  alignas(64) std::uint16_t bits[16];
  for (std::size_t c = 0; c < count; c += kLanes) {
    const V v = LoadFirst(d, values + c, count - c);
    if (format == KvFormat::kF16) {
      const hn::Rebind<hwy::float16_t, D> df16;
      hn::Store(hn::DemoteTo(df16, v), df16, reinterpret_cast<hwy::float16_t*>(bits));
    } else {
      const DU32 du;
      const auto raw = hn::BitCast(du, v);
      const auto odd = hn::And(hn::ShiftRight<16>(raw), hn::Set(du, 1));
      const auto rounded = hn::ShiftRight<16>(hn::Add(raw, hn::Add(odd, hn::Set(du, 0x7FFF))));
      const auto quiet = hn::Or(hn::ShiftRight<16>(raw), hn::Set(du, 0x40));
      const auto is_nan = hn::RebindMask(du, hn::IsNaN(v));
      const auto result = hn::IfThenElse(is_nan, quiet, rounded);
      hn::Store(hn::DemoteTo(d16, hn::BitCast(DI32(), result)), d16, bits);
    }
    std::copy_n(bits, std::min(kLanes, count - c), halves + c);
  }
}

}  // namespace

void Attend(const AttendArgs& args) {
  switch (args.format) {
    case KvFormat::kF32:
      return AttendOf<KvFormat::kF32>(args);
    case KvFormat::kF16:
      return AttendOf<KvFormat::kF16>(args);
    case KvFormat::kBF16:
      return AttendOf<KvFormat::kBF16>(args);
  }
}

void StoreKv(const StoreKvArgs& args) {
  if (args.format == KvFormat::kF32) {
    const std::size_t bytes = sizeof(float);
    for (std::size_t c = 0; c < args.head_dim; ++c) {
      std::memcpy(args.k_tile + (c * args.block_tokens + args.slot) * bytes, args.k + c, bytes);
    }
    std::memcpy(args.v_tile + args.slot * args.head_dim * bytes, args.v, args.head_dim * bytes);
    return;
  }
  const std::size_t bytes = sizeof(std::uint16_t);
  std::uint16_t halves[kMaxHeadDim];
  RoundToHalves(args.format, args.k, args.head_dim, halves);
  for (std::size_t c = 0; c < args.head_dim; ++c) {
    std::memcpy(args.k_tile + (c * args.block_tokens + args.slot) * bytes, halves + c, bytes);
  }
  RoundToHalves(args.format, args.v, args.head_dim, halves);
  std::memcpy(args.v_tile + args.slot * args.head_dim * bytes, halves, args.head_dim * bytes);
}

}  // namespace ashlar::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ASHLAR_SIMD_TARGET
