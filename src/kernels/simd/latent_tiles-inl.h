// Weighted values where V is the first channels of K (MLA): lanes are tokens, so each channel is a
// reduction across lanes, by the fixed tree.
#include "kernels/simd/raw_tiles-inl.h"
#include "kernels/simd/unit_codes-inl.h"
#include "kernels/simd/vectors-inl.h"

#if defined(ASHLAR_KERNELS_SIMD_LATENT_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASHLAR_KERNELS_SIMD_LATENT_TILES_INL_H_
#undef ASHLAR_KERNELS_SIMD_LATENT_TILES_INL_H_
#else
#define ASHLAR_KERNELS_SIMD_LATENT_TILES_INL_H_
#endif

#if ASHLAR_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace ashlar::kernels::HWY_NAMESPACE {

HWY_INLINE V LoadRawOf(KvCodecKind kind, const std::byte* tile, std::size_t index) {
  const D d;
  if (kind == KvCodecKind::kF32) return LoadF32(d, tile + index * 4);
  return kind == KvCodecKind::kF16 ? LoadF16(d, tile + index * 2) : LoadBf16(d, tile + index * 2);
}

// Adds the own block's tokens to a channel's lanes, folds them and writes acc.
template <std::size_t kRows>
void FinishLatentChannel(const AttendArgs& args, std::size_t row, const float* weights,
                         std::size_t channel, V (&sums)[kRows][kVectorsPer16]) {
  const D d;
  for (std::size_t r = 0; r < kRows; ++r) {
    const std::size_t visible = args.own_k == nullptr ? 0 : args.own_visible[row + r];
    for (std::size_t t = 0; t < visible; t += 16) {
      for (std::size_t h = 0; h < kVectorsPer16; ++h) {
        const std::size_t at = t + h * kLanes;
        if (at >= visible) break;
        const V value = LoadRawOf(args.own_key_kind, args.own_k, channel * args.block_tokens + at);
        const V p = hn::LoadU(d, weights + r * kSegmentTokens + args.sealed + at);
        const auto seen = hn::FirstN(d, visible - at);
        sums[r][h] =
            hn::MulAdd(hn::IfThenElseZero(seen, p), hn::IfThenElseZero(seen, value), sums[r][h]);
      }
    }
    args.acc[(row + r) * args.value_dim + channel] = Fold16(sums[r]);
  }
}

template <KvCodecKind kKind, std::size_t kRows>
void AccumulateLatentRaw(const AttendArgs& args, std::size_t row, const float* weights) {
  const D d;
  for (std::size_t c = 0; c < args.value_dim; ++c) {
    V sums[kRows][kVectorsPer16];
    for (auto& lanes : sums) {
      for (V& v : lanes) v = hn::Zero(d);
    }
    for (std::size_t t = args.begin; t < args.sealed; t += 16) {
      const std::byte* const tile = args.k_tiles[t / args.block_tokens];
      float scale = 1.0f;
      if constexpr (kKind == KvCodecKind::kFp8) {
        std::memcpy(&scale, tile + args.head_dim * args.block_tokens, sizeof scale);
      }
      for (std::size_t h = 0; h < kVectorsPer16; ++h) {
        const std::size_t index = c * args.block_tokens + t % args.block_tokens + h * kLanes;
        const V value = LoadElements<kKind>(d, tile + index * RawBytes(kKind));
        for (std::size_t r = 0; r < kRows; ++r) {
          V p = hn::LoadU(d, weights + r * kSegmentTokens + t + h * kLanes);
          if constexpr (kKind == KvCodecKind::kFp8) p = hn::Mul(p, hn::Set(d, scale));
          sums[r][h] = hn::MulAdd(p, value, sums[r][h]);
        }
      }
    }
    FinishLatentChannel<kRows>(args, row, weights, c, sums);
  }
}

