// Scores and weighted values straight from the codes of tiles in units (kernels/codec.h), as sums
// of products of bytes. The sums are integers, so their order is free; what is floating point is
// one fixed expression per 32 channels.
#include <cstring>

#include "kernels/prepared_query.h"
#include "kernels/simd/dot-inl.h"
#include "kernels/simd/raw_tiles-inl.h"
#include "kernels/simd/vectors-inl.h"
#include "kernels/tile_layout.h"

#if defined(ASHLAR_KERNELS_SIMD_UNIT_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASHLAR_KERNELS_SIMD_UNIT_TILES_INL_H_
#undef ASHLAR_KERNELS_SIMD_UNIT_TILES_INL_H_
#else
#define ASHLAR_KERNELS_SIMD_UNIT_TILES_INL_H_
#endif

#if ASHLAR_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace ashlar::kernels::HWY_NAMESPACE {

using DU16 = hn::Repartition<std::uint16_t, D>;

// A row of 64 codes is kVectorsPer16 vectors; `part` says which.
inline constexpr std::size_t kPartBytes = 4 * kLanes;

HWY_INLINE VU8 LoadPart(const std::byte* row, std::size_t part) {
  return hn::LoadU(DU8(), reinterpret_cast<const std::uint8_t*>(row) + part * kPartBytes);
}

// Bits [kBit, kBit + kBits) of every byte, moved to bits [kTo, kTo + kBits).
template <std::size_t kBit, std::size_t kBits, std::size_t kTo>
HWY_INLINE VU8 Bits(VU8 bytes) {
  const DU8 d;
  const DU16 d16;
  const VU8 mask = hn::Set(d, static_cast<std::uint8_t>(((1u << kBits) - 1) << kTo));
  if constexpr (kBit > kTo) {
    return hn::And(hn::BitCast(d, hn::ShiftRight<kBit - kTo>(hn::BitCast(d16, bytes))), mask);
  } else if constexpr (kBit < kTo) {
    return hn::And(hn::BitCast(d, hn::ShiftLeft<kTo - kBit>(hn::BitCast(d16, bytes))), mask);
  } else {
    return hn::And(bytes, mask);
  }
}

// Row kRow's part of a unit's codes; of a codebook, their levels.
template <KvCodecKind kKind, std::size_t kRow>
HWY_INLINE VU8 LoadCodes(const std::byte* unit, std::size_t part) {
  constexpr std::size_t kNibbles = kRow / 2 * kUnitRowCodes;
  constexpr std::size_t kPairs = kRow / 4 * kUnitRowCodes;
  if constexpr (kKind == KvCodecKind::kQ8) {
    return LoadPart(unit + kRow * kUnitRowCodes, part);
  } else if constexpr (kKind == KvCodecKind::kQ4 || kKind == KvCodecKind::kKc4) {
    return Bits<kRow % 2 * 4, 4, 0>(LoadPart(unit + kNibbles, part));
  } else if constexpr (kKind == KvCodecKind::kQ6) {
    return hn::Or(Bits<kRow % 2 * 4, 4, 0>(LoadPart(unit + kNibbles, part)),
                  Bits<kRow % 4 * 2, 2, 4>(LoadPart(unit + 256 + kPairs, part)));
  } else if constexpr (kKind == KvCodecKind::kQ5) {
    return hn::Or(Bits<kRow % 2 * 4, 4, 0>(LoadPart(unit + kNibbles, part)),
                  Bits<kRow, 1, 4>(LoadPart(unit + 256, part)));
  } else if constexpr (kKind == KvCodecKind::kKc2) {
    return Bits<kRow % 4 * 2, 2, 0>(LoadPart(unit + kPairs, part));
  } else if constexpr (kKind == KvCodecKind::kLm4) {
    const VU8 table = hn::LoadDup128(DU8(), kLevels16.data());
    return hn::TableLookupBytes(table, Bits<kRow % 2 * 4, 4, 0>(LoadPart(unit + kNibbles, part)));
  } else {
    static_assert(kKind == KvCodecKind::kLm3);
    const VU8 table = hn::LoadDup128(DU8(), kLevels8.data());
    return hn::TableLookupBytes(table,
                                hn::Or(Bits<kRow % 4 * 2, 2, 0>(LoadPart(unit + kPairs, part)),
                                       Bits<kRow, 1, 2>(LoadPart(unit + 128, part))));
  }
}

