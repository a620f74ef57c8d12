// Weighted values straight from the codes of V tiles in units (kernels/codec.h): weights become
// integers once per 32 channels, and sums of products of bytes are exact.
#include "kernels/simd/digits-inl.h"
#include "kernels/simd/raw_tiles-inl.h"
#include "kernels/simd/unit_codes-inl.h"

#if defined(ASHLAR_KERNELS_SIMD_UNIT_VALUES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASHLAR_KERNELS_SIMD_UNIT_VALUES_INL_H_
#undef ASHLAR_KERNELS_SIMD_UNIT_VALUES_INL_H_
#else
#define ASHLAR_KERNELS_SIMD_UNIT_VALUES_INL_H_
#endif

#if ASHLAR_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace ashlar::kernels::HWY_NAMESPACE {

struct AccumulateUnitsArgs {
  AccumulateRowsArgs rows;
  float* scales;        // [2 * kSegmentTokens]: of the channels at hand, then minima
  std::int8_t* digits;  // [rows, 2, kSegmentTokens]
};

// The channels' scales (and minima) of all tokens, as f32.
template <KvCodecKind kKind>
HWY_INLINE void LoadScales(const AccumulateUnitsArgs& args, std::size_t b) {
  const AccumulateRowsArgs& rows = args.rows;
  const D d;
  const std::size_t code_bytes = CodeBytes(kKind, rows.value_dim, rows.block_tokens);
  const BlockPlaces places(rows.block_tokens);
  for (std::size_t t = rows.begin; t < rows.end; t += kUnitTokens) {
    const std::byte* const scales =
        rows.tiles[places.BlockOf(t)] + code_bytes +
        2 * ScaleIndex(kKind, KvRole::kValue, rows.value_dim, places.SlotOf(t), b * kUnitChannels);
    for (std::size_t i = 0; i < kUnitTokens; i += kLanes) {
      hn::StoreU(LoadHalves(scales + 2 * i), d, args.scales + t + i);
      if constexpr (IsAsymmetric(kKind)) {
        hn::StoreU(LoadHalves(scales + 2 * (kUnitTokens + i)), d,
                   args.scales + kSegmentTokens + t + i);
      }
    }
  }
}

// Sum16 of p(t) * minimum(t).
HWY_INLINE float SumOfMinima(const AccumulateUnitsArgs& args, const float* weights) {
  const D d;
  V sums[kVectorsPer16];
  for (V& sum : sums) sum = hn::Zero(d);
  const float* const minima = args.scales + kSegmentTokens;
  for (std::size_t t = args.rows.begin; t < args.rows.end; t += 16) {
    for (std::size_t h = 0; h < kVectorsPer16; ++h) {
      const std::size_t at = t + h * kLanes;
      sums[h] = hn::Add(sums[h], hn::Mul(hn::LoadU(d, weights + at), hn::LoadU(d, minima + at)));
    }
  }
  return Fold16(sums);
}

// Vector v of a unit's 32 channels: rows 4 (v / kVectorsPer16) + quad, part v % kVectorsPer16.
template <KvCodecKind kKind, std::size_t kQuad>
HWY_INLINE VU8 LoadValueCodes(const std::byte* unit, std::size_t vector) {
  const std::size_t part = vector % kVectorsPer16;
  return vector < kVectorsPer16 ? LoadCodes<kKind, kQuad>(unit, part)
                                : LoadCodes<kKind, 4 + kQuad>(unit, part);
}

// digits: of the unit's 16 tokens.
template <KvCodecKind kKind, std::size_t kRows, std::size_t kVectors, std::size_t kQuad = 0>
HWY_INLINE void DotValueRows(const std::byte* unit, std::size_t vector, const std::int8_t* digits,
                             VI32 (&sums)[kRows][kVectors][2], ReadAhead& ahead) {
  if constexpr (kQuad < 4) {
    ahead.Ask();
    VU8 codes[kVectors];
    ASHLAR_UNROLL
    for (std::size_t v = 0; v < kVectors; ++v) {
      codes[v] = LoadValueCodes<kKind, kQuad>(unit, vector + v);
    }
    ASHLAR_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) {
      const std::int8_t* const y = digits + r * 2 * kSegmentTokens + DigitsAt(kQuad);
      const VI8 high = Repeat4(reinterpret_cast<const std::byte*>(y));
      const VI8 low = Repeat4(reinterpret_cast<const std::byte*>(y + kSegmentTokens));
      ASHLAR_UNROLL
      for (std::size_t v = 0; v < kVectors; ++v) {
        sums[r][v][0] = DotCodes<kKind>(sums[r][v][0], codes[v], high);
        sums[r][v][1] = DotCodes<kKind>(sums[r][v][1], codes[v], low);
      }
    }
    DotValueRows<kKind, kRows, kVectors, kQuad + 1>(unit, vector, digits, sums, ahead);
  }
}

