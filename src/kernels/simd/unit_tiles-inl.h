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
  float* scratch;             // for GatherQueries
};

// Groups of 16 tokens that are scored together, so that a query's bytes are loaded once for all:
// as many as leave their sums in registers.
template <KvCodecKind kKind>
constexpr std::size_t ScoreGroups(std::size_t rows) {
  const std::size_t sums = rows * static_cast<std::size_t>(QueryDigits(kKind));
  const std::size_t most = HWY_TARGET == HWY_AVX2 ? 6 : 12;
  return sums * 4 <= most ? 4 : sums * 2 <= most ? 2 : 1;
}

// The rows' integers, unit by unit of channels, in the order in which they are used: [units]
// [kUnitRows] [kRows] [kDigits] of four bytes; then the start of each sum: [units] [kRows] int32;
// then the steps [kRows].
template <std::size_t kRows, std::size_t kDigits>
struct QueryTile {
  static constexpr std::size_t kRowBytes = 4 * kRows * kDigits;
  static constexpr std::size_t kUnitBytes = kUnitRows * kRowBytes;

  const std::byte* digits;
  const std::int32_t* starts;
  const float* steps;
};

// `scratch`: room for kRows prepared rows.
template <std::size_t kRows, std::size_t kDigits>
QueryTile<kRows, kDigits> GatherQueries(const std::byte* prepared, const PreparedLayout& layout,
                                        float* scratch) {
  auto* const digits = reinterpret_cast<std::byte*>(scratch);
  auto* const starts =
      reinterpret_cast<std::int32_t*>(scratch + layout.channels / 4 * kRows * kDigits);
  float* const steps = reinterpret_cast<float*>(starts) + layout.units * kRows;
  for (std::size_t r = 0; r < kRows; ++r) {
    const std::byte* const row = prepared + r * layout.row_bytes;
    for (std::size_t digit = 0; digit < kDigits; ++digit) {
      const std::byte* const from = row + digit * layout.channels;
      std::byte* const to = digits + 4 * (r * kDigits + digit);
      for (std::size_t quad = 0; quad < layout.channels / 4; ++quad) {
        std::memcpy(to + quad * 4 * kRows * kDigits, from + 4 * quad, 4);
      }
    }
    for (std::size_t b = 0; b < layout.units; ++b) {
      std::memcpy(starts + b * kRows + r, row + layout.starts_at() + 4 * b, 4);
    }
    std::memcpy(steps + r, row + layout.step_at(), 4);
  }
  return {digits, starts, steps};
}

template <KvCodecKind kKind, std::size_t kRows, std::size_t kGroups, std::size_t kDigits,
          std::size_t kRow = 0>
HWY_INLINE void DotKeyRows(const std::byte* const (&units)[kGroups], std::size_t part,
                           const std::byte* x, VI32 (&sums)[kRows][kGroups][kDigits],
                           ReadAhead& ahead) {
  if constexpr (kRow < kUnitRows) {
    ahead.Ask();
    VU8 codes[kGroups];
    ASHLAR_UNROLL
    for (std::size_t g = 0; g < kGroups; ++g) codes[g] = LoadCodes<kKind, kRow>(units[g], part);
    ASHLAR_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) {
      ASHLAR_UNROLL
      for (std::size_t digit = 0; digit < kDigits; ++digit) {
        const VI8 four = Repeat4(x + 4 * ((kRow * kRows + r) * kDigits + digit));
        ASHLAR_UNROLL
        for (std::size_t g = 0; g < kGroups; ++g) {
          sums[r][g][digit] = DotCodes<kKind>(sums[r][g][digit], codes[g], four);
        }
      }
    }
    DotKeyRows<kKind, kRows, kGroups, kDigits, kRow + 1>(units, part, x, sums, ahead);
  }
}

template <std::size_t kDigits>
HWY_INLINE VI32 JoinDigits(const VI32 (&digits)[kDigits]) {
  if constexpr (kDigits == 1) return digits[0];
  return hn::Add(hn::ShiftLeft<8>(digits[0]), digits[1]);
}