// The four channels of row kRow of unit b; scaled: weights times the scales of the unit's channels.
template <KvCodecKind kKind, std::size_t kRows, std::size_t kRow = 0>
void AccumulateLatentRows(const AttendArgs& args, std::size_t row, const float* weights,
                          const float* scaled, std::size_t b) {
  if constexpr (kRow < kUnitRows) {
    const D d;
    const DI32 di;
    const std::size_t first = b * kUnitChannels + 4 * kRow;
    if (first >= args.value_dim) return;
    V sums[4][kRows][kVectorsPer16];
    for (auto& channel : sums) {
      for (auto& lanes : channel) {
        for (V& v : lanes) v = hn::Zero(d);
      }
    }
    const std::size_t units = ChannelUnits(args.head_dim);
    for (std::size_t t = args.begin; t < args.sealed; t += kUnitTokens) {
      const std::size_t group = t % args.block_tokens / kUnitTokens;
      const std::byte* const unit =
          args.k_tiles[t / args.block_tokens] + (group * units + b) * UnitBytes(kKind);
      for (std::size_t h = 0; h < kVectorsPer16; ++h) {
        const VI32 codes = hn::BitCast(di, LoadCodes<kKind, kRow>(unit, h));
        for (std::size_t i = 0; i < 4; ++i) {
          const VI32 code =
              hn::And(hn::ShiftRightSame(codes, static_cast<int>(8 * i)), hn::Set(di, 0xFF));
          const V level = hn::ConvertTo(d, hn::Sub(code, hn::Set(di, ZeroOf(kKind))));
          for (std::size_t r = 0; r < kRows; ++r) {
            const V w = hn::LoadU(d, scaled + r * kSegmentTokens + t + h * kLanes);
            sums[i][r][h] = hn::MulAdd(w, level, sums[i][r][h]);
          }
        }
      }
    }
    for (std::size_t i = 0; i < 4; ++i) {
      FinishLatentChannel<kRows>(args, row, weights, first + i, sums[i]);
    }
    AccumulateLatentRows<kKind, kRows, kRow + 1>(args, row, weights, scaled, b);
  }
}

template <KvCodecKind kKind, std::size_t kRows>
void AccumulateLatentUnits(const AttendArgs& args, std::size_t row, const float* weights) {
  const D d;
  alignas(64) float scaled[kRows * kSegmentTokens];
  const std::size_t code_bytes = CodeBytes(kKind, args.head_dim, args.block_tokens);
  for (std::size_t b = 0; b < ChannelUnits(args.value_dim); ++b) {
    for (std::size_t t = args.begin; t < args.sealed; t += kLanes) {
      const std::byte* const scales = args.k_tiles[t / args.block_tokens] + code_bytes +
                                      2 * ScaleIndex(kKind, KvRole::kKey, args.head_dim,
                                                     t % args.block_tokens, b * kUnitChannels);
      const V scale = LoadHalves(scales);
      for (std::size_t r = 0; r < kRows; ++r) {
        const V p = hn::LoadU(d, weights + r * kSegmentTokens + t);
        hn::StoreU(hn::Mul(p, scale), d, scaled + r * kSegmentTokens + t);
      }
    }
    AccumulateLatentRows<kKind, kRows>(args, row, weights, scaled, b);
  }
}

// acc of rows [row, row + kRows). weights: [kRows, kSegmentTokens]. K of any kind but kc4 and kc2.
template <std::size_t kRows>
void AccumulateLatent(const AttendArgs& args, std::size_t row, const float* weights) {
  switch (args.key_kind) {
    case KvCodecKind::kF32:
      return AccumulateLatentRaw<KvCodecKind::kF32, kRows>(args, row, weights);
    case KvCodecKind::kF16:
      return AccumulateLatentRaw<KvCodecKind::kF16, kRows>(args, row, weights);
    case KvCodecKind::kBF16:
      return AccumulateLatentRaw<KvCodecKind::kBF16, kRows>(args, row, weights);
    case KvCodecKind::kFp8:
      return AccumulateLatentRaw<KvCodecKind::kFp8, kRows>(args, row, weights);
    case KvCodecKind::kQ8:
      return AccumulateLatentUnits<KvCodecKind::kQ8, kRows>(args, row, weights);
    case KvCodecKind::kQ6:
      return AccumulateLatentUnits<KvCodecKind::kQ6, kRows>(args, row, weights);
    case KvCodecKind::kQ5:
      return AccumulateLatentUnits<KvCodecKind::kQ5, kRows>(args, row, weights);
    case KvCodecKind::kQ4:
      return AccumulateLatentUnits<KvCodecKind::kQ4, kRows>(args, row, weights);
    case KvCodecKind::kLm4:
      return AccumulateLatentUnits<KvCodecKind::kLm4, kRows>(args, row, weights);
    case KvCodecKind::kLm3:
      return AccumulateLatentUnits<KvCodecKind::kLm3, kRows>(args, row, weights);
    case KvCodecKind::kKc4:
    case KvCodecKind::kKc2:
      return;
  }
}

}  // namespace ashlar::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ASHLAR_SIMD_TARGET

#endif  // toggle
