// Making tiles: storing a token raw, rotating, encoding a full block, and query rows as integers.
#include "kernels/simd/targets.h"  // first: says which targets exist

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/codec.cc"
#include <cmath>
#include <cstring>

#include "hwy/foreach_target.h"
#include "kernels/reference/kernels.h"
#include "kernels/simd/digits-inl.h"
#include "kernels/simd/kernels-inl.h"
#include "kernels/simd/raw_tiles-inl.h"
#include "kernels/simd/unit_codes-inl.h"
#include "kernels/simd/vectors-inl.h"

#if ASHLAR_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace ashlar::kernels::HWY_NAMESPACE {
namespace {

// --- Storing ---

// False when one is not finite.
bool RoundToHalves(KvCodecKind kind, const float* values, std::size_t count,
                   std::uint16_t* halves) {
  const D d;
  const hn::Rebind<std::uint16_t, D> d16;
  alignas(64) std::uint16_t bits[16];
  for (std::size_t c = 0; c < count; c += kLanes) {
    const V v = LoadFirst(d, values + c, count - c);
    if (kind == KvCodecKind::kF16) {
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
  const unsigned exponent = kind == KvCodecKind::kF16 ? 0x7C00 : 0x7F80;
  unsigned greatest = 0;
  for (std::size_t c = 0; c < count; ++c) greatest = std::max(greatest, halves[c] & exponent);
  return greatest < exponent;
}

// Rounds a vector of `dim` elements and writes element i to tile[(first + i * stride) elements].
bool StoreVector(KvCodecKind kind, const float* values, std::size_t dim, std::byte* tile,
                 std::size_t first, std::size_t stride) {
  if (dim == 0) return true;  // no V, and perhaps no address
  if (kind == KvCodecKind::kF32) {
    bool is_finite = true;
    for (std::size_t c = 0; c < dim; ++c) {
      std::memcpy(tile + (first + c * stride) * sizeof(float), values + c, sizeof(float));
      is_finite &= std::isfinite(values[c]);
    }
    return is_finite;
  }
  std::uint16_t halves[kMaxHeadDim];
  const bool is_finite = RoundToHalves(kind, values, dim, halves);
  if (stride == 1) {
    std::memcpy(tile + first * sizeof *halves, halves, dim * sizeof *halves);
    return is_finite;
  }
  for (std::size_t c = 0; c < dim; ++c) {
    std::memcpy(tile + (first + c * stride) * sizeof *halves, halves + c, sizeof *halves);
  }
  return is_finite;
}

// --- Rotation ---

// One stage with stride kStride < kLanes inside a vector: a + b to the lower of each pair, a - b to
// the upper.
template <std::size_t kStride>
HWY_INLINE V Butterfly(V v) {
  const D d;
  const DU32 du;
  V swapped;
  if constexpr (kStride == 1) {
    swapped = hn::BitCast(d, hn::Shuffle2301(hn::BitCast(du, v)));
  } else if constexpr (kStride == 2) {
    swapped = hn::BitCast(d, hn::Shuffle1032(hn::BitCast(du, v)));
  } else if constexpr (kStride == 4) {
    swapped = hn::SwapAdjacentBlocks(v);
  } else {
    swapped = hn::ConcatLowerUpper(d, v, v);
  }
  const auto is_upper = hn::Ne(
      hn::And(hn::Iota(du, 0), hn::Set(du, static_cast<std::uint32_t>(kStride))), hn::Zero(du));
  // Upper: a - b with a the swapped one; lower: a + b.
  return hn::IfThenElse(hn::RebindMask(d, is_upper), hn::Sub(swapped, v), hn::Add(v, swapped));
}

// --- Codes ---

// Packs the 8 rows of 64 codes of a unit, as 32-bit lanes of four codes, into the unit's bytes.
template <KvCodecKind kKind>
HWY_INLINE void PackRows(const VI32 (&rows)[kUnitRows], std::byte* unit, std::size_t part) {
  const DI32 d;
  const auto put = [&](std::size_t offset, VI32 v) HWY_ATTR {
    hn::StoreU(v, d, reinterpret_cast<std::int32_t*>(unit + offset + part * kPartBytes));
  };
  if constexpr (kKind == KvCodecKind::kQ8) {
    for (std::size_t i = 0; i < kUnitRows; ++i) put(i * kUnitRowCodes, rows[i]);
    return;
  }
  const VI32 low4 = hn::Set(d, 0x0F0F0F0F);
  for (std::size_t i = 0; i < kUnitRows; i += 2) {
    put(i / 2 * kUnitRowCodes,
        hn::Or(hn::And(rows[i], low4), hn::ShiftLeft<4>(hn::And(rows[i + 1], low4))));
  }
  if constexpr (kKind == KvCodecKind::kQ6) {
    const VI32 high2 = hn::Set(d, 0x30303030);
    for (std::size_t i = 0; i < kUnitRows; i += 4) {
      const VI32 a = hn::Or(hn::ShiftRight<4>(hn::And(rows[i], high2)),
                            hn::ShiftRight<2>(hn::And(rows[i + 1], high2)));
      const VI32 b =
          hn::Or(hn::And(rows[i + 2], high2), hn::ShiftLeft<2>(hn::And(rows[i + 3], high2)));
      put(256 + i / 4 * kUnitRowCodes, hn::Or(a, b));
    }
  }
  if constexpr (kKind == KvCodecKind::kQ5) {
    const VI32 high1 = hn::Set(d, 0x10101010);
    VI32 bits = hn::Zero(d);
    for (std::size_t i = 0; i < kUnitRows; ++i) {
      const VI32 bit = hn::And(rows[i], high1);
      const VI32 at = i < 4 ? hn::ShiftRightSame(bit, static_cast<int>(4 - i))
                            : hn::ShiftLeftSame(bit, static_cast<int>(i - 4));
      bits = hn::Or(bits, at);
    }
    put(256, bits);
  }
}

// Scale of block-scaled codecs for values between least and greatest (both with 0), unrounded.
template <KvCodecKind kKind>
HWY_INLINE V ScaleOf(V least, V greatest) {
  const D d;
  if constexpr (kKind == KvCodecKind::kQ8) {
    return hn::Div(hn::Max(hn::Neg(least), greatest), hn::Set(d, 127.0f));
  } else {
    const V extreme = hn::IfThenElse(hn::Ge(hn::Neg(least), greatest), least, greatest);
    return hn::Div(extreme, hn::Set(d, -static_cast<float>(ZeroOf(kKind))));
  }
}

// The scale as it is stored and its inverse, 0 for 0.
HWY_INLINE V RoundScale(V scale, std::byte* to, V& inverse) {
  const D d;
  const hn::Rebind<hwy::float16_t, D> d16;
  const V most = hn::Set(d, 65504.0f);
  scale = hn::Add(scale, hn::Zero(d));  // never -0
  const auto half = hn::DemoteTo(d16, hn::Max(hn::Min(scale, most), hn::Neg(most)));
  if (to != nullptr) hn::StoreU(half, d16, reinterpret_cast<hwy::float16_t*>(to));
  const V rounded = hn::PromoteTo(d, half);
  const V one = hn::Set(d, 1.0f);
  inverse = hn::IfThenZeroElse(hn::Eq(rounded, hn::Zero(d)), hn::Div(one, rounded));
  return rounded;
}

template <KvCodecKind kKind>
HWY_INLINE VI32 CodesOf(V x, V inverse) {
  const D d;
  constexpr int kZero = ZeroOf(kKind);
  const V least = hn::Set(d, static_cast<float>((kKind == KvCodecKind::kQ8 ? 1 : 0) - kZero));
  const V greatest = hn::Set(d, static_cast<float>(GreatestCode(kKind) - kZero));
  const V steps = hn::Min(hn::Max(hn::Mul(x, inverse), least), greatest);
  return hn::Add(NearestOf(steps), hn::Set(DI32(), kZero));
}

// Four codes per 32-bit lane.
HWY_INLINE VI32 Join4(VI32 a, VI32 b, VI32 c, VI32 d) {
  return hn::Or(hn::Or(a, hn::ShiftLeft<8>(b)), hn::Or(hn::ShiftLeft<16>(c), hn::ShiftLeft<24>(d)));
}

// Where a unit and its scales go.
struct UnitPlace {
  std::byte* codes;
  std::byte* scales;
};
template <KvCodecKind kKind>
UnitPlace PlaceOfUnit(const EncodeArgs& args, std::size_t group, std::size_t b) {
  const std::size_t unit = group * ChannelUnits(args.dim) + b;
  return {args.tile + unit * UnitBytes(kKind),
          args.tile + CodeBytes(kKind, args.dim, args.block_tokens) + unit * kUnitTokens * 2};
}

// K: lanes are tokens, so a token's scale is in its lane.
template <KvCodecKind kKind, KvCodecKind kRaw>
void EncodeKeyUnit(const EncodeArgs& args, std::size_t group, std::size_t b) {
  const D d;
  const UnitPlace place = PlaceOfUnit<kKind>(args, group, b);
  for (std::size_t part = 0; part < kVectorsPer16; ++part) {
    V x[kUnitChannels];
    V least = hn::Zero(d);
    V greatest = hn::Zero(d);
    for (std::size_t i = 0; i < kUnitChannels; ++i) {
      const std::size_t c = b * kUnitChannels + i;
      const std::size_t index = c * args.block_tokens + group * kUnitTokens + part * kLanes;
      x[i] = c < args.dim ? LoadElements<kRaw>(d, args.raw + index * RawBytes(kRaw)) : hn::Zero(d);
      least = hn::Min(least, x[i]);
      greatest = hn::Max(greatest, x[i]);
    }
    V inverse;
    RoundScale(ScaleOf<kKind>(least, greatest), place.scales + part * kLanes * 2, inverse);
    VI32 rows[kUnitRows];
    for (std::size_t i = 0; i < kUnitRows; ++i) {
      rows[i] = Join4(CodesOf<kKind>(x[4 * i], inverse), CodesOf<kKind>(x[4 * i + 1], inverse),
                      CodesOf<kKind>(x[4 * i + 2], inverse), CodesOf<kKind>(x[4 * i + 3], inverse));
    }
    PackRows<kKind>(rows, place.codes, part);
  }
}

// V: lanes are channels, a token's scale is a reduction over two or more vectors.
template <KvCodecKind kKind, KvCodecKind kRaw>
void EncodeValueUnit(const EncodeArgs& args, std::size_t group, std::size_t b) {
  const D d;
  constexpr std::size_t kVectors = 2 * kVectorsPer16;
  const UnitPlace place = PlaceOfUnit<kKind>(args, group, b);
  alignas(64) std::int32_t codes[kVectors][kUnitTokens][kLanes];
  alignas(64) float scales[kUnitTokens];
  for (std::size_t t = 0; t < kUnitTokens; ++t) {
    V x[kVectors];
    V least = hn::Zero(d);
    V greatest = hn::Zero(d);
    for (std::size_t v = 0; v < kVectors; ++v) {
      const std::size_t c = b * kUnitChannels + v * kLanes;
      const std::size_t index = (group * kUnitTokens + t) * args.dim + c;
      x[v] = hn::Zero(d);
      if (c + kLanes <= args.dim) {
        x[v] = LoadElements<kRaw>(d, args.raw + index * RawBytes(kRaw));
      } else if (c < args.dim) {  // a multiple of 8, and a vector may be 16
        const hn::CappedTag<float, 8> d8;
        alignas(64) float first[16] = {};
        hn::Store(LoadElements<kRaw>(d8, args.raw + index * RawBytes(kRaw)), d8, first);
        x[v] = hn::Load(d, first);
      }
      least = hn::Min(least, x[v]);
      greatest = hn::Max(greatest, x[v]);
    }
    least = hn::MinOfLanes(d, least);
    greatest = hn::MaxOfLanes(d, greatest);
    const V scale = ScaleOf<kKind>(least, greatest);
    V inverse;
    RoundScale(scale, nullptr, inverse);
    scales[t] = hn::GetLane(scale);
    for (std::size_t v = 0; v < kVectors; ++v) {
      hn::Store(CodesOf<kKind>(x[v], inverse), DI32(), codes[v][t]);
    }
  }
  for (std::size_t i = 0; i < kUnitTokens; i += kLanes) {
    V unused;
    RoundScale(hn::Load(d, scales + i), place.scales + 2 * i, unused);
  }
  for (std::size_t part = 0; part < kVectorsPer16; ++part) {
    VI32 rows[kUnitRows];
    for (std::size_t i = 0; i < kUnitRows; ++i) {
      const auto& of = codes[i / 4 * kVectorsPer16 + part];
      const std::size_t t = i % 4 * 4;
      const auto load = [&](std::size_t token) HWY_ATTR { return hn::Load(DI32(), of[token]); };
      rows[i] = Join4(load(t), load(t + 1), load(t + 2), load(t + 3));
    }
    PackRows<kKind>(rows, place.codes, part);
  }
}

template <KvCodecKind kKind, KvCodecKind kRaw>
void EncodeUnits(const EncodeArgs& args) {
  for (std::size_t group = 0; group < args.block_tokens / kUnitTokens; ++group) {
    for (std::size_t b = 0; b < ChannelUnits(args.dim); ++b) {
      if (args.role == KvRole::kKey) {
        EncodeKeyUnit<kKind, kRaw>(args, group, b);
      } else {
        EncodeValueUnit<kKind, kRaw>(args, group, b);
      }
    }
  }
  // What fills the tile up to whole lines.
  const std::size_t used = CodeBytes(kKind, args.dim, args.block_tokens) +
                           2 * args.block_tokens * ChannelUnits(args.dim);
  const std::size_t bytes = TileBytes({.kind = kKind}, args.role, args.dim, args.block_tokens);
  std::memset(args.tile + used, 0, bytes - used);
}

template <KvCodecKind kKind>
void EncodeFrom(const EncodeArgs& args) {
  switch (args.raw_kind) {
    case KvCodecKind::kF32:
      return EncodeUnits<kKind, KvCodecKind::kF32>(args);
    case KvCodecKind::kF16:
      return EncodeUnits<kKind, KvCodecKind::kF16>(args);
    default:
      return EncodeUnits<kKind, KvCodecKind::kBF16>(args);
  }
}

template <KvCodecKind kKind>
void PrepareRows(const PrepareArgs& args) {
  const PreparedLayout layout(kKind, args.head_dim);
  constexpr int kLevels = QueryLevels(kKind);
  alignas(64) float q[kMaxHeadDim + kUnitChannels];
  for (std::size_t row = 0; row < args.rows; ++row) {
    std::copy_n(args.q + row * args.q_stride, args.head_dim, q);
    std::fill(q + args.head_dim, q + layout.channels, 0.0f);
    std::byte* const out = args.prepared + row * layout.row_bytes;
    auto* const high = reinterpret_cast<std::int8_t*>(out);
    std::int8_t* const low = layout.digits == 2 ? high + layout.channels : nullptr;
    const float step = MakeDigits<kLevels>(q, layout.channels, high, low);
    for (std::size_t b = 0; b < layout.units; ++b) {
      std::int32_t zeros = 0;
      for (std::size_t c = b * kUnitChannels; c < (b + 1) * kUnitChannels; ++c) {
        zeros += low == nullptr ? high[c] : 256 * high[c] + low[c];
      }
      zeros *= -ZeroOf(kKind);
      std::memcpy(out + layout.starts_at() + 4 * b, &zeros, sizeof zeros);
    }
    std::memcpy(out + layout.step_at(), &step, sizeof step);
    std::memset(out + layout.step_at() + sizeof step, 0,
                layout.row_bytes - layout.step_at() - sizeof step);
  }
}

}  // namespace

bool StoreKv(const StoreKvArgs& args) {
  const bool is_finite_key =
      StoreVector(args.key_kind, args.k, args.head_dim, args.k_tile, args.slot, args.block_tokens);
  return StoreVector(args.value_kind, args.v, args.value_dim, args.v_tile,
                     args.slot * args.value_dim, 1) &&
         is_finite_key;
}

void Hadamard(float* x, std::size_t n) {
  const D d;
  const std::size_t size = HadamardSize(n);
  if (size < kLanes) return reference::Hadamard(x, n);
  const V factor = hn::Set(d, static_cast<float>(1.0 / std::sqrt(static_cast<double>(size))));
  for (std::size_t block = 0; block < n; block += size) {
    float* const v = x + block;
    for (std::size_t i = 0; i < size; i += kLanes) {
      V lanes = Butterfly<2>(Butterfly<1>(hn::LoadU(d, v + i)));
      if constexpr (kLanes > 4) lanes = Butterfly<4>(lanes);
      if constexpr (kLanes > 8) lanes = Butterfly<8>(lanes);
      hn::StoreU(lanes, d, v + i);
    }
    for (std::size_t stride = kLanes; stride < size; stride *= 2) {
      for (std::size_t i = 0; i < size; i += 2 * stride) {
        for (std::size_t j = i; j < i + stride; j += kLanes) {
          const V a = hn::LoadU(d, v + j);
          const V b = hn::LoadU(d, v + j + stride);
          hn::StoreU(hn::Add(a, b), d, v + j);
          hn::StoreU(hn::Sub(a, b), d, v + j + stride);
        }
      }
    }
    for (std::size_t i = 0; i < size; i += kLanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, v + i), factor), d, v + i);
    }
  }
}