// Logits of kRows rows for the tokens of kGroups groups of 16 from `token` on.
template <KvCodecKind kKind, std::size_t kRows, std::size_t kGroups, std::size_t kDigits>
HWY_INLINE void ScoreGroupsOf16(const ScoreRowsArgs& rows, const QueryTile<kRows, kDigits>& queries,
                                std::size_t units, std::size_t code_bytes, std::size_t token,
                                ReadAhead& ahead) {
  const D d;
  const std::byte* first_unit[kGroups];
  const std::byte* first_scale[kGroups];
  for (std::size_t g = 0; g < kGroups; ++g) {
    const std::size_t t = token + g * kUnitTokens;
    const std::byte* const tile = rows.tiles[t / rows.block_tokens];
    const std::size_t group = t % rows.block_tokens / kUnitTokens;
    first_unit[g] = tile + group * units * UnitBytes(kKind);
    first_scale[g] = tile + code_bytes + group * (IsCodebook(kKind) ? 1 : units) * kUnitTokens * 2;
  }
  for (std::size_t part = 0; part < kVectorsPer16; ++part) {
    V f[kRows][kGroups];
    ASHLAR_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) {
      ASHLAR_UNROLL
      for (std::size_t g = 0; g < kGroups; ++g) f[r][g] = hn::Zero(d);
    }
    for (std::size_t b = 0; b < units; ++b) {
      VI32 sums[kRows][kGroups][kDigits];
      const std::byte* unit[kGroups];
      for (std::size_t g = 0; g < kGroups; ++g) unit[g] = first_unit[g] + b * UnitBytes(kKind);
      // The zero's share is taken off from the start, from the digit that counts ones.
      ASHLAR_UNROLL
      for (std::size_t r = 0; r < kRows; ++r) {
        const VI32 start = hn::Set(DI32(), queries.starts[b * kRows + r]);
        ASHLAR_UNROLL
        for (std::size_t g = 0; g < kGroups; ++g) {
          if constexpr (kDigits == 2) sums[r][g][0] = hn::Zero(DI32());
          sums[r][g][kDigits - 1] = start;
        }
      }
      DotKeyRows<kKind, kRows, kGroups, kDigits>(
          unit, part, queries.digits + b * QueryTile<kRows, kDigits>::kUnitBytes, sums, ahead);
      ASHLAR_UNROLL
      for (std::size_t g = 0; g < kGroups; ++g) {
        const std::size_t at = (IsCodebook(kKind) ? 0 : b) * kUnitTokens + part * kLanes;
        const V scale = LoadHalves(first_scale[g] + 2 * at);
        ASHLAR_UNROLL
        for (std::size_t r = 0; r < kRows; ++r) {
          f[r][g] = hn::MulAdd(hn::ConvertTo(d, JoinDigits(sums[r][g])), scale, f[r][g]);
        }
      }
    }
    ASHLAR_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) {
      const V step = hn::Set(d, queries.steps[r]);
      ASHLAR_UNROLL
      for (std::size_t g = 0; g < kGroups; ++g) {
        hn::StoreU(hn::Mul(f[r][g], step), d,
                   rows.logits + r * kSegmentTokens + token + g * kUnitTokens + part * kLanes);
      }
    }
  }
}

// How often ScoreUnits asks its ReadAhead, at least.
template <KvCodecKind kKind, std::size_t kRows>
std::size_t ScoreUnitCalls(std::size_t tokens, std::size_t head_dim) {
  const std::size_t groups =
      std::max<std::size_t>(1, tokens / kUnitTokens / ScoreGroups<kKind>(kRows));
  return groups * ChannelUnits(head_dim) * kVectorsPer16 * kUnitRows;
}

