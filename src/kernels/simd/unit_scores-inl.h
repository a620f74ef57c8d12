// Scores straight from the codes of K tiles in units (kernels/codec.h): sums of products of bytes.
// The sums are integers, so their order is free; what is floating point is one fixed expression per
// 32 channels.
#include <cmath>
#include <cstring>

#include "kernels/prepared_query.h"
#include "kernels/simd/digits-inl.h"
#include "kernels/simd/raw_tiles-inl.h"
#include "kernels/simd/unit_codes-inl.h"

#if defined(ASHLAR_KERNELS_SIMD_UNIT_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASHLAR_KERNELS_SIMD_UNIT_SCORES_INL_H_
#undef ASHLAR_KERNELS_SIMD_UNIT_SCORES_INL_H_
#else
#define ASHLAR_KERNELS_SIMD_UNIT_SCORES_INL_H_
#endif

#if ASHLAR_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace ashlar::kernels::HWY_NAMESPACE {

struct ScoreUnitsArgs {
  ScoreRowsArgs rows;
  const std::byte* prepared;  // of the first row
  float* scratch;             // for GatherQueries
};

// Groups of 16 tokens that are scored together, so that a query's bytes are loaded once for all:
// as many as leave their sums in registers.
constexpr std::size_t ScoreGroups(KvCodecKind kind, std::size_t rows) {
  const std::size_t sums = rows * static_cast<std::size_t>(QueryDigits(kind));
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

// Logits of kRows rows for the tokens of kGroups groups of 16 from `token` on.
template <KvCodecKind kKind, std::size_t kRows, std::size_t kGroups, std::size_t kDigits>
HWY_INLINE void ScoreGroupsOf16(const ScoreRowsArgs& rows, const QueryTile<kRows, kDigits>& queries,
                                std::size_t units, std::size_t code_bytes, std::size_t token,
                                ReadAhead& ahead) {
  const D d;
  const std::byte* first_unit[kGroups];
  const std::byte* first_scale[kGroups];
  const BlockPlaces places(rows.block_tokens);
  for (std::size_t g = 0; g < kGroups; ++g) {
    const std::size_t t = token + g * kUnitTokens;
    const std::byte* const tile = rows.tiles[places.BlockOf(t)];
    const std::size_t group = places.SlotOf(t) / kUnitTokens;
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
constexpr std::size_t ScoreUnitCalls(KvCodecKind kind, std::size_t rows, std::size_t tokens,
                                     std::size_t head_dim) {
  const std::size_t groups =
      std::max<std::size_t>(1, tokens / kUnitTokens / ScoreGroups(kind, rows));
  return groups * ChannelUnits(head_dim) * kVectorsPer16 * kUnitRows;
}

template <KvCodecKind kKind, std::size_t kRows>
void ScoreUnits(const ScoreUnitsArgs& args, ReadAhead& ahead) {
  constexpr std::size_t kGroups = ScoreGroups(kKind, kRows);
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

}  // namespace ashlar::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ASHLAR_SIMD_TARGET

#endif  // toggle