void Encode(const EncodeArgs& args) {
  switch (args.kind) {
    case KvCodecKind::kQ8:
      return EncodeFrom<KvCodecKind::kQ8>(args);
    case KvCodecKind::kQ6:
      return EncodeFrom<KvCodecKind::kQ6>(args);
    case KvCodecKind::kQ5:
      return EncodeFrom<KvCodecKind::kQ5>(args);
    case KvCodecKind::kQ4:
      return EncodeFrom<KvCodecKind::kQ4>(args);
    default:  // experiments and interchange: read fast, written by the reference
      return reference::Encode(args);
  }
}

void Prepare(const PrepareArgs& args) {
  switch (args.key_kind) {
    case KvCodecKind::kQ8:
      return PrepareRows<KvCodecKind::kQ8>(args);
    case KvCodecKind::kQ6:
      return PrepareRows<KvCodecKind::kQ6>(args);
    case KvCodecKind::kQ5:
      return PrepareRows<KvCodecKind::kQ5>(args);
    case KvCodecKind::kQ4:
      return PrepareRows<KvCodecKind::kQ4>(args);
    case KvCodecKind::kLm4:
      return PrepareRows<KvCodecKind::kLm4>(args);
    case KvCodecKind::kLm3:
      return PrepareRows<KvCodecKind::kLm3>(args);
    default:
      return;
  }
}

}  // namespace ashlar::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ASHLAR_SIMD_TARGET