template <KvCodecKind kKind, std::size_t kRows>
void ScoreUnits(const ScoreUnitsArgs& args, ReadAhead& ahead) {
  constexpr std::size_t kGroups = ScoreGroups<kKind>(kRows);
  constexpr auto kDigits = static_cast<std::size_t>(QueryDigits(kKind));
  const PreparedLayout layout(kKind, args.rows.head_dim);
  const std::size_t code_bytes = CodeBytes(kKind, args.rows.head_dim, args.rows.block_tokens);
  const auto queries = GatherQueries<kRows, kDigits>(args.prepared, layout, args.scratch);
  ReadAhead local = ahead;  // in registers
  std::size_t t = args.rows.begin;
  for (; t + kGroups * kUnitTokens <= args.rows.end; t += kGroups * kUnitTokens) {
    ScoreGroupsOf16<kKind, kRows, kGroups, kDigits>(args.rows, queries, layout.units, code_bytes, t,
                                                    local);
  }
  for (; kGroups > 1 && t < args.rows.end; t += kUnitTokens) {
    ScoreGroupsOf16<kKind, kRows, 1, kDigits>(args.rows, queries, layout.units, code_bytes, t,
                                              local);
  }
  ahead = local;
}

// --- Integers ---

// Nearest integer, to even, of numbers within the range of integers: the bare instruction.
HWY_INLINE VI32 NearestOf(V x) {
#if HWY_TARGET == HWY_AVX3
  return VI32{_mm512_cvtps_epi32(x.raw)};
#elif HWY_TARGET == HWY_AVX2
  return VI32{_mm256_cvtps_epi32(x.raw)};
#else
  return hn::NearestInt(x);
#endif
}

// Where the digits of tokens 4 quad .. 4 quad + 3 lie in a plane: in the order in which AVX-512
// narrows 64 integers to bytes, each 128 bits by themselves; elsewhere in order.
HWY_INLINE std::size_t DigitsAt(std::size_t quad) {
  if (HWY_TARGET != HWY_AVX3) return 4 * quad;
  const std::size_t q = quad % 16;
  return quad / 16 * 64 + (q % 4 * 4 + q / 4) * 4;
}

// Step of integers up to `levels` for numbers of at most this magnitude (its bits); 0 when all are
// taken for zeros, NaN when one is not finite. Their inverse is then 0.
HWY_INLINE float StepOf(std::uint32_t greatest_bits, int levels, float& inverse) {
  float greatest;
  std::memcpy(&greatest, &greatest_bits, sizeof greatest);
  inverse = 0.0f;
  if (greatest <= kLeastMagnitude) return 0.0f;
  if (greatest_bits >= 0x7F800000u) return std::numeric_limits<float>::quiet_NaN();
  const float step = greatest / static_cast<float>(levels);
  inverse = 1.0f / step;
  return step;
}

// values[i] of [0, count) as integers in two digits, or in one for kLevels == 127 (low is not used
// then); count is a multiple of 16. The step, as StepOf says.
template <int kLevels>
HWY_INLINE float MakeDigits(const float* values, std::size_t count, std::int8_t* high,
                            std::int8_t* low) {
  const D d;
  const DU32 du;
  auto bits = hn::Zero(du);  // of the greatest magnitude; anything not finite is greater still
  for (std::size_t i = 0; i < count; i += kLanes) {
    bits = hn::Max(bits, hn::BitCast(du, hn::Abs(hn::LoadU(d, values + i))));
  }
  float inverse_step;
  const float step = StepOf(hn::GetLane(hn::MaxOfLanes(du, bits)), kLevels, inverse_step);
  if (inverse_step == 0.0f) {
    std::fill_n(high, count, std::int8_t{0});
    if (kLevels != 127) std::fill_n(low, count, std::int8_t{0});
    return step;
  }
  const V inverse = hn::Set(d, inverse_step);
  const hn::Rebind<std::int8_t, D> d8;
  for (std::size_t i = 0; i < count; i += kLanes) {
    // Within the levels: the product is at most levels (1 + 2^-22).
    const VI32 x = NearestOf(hn::Mul(hn::LoadU(d, values + i), inverse));
    if constexpr (kLevels == 127) {
      hn::StoreU(hn::DemoteTo(d8, x), d8, high + i);
    } else {
      const VI32 h = hn::ShiftRight<8>(hn::Add(x, hn::Set(DI32(), 128)));
      hn::StoreU(hn::DemoteTo(d8, h), d8, high + i);
      hn::StoreU(hn::DemoteTo(d8, hn::Sub(x, hn::ShiftLeft<8>(h))), d8, low + i);
    }
  }
  return step;
}