template <KvCodecKind kKind>
HWY_INLINE VI32 DotCodes(VI32 sum, VU8 codes, VI8 x) {
  if constexpr (kKind == KvCodecKind::kQ8 || IsCodebook(kKind)) {
    return DotU8S8(sum, codes, x);
  } else {
    return DotU7S8(sum, codes, x);
  }
}

// The same four bytes in every lane.
HWY_INLINE VI8 Repeat4(const std::byte* four) {
  std::int32_t word;
  std::memcpy(&word, four, sizeof word);
  return hn::BitCast(DI8(), hn::Set(DI32(), word));
}

HWY_INLINE V LoadHalves(const std::byte* p) { return LoadF16(D(), p); }

// --- Scores ---

struct ScoreUnitsArgs {
  ScoreRowsArgs rows;
  const std::byte* prepared;  // of the first row
};

template <KvCodecKind kKind, std::size_t kRows, std::size_t kDigits, std::size_t kRow = 0>
HWY_INLINE void DotKeyRows(const std::byte* unit, std::size_t part, const std::byte* x,
                           std::size_t row_bytes, std::size_t channels,
                           VI32 (&sums)[kRows][kDigits]) {
  if constexpr (kRow < kUnitRows) {
    const VU8 codes = LoadCodes<kKind, kRow>(unit, part);
    ASHLAR_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) {
      ASHLAR_UNROLL
      for (std::size_t digit = 0; digit < kDigits; ++digit) {
        const VI8 four = Repeat4(x + r * row_bytes + digit * channels + 4 * kRow);
        sums[r][digit] = DotCodes<kKind>(sums[r][digit], codes, four);
      }
    }
    DotKeyRows<kKind, kRows, kDigits, kRow + 1>(unit, part, x, row_bytes, channels, sums);
  }
}

template <std::size_t kDigits>
HWY_INLINE VI32 JoinDigits(const VI32 (&digits)[kDigits]) {
  if constexpr (kDigits == 1) return digits[0];
  return hn::Add(hn::ShiftLeft<8>(digits[0]), digits[1]);
}

// Logits of kRows rows for the 16 tokens from `token` on.
template <KvCodecKind kKind, std::size_t kRows>
HWY_INLINE void ScoreUnitRow(const ScoreUnitsArgs& args, const PreparedLayout& layout,
                             std::size_t token, ReadAhead& ahead) {
  constexpr auto kDigits = static_cast<std::size_t>(QueryDigits(kKind));
  const D d;
  const ScoreRowsArgs& rows = args.rows;
  const std::byte* const tile = rows.tiles[token / rows.block_tokens];
  const std::size_t group = token % rows.block_tokens / kUnitTokens;
  const std::byte* const units = tile + group * layout.units * UnitBytes(kKind);
  const std::byte* const scales = tile + CodeBytes(kKind, rows.head_dim, rows.block_tokens) +
                                  group * (IsCodebook(kKind) ? 1 : layout.units) * kUnitTokens * 2;
  for (std::size_t part = 0; part < kVectorsPer16; ++part) {
    V f[kRows];
    ASHLAR_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) f[r] = hn::Zero(d);
    for (std::size_t b = 0; b < layout.units; ++b) {
      ahead.Ask();
      VI32 sums[kRows][kDigits];
      ASHLAR_UNROLL
      for (std::size_t r = 0; r < kRows; ++r) {
        ASHLAR_UNROLL
        for (std::size_t digit = 0; digit < kDigits; ++digit) sums[r][digit] = hn::Zero(DI32());
      }
      DotKeyRows<kKind, kRows, kDigits>(units + b * UnitBytes(kKind), part,
                                        args.prepared + b * kUnitChannels, layout.row_bytes,
                                        layout.channels, sums);
      const std::size_t scale_at = (IsCodebook(kKind) ? 0 : b) * kUnitTokens + part * kLanes;
      const V scale = LoadHalves(scales + 2 * scale_at);
      ASHLAR_UNROLL
      for (std::size_t r = 0; r < kRows; ++r) {
        std::int32_t offset;
        std::memcpy(&offset, args.prepared + r * layout.row_bytes + layout.offsets_at() + 4 * b,
                    sizeof offset);
        const VI32 sum = hn::Sub(JoinDigits(sums[r]), hn::Set(DI32(), offset));
        f[r] = hn::MulAdd(hn::ConvertTo(d, sum), scale, f[r]);
      }
    }
    ASHLAR_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) {
      float step;
      std::memcpy(&step, args.prepared + r * layout.row_bytes + layout.step_at(), sizeof step);
      hn::StoreU(hn::Mul(f[r], hn::Set(d, step)), d,
                 rows.logits + r * kSegmentTokens + token + part * kLanes);
    }
  }
}