// How often the products of a unit's channels ask their ReadAhead, and how many of these calls take
// as long as a row's weights take to become integers: those of all rows take about half as long as
// the products.
constexpr std::size_t UnitAsks(std::size_t tokens) {
  return tokens / kUnitTokens * 4 * (HWY_TARGET == HWY_AVX2 ? 2 * kVectorsPer16 : kVectorsPer16);
}
constexpr std::size_t DigitAsks(std::size_t rows, std::size_t tokens) {
  return UnitAsks(tokens) * 5 / 9 / rows;
}

// acc = the weighted sum over all sealed tokens of the channels of unit b.
template <KvCodecKind kKind, std::size_t kRows>
void AccumulateUnit(const AccumulateUnitsArgs& args, std::size_t b, ReadAhead& ahead) {
  const D d;
  const AccumulateRowsArgs& rows = args.rows;
  LoadScales<kKind>(args, b);
  float step[kRows];
  float offset[kRows];
  std::int32_t zeros[kRows];
  for (std::size_t r = 0; r < kRows; ++r) {
    ahead.Ask(DigitAsks(kRows, rows.end - rows.begin));
    const float* const p = rows.weights + r * kSegmentTokens;
    std::int8_t* const high = args.digits + r * 2 * kSegmentTokens;
    std::int8_t* const low = high + kSegmentTokens;
    const WeightDigits made =
        MakeWeightDigits<HasSignedScales(kKind)>(p, args.scales, rows.begin, rows.end, high, low);
    step[r] = made.step;
    zeros[r] = ZeroOf(kKind) * made.sum;
    offset[r] = IsAsymmetric(kKind) ? SumOfMinima(args, p) : 0.0f;
  }
  // Sums: rows x vectors x digits, 24 of 32 registers, 12 of 16.
  constexpr std::size_t kAllVectors = 2 * kVectorsPer16;
  constexpr std::size_t kVectors = HWY_TARGET == HWY_AVX2 ? 1 : 2;
  const std::size_t units = ChannelUnits(rows.value_dim);
  const BlockPlaces places(rows.block_tokens);
  ReadAhead local = ahead;  // in registers
  for (std::size_t vector = 0; vector < kAllVectors; vector += kVectors) {
    VI32 sums[kRows][kVectors][2];
    ASHLAR_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) {
      ASHLAR_UNROLL
      for (std::size_t v = 0; v < kVectors; ++v) {
        sums[r][v][0] = hn::Zero(DI32());
        sums[r][v][1] = hn::Zero(DI32());
      }
    }
    for (std::size_t t = rows.begin; t < rows.end; t += kUnitTokens) {
      const std::size_t group = places.SlotOf(t) / kUnitTokens;
      const std::byte* const unit =
          rows.tiles[places.BlockOf(t)] + (group * units + b) * UnitBytes(kKind);
      DotValueRows<kKind, kRows, kVectors>(unit, vector, args.digits + DigitsAt(t / 4), sums,
                                           local);
    }
    ASHLAR_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) {
      ASHLAR_UNROLL
      for (std::size_t v = 0; v < kVectors; ++v) {
        const std::size_t channel = b * kUnitChannels + (vector + v) * kLanes;
        if (channel >= rows.value_dim) continue;
        const VI32 n = hn::Sub(JoinDigits(sums[r][v]), hn::Set(DI32(), zeros[r]));
        const V acc = hn::MulAdd(hn::ConvertTo(d, n), hn::Set(d, step[r]), hn::Set(d, offset[r]));
        StoreFirst(acc, d, rows.acc + r * rows.value_dim + channel, rows.value_dim - channel);
      }
    }
  }
  ahead = local;
}

// How often AccumulateUnits asks its ReadAhead.
constexpr std::size_t AccumulateUnitCalls(std::size_t rows, std::size_t tokens,
                                          std::size_t value_dim) {
  return (UnitAsks(tokens) + rows * DigitAsks(rows, tokens)) * ChannelUnits(value_dim);
}

template <KvCodecKind kKind, std::size_t kRows>
void AccumulateUnits(const AccumulateUnitsArgs& args, ReadAhead& ahead) {
  for (std::size_t b = 0; b < ChannelUnits(args.rows.value_dim); ++b) {
    AccumulateUnit<kKind, kRows>(args, b, ahead);
  }
}

}  // namespace ashlar::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ASHLAR_SIMD_TARGET

#endif  // toggle