#if HWY_TARGET == HWY_AVX3
// 64 integers of 16 bits, as words of two vectors each, in two digits.
HWY_INLINE void StoreDigits64(const V (&weighted)[4], V inverse, std::int8_t* high,
                              std::int8_t* low) {
  __m512i x[4];
  for (std::size_t i = 0; i < 4; ++i) {
    x[i] = NearestOf(hn::Mul(weighted[i], inverse)).raw;
  }
  const __m512i a = _mm512_packs_epi32(x[0], x[1]);
  const __m512i b = _mm512_packs_epi32(x[2], x[3]);
  const __m512i half = _mm512_set1_epi16(128);
  const __m512i byte = _mm512_set1_epi16(0xFF);
  const __m512i high_a = _mm512_srai_epi16(_mm512_add_epi16(a, half), 8);
  const __m512i high_b = _mm512_srai_epi16(_mm512_add_epi16(b, half), 8);
  _mm512_storeu_si512(high, _mm512_packs_epi16(high_a, high_b));
  _mm512_storeu_si512(low,
                      _mm512_packus_epi16(_mm512_and_si512(a, byte), _mm512_and_si512(b, byte)));
}
#endif

// Tokens [begin, end) weighted: weights times scales, as integers in two digits at DigitsAt. The
// step, as StepOf says. Digits of whole groups of 64 tokens are written: 0 outside [begin, end).
HWY_INLINE float MakeWeightDigits(const float* weights, const float* scales, std::size_t begin,
                                  std::size_t end, std::int8_t* high, std::int8_t* low) {
  const D d;
  const DU32 du;
  alignas(64) float weighted[kSegmentTokens];
  auto bits = hn::Zero(du);
  const std::size_t first = begin / 64 * 64;
  const std::size_t last = (end + 63) / 64 * 64;
  if (begin != first) std::fill(weighted + first, weighted + begin, 0.0f);
  if (end != last) std::fill(weighted + end, weighted + last, 0.0f);
  for (std::size_t t = begin; t < end; t += kLanes) {
    const V w = hn::Mul(hn::LoadU(d, weights + t), hn::LoadU(d, scales + t));
    bits = hn::Max(bits, hn::BitCast(du, hn::Abs(w)));
    hn::Store(w, d, weighted + t);
  }
  float inverse_step;
  const float step = StepOf(hn::GetLane(hn::MaxOfLanes(du, bits)), kWeightLevels, inverse_step);
  if (inverse_step == 0.0f) {
    std::fill(high + first, high + last, std::int8_t{0});
    std::fill(low + first, low + last, std::int8_t{0});
    return step;
  }
#if HWY_TARGET == HWY_AVX3
  const V inverse = hn::Set(d, inverse_step);
  for (std::size_t t = first; t < last; t += 64) {
    const V four[4] = {hn::Load(d, weighted + t), hn::Load(d, weighted + t + 16),
                       hn::Load(d, weighted + t + 32), hn::Load(d, weighted + t + 48)};
    StoreDigits64(four, inverse, high + t, low + t);
  }
#else
  const V inverse = hn::Set(d, inverse_step);
  const hn::Rebind<std::int8_t, D> d8;
  for (std::size_t t = first; t < last; t += kLanes) {
    const VI32 x = NearestOf(hn::Mul(hn::Load(d, weighted + t), inverse));
    const VI32 h = hn::ShiftRight<8>(hn::Add(x, hn::Set(DI32(), 128)));
    hn::StoreU(hn::DemoteTo(d8, h), d8, high + t);
    hn::StoreU(hn::DemoteTo(d8, hn::Sub(x, hn::ShiftLeft<8>(h))), d8, low + t);
  }
#endif
  return step;
}