template <KvCodecKind kKind, std::size_t kRows>
void ScoreUnits(const ScoreUnitsArgs& args, ReadAhead& ahead) {
  const PreparedLayout layout(kKind, args.rows.head_dim);
  for (std::size_t t = args.rows.begin; t < args.rows.end; t += kUnitTokens) {
    ScoreUnitRow<kKind, kRows>(args, layout, t, ahead);
  }
}

// --- Integers ---

// values[i] of [0, count) as integers in two digits, high [count], low [count]; count is a multiple
// of 16. The step, NaN when a value is not finite; `sum` is the integers' sum.
template <int kLevels>
HWY_INLINE float MakeDigits(const float* values, std::size_t count, std::int8_t* high,
                            std::int8_t* low, std::int32_t& sum) {
  const D d;
  const DU32 du;
  auto bits = hn::Zero(du);  // of the greatest magnitude; anything not finite is greater still
  for (std::size_t i = 0; i < count; i += kLanes) {
    bits = hn::Max(bits, hn::BitCast(du, hn::Abs(hn::LoadU(d, values + i))));
  }
  const float greatest = hn::GetLane(hn::BitCast(d, hn::MaxOfLanes(du, bits)));
  if (!(greatest > kLeastMagnitude) || greatest == std::numeric_limits<float>::infinity()) {
    std::fill_n(high, count, std::int8_t{0});
    if (low != nullptr) std::fill_n(low, count, std::int8_t{0});
    sum = 0;
    return greatest <= kLeastMagnitude ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  const float step = greatest / static_cast<float>(kLevels);
  const V inverse = hn::Set(d, 1.0f / step);
  const VI32 most = hn::Set(DI32(), kLevels);
  const hn::Rebind<std::int8_t, D> d8;
  VI32 sums = hn::Zero(DI32());
  for (std::size_t i = 0; i < count; i += kLanes) {
    VI32 x = hn::NearestInt(hn::Mul(hn::LoadU(d, values + i), inverse));
    x = hn::Max(hn::Min(x, most), hn::Neg(most));
    sums = hn::Add(sums, x);
    if constexpr (kLevels == 127) {
      hn::StoreU(hn::DemoteTo(d8, x), d8, high + i);
    } else {
      const VI32 h = hn::ShiftRight<8>(hn::Add(x, hn::Set(DI32(), 128)));
      hn::StoreU(hn::DemoteTo(d8, h), d8, high + i);
      hn::StoreU(hn::DemoteTo(d8, hn::Sub(x, hn::ShiftLeft<8>(h))), d8, low + i);
    }
  }
  sum = hn::GetLane(hn::SumOfLanes(DI32(), sums));
  return step;
}

// Logits of keys whose channels have scales of their own: one row, block by block.
template <KvCodecKind kKind>
void ScoreChannelScaled(const ScoreRowsArgs& args, float* scratch) {
  const D d;
  const std::size_t units = ChannelUnits(args.head_dim);
  const std::size_t channels = units * kUnitChannels;
  float* const scaled = scratch;
  auto* const high = reinterpret_cast<std::int8_t*>(scaled + channels);
  std::int8_t* const low = high + channels;
  for (std::size_t t = args.begin; t < args.end; t += args.block_tokens) {
    const std::byte* const tile = args.tiles[t / args.block_tokens];
    const std::byte* const scales = tile + CodeBytes(kKind, args.head_dim, args.block_tokens);
    float offset = 0.0f;
    for (std::size_t c = 0; c < channels; ++c) {
      const float q = c < args.head_dim ? args.q[c] : 0.0f;
      scaled[c] = q * LoadHalf(scales + 2 * c);
      if (c < args.head_dim) offset = std::fma(q, LoadHalf(scales + 2 * (channels + c)), offset);
    }
    std::int32_t sum;
    const V step = hn::Set(d, MakeDigits<kWeightLevels>(scaled, channels, high, low, sum));
    for (std::size_t g = 0; g < args.block_tokens / kUnitTokens; ++g) {
      for (std::size_t part = 0; part < kVectorsPer16; ++part) {
        VI32 sums[1][2] = {{hn::Zero(DI32()), hn::Zero(DI32())}};
        for (std::size_t b = 0; b < units; ++b) {
          DotKeyRows<kKind, 1, 2>(tile + (g * units + b) * UnitBytes(kKind), part,
                                  reinterpret_cast<const std::byte*>(high) + b * kUnitChannels, 0,
                                  channels, sums);
        }
        const V n = hn::ConvertTo(d, JoinDigits(sums[0]));
        hn::StoreU(hn::MulAdd(n, step, hn::Set(d, offset)), d,
                   args.logits + t + g * kUnitTokens + part * kLanes);
      }
    }
  }
}

// --- Values ---

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
  for (std::size_t t = rows.begin; t < rows.end; t += kUnitTokens) {
    const std::byte* const scales = rows.tiles[t / rows.block_tokens] + code_bytes +
                                    2 * ScaleIndex(kKind, KvRole::kValue, rows.value_dim,
                                                   t % rows.block_tokens, b * kUnitChannels);
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

template <KvCodecKind kKind, std::size_t kRows, std::size_t kVectors, std::size_t kQuad = 0>
HWY_INLINE void DotValueRows(const std::byte* unit, std::size_t vector, const std::int8_t* digits,
                             VI32 (&sums)[kRows][kVectors][2]);

// Vector v of a unit's 32 channels: rows 4 (v / kVectorsPer16) + quad, part v % kVectorsPer16.
template <KvCodecKind kKind, std::size_t kQuad>
HWY_INLINE VU8 LoadValueCodes(const std::byte* unit, std::size_t vector) {
  const std::size_t part = vector % kVectorsPer16;
  return vector < kVectorsPer16 ? LoadCodes<kKind, kQuad>(unit, part)
                                : LoadCodes<kKind, 4 + kQuad>(unit, part);
}

template <KvCodecKind kKind, std::size_t kRows, std::size_t kVectors, std::size_t kQuad>
HWY_INLINE void DotValueRows(const std::byte* unit, std::size_t vector, const std::int8_t* digits,
                             VI32 (&sums)[kRows][kVectors][2]) {
  if constexpr (kQuad < 4) {
    VU8 codes[kVectors];
    ASHLAR_UNROLL
    for (std::size_t v = 0; v < kVectors; ++v) {
      codes[v] = LoadValueCodes<kKind, kQuad>(unit, vector + v);
    }
    ASHLAR_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) {
      const std::int8_t* const y = digits + r * 2 * kSegmentTokens + 4 * kQuad;
      const VI8 high = Repeat4(reinterpret_cast<const std::byte*>(y));
      const VI8 low = Repeat4(reinterpret_cast<const std::byte*>(y + kSegmentTokens));
      ASHLAR_UNROLL
      for (std::size_t v = 0; v < kVectors; ++v) {
        sums[r][v][0] = DotCodes<kKind>(sums[r][v][0], codes[v], high);
        sums[r][v][1] = DotCodes<kKind>(sums[r][v][1], codes[v], low);
      }
    }
    DotValueRows<kKind, kRows, kVectors, kQuad + 1>(unit, vector, digits, sums);
  }
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
    const float* const p = rows.weights + r * kSegmentTokens;
    alignas(64) float weighted[kSegmentTokens];
    for (std::size_t t = rows.begin; t < rows.end; t += kLanes) {
      hn::Store(hn::Mul(hn::LoadU(d, p + t), hn::LoadU(d, args.scales + t)), d, weighted + t);
    }
    std::int8_t* const digits = args.digits + r * 2 * kSegmentTokens;
    std::int32_t sum;
    step[r] =
        MakeDigits<kWeightLevels>(weighted + rows.begin, rows.end - rows.begin, digits + rows.begin,
                                  digits + kSegmentTokens + rows.begin, sum);
    zeros[r] = ZeroOf(kKind) * sum;
    offset[r] = IsAsymmetric(kKind) ? SumOfMinima(args, p) : 0.0f;
  }
  // Sums: rows x vectors x digits, 24 of 32 registers, 12 of 16.
  constexpr std::size_t kAllVectors = 2 * kVectorsPer16;
  constexpr std::size_t kVectors = HWY_TARGET == HWY_AVX2 ? 1 : 2;
  const std::size_t units = ChannelUnits(rows.value_dim);
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
      ahead.Ask();
      const std::size_t group = t % rows.block_tokens / kUnitTokens;
      const std::byte* const unit =
          rows.tiles[t / rows.block_tokens] + (group * units + b) * UnitBytes(kKind);
      DotValueRows<kKind, kRows, kVectors>(unit, vector, args.digits + t, sums);
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