// Sum of the integers whose digits lie in whole groups of 64 of [begin, end).
HWY_INLINE std::int32_t SumOfDigits(const std::int8_t* high, const std::int8_t* low,
                                    std::size_t begin, std::size_t end) {
  const DI8 d8;
  const VU8 ones = hn::Set(DU8(), std::uint8_t{1});
  VI32 sums[2] = {hn::Zero(DI32()), hn::Zero(DI32())};
  for (std::size_t t = begin / 64 * 64; t < end; t += 4 * kLanes) {
    sums[0] = DotU7S8(sums[0], ones, hn::LoadU(d8, high + t));
    sums[1] = DotU7S8(sums[1], ones, hn::LoadU(d8, low + t));
  }
  return hn::GetLane(hn::SumOfLanes(DI32(), JoinDigits(sums)));
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
  auto* const digits = reinterpret_cast<std::byte*>(low + channels);
  for (std::size_t t = args.begin; t < args.end; t += args.block_tokens) {
    const std::byte* const tile = args.tiles[t / args.block_tokens];
    const std::byte* const scales = tile + CodeBytes(kKind, args.head_dim, args.block_tokens);
    float offset = 0.0f;
    for (std::size_t c = 0; c < channels; ++c) {
      const float q = c < args.head_dim ? args.q[c] : 0.0f;
      scaled[c] = q * LoadHalf(scales + 2 * c);
      if (c < args.head_dim) offset = std::fma(q, LoadHalf(scales + 2 * (channels + c)), offset);
    }
    const V step = hn::Set(d, MakeDigits<kWeightLevels>(scaled, channels, high, low));
    for (std::size_t quad = 0; quad < channels / 4; ++quad) {  // as QueryTile has them
      std::memcpy(digits + 8 * quad, high + 4 * quad, 4);
      std::memcpy(digits + 8 * quad + 4, low + 4 * quad, 4);
    }
    for (std::size_t g = 0; g < args.block_tokens / kUnitTokens; ++g) {
      for (std::size_t part = 0; part < kVectorsPer16; ++part) {
        ReadAhead none;
        VI32 sums[1][1][2] = {{{hn::Zero(DI32()), hn::Zero(DI32())}}};
        for (std::size_t b = 0; b < units; ++b) {
          const std::byte* const unit[1] = {tile + (g * units + b) * UnitBytes(kKind)};
          DotKeyRows<kKind, 1, 1, 2>(unit, part, digits + b * QueryTile<1, 2>::kUnitBytes, sums,
                                     none);
        }
        const V n = hn::ConvertTo(d, JoinDigits(sums[0][0]));
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
    std::int8_t* const high = args.digits + r * 2 * kSegmentTokens;
    std::int8_t* const low = high + kSegmentTokens;
    step[r] = MakeWeightDigits(p, args.scales, rows.begin, rows.end, high, low);
    zeros[r] =
        ZeroOf(kKind) == 0 ? 0 : ZeroOf(kKind) * SumOfDigits(high, low, rows.begin, rows.end);
    offset[r] = IsAsymmetric(kKind) ? SumOfMinima(args, p) : 0.0f;
  }
  // Sums: rows x vectors x digits, 24 of 32 registers, 12 of 16.
  constexpr std::size_t kAllVectors = 2 * kVectorsPer16;
  constexpr std::size_t kVectors = HWY_TARGET == HWY_AVX2 ? 1 : 2;
  const std::size_t units = ChannelUnits(rows.value_dim);
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
      const std::size_t group = t % rows.block_tokens / kUnitTokens;
      const std::byte* const unit =
          rows.tiles[t / rows.block_tokens] + (group * units + b) * UnitBytes(kKind);
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
