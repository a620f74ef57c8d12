// Shared by the SIMD files: the vector type, loads of stored formats, the exponential, the fixed
// reduction. Compiled once per target (simd/targets.h), hence the unusual guard.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "kernels/exp_polynomial.h"
#include "kernels/kernel_set.h"
#include "kernels/simd/targets.h"

#if defined(ASHLAR_KERNELS_SIMD_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASHLAR_KERNELS_SIMD_VECTORS_INL_H_
#undef ASHLAR_KERNELS_SIMD_VECTORS_INL_H_
#else
#define ASHLAR_KERNELS_SIMD_VECTORS_INL_H_
#endif

#if ASHLAR_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace ashlar::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The hardware vector: 16 (AVX-512), 8 (AVX2) or 4 (NEON) floats. A "row of 16 lanes" in the
// contracts is kVectorsPer16 of them.
using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
using DU32 = hn::Rebind<std::uint32_t, D>;
using DI32 = hn::Rebind<std::int32_t, D>;
inline constexpr std::size_t kLanes = HWY_MAX_BYTES / sizeof(float);
inline constexpr std::size_t kVectorsPer16 = 16 / kLanes;

constexpr Isa IsaOfTarget() {
  if (HWY_TARGET == HWY_AVX2) return Isa::kAvx2;
  if (HWY_TARGET == HWY_AVX3) return Isa::kAvx512;
  return Isa::kNeon;
}

// The first `count` floats at p, zeros above. Reads nothing beyond them.
template <class DF>
HWY_INLINE hn::Vec<DF> LoadFirst(DF d, const float* p, std::size_t count) {
  if (count >= hn::MaxLanes(d)) return hn::LoadU(d, p);
  alignas(64) float lanes[16] = {};
  for (std::size_t i = 0; i < count; ++i) lanes[i] = p[i];
  return hn::Load(d, lanes);
}

template <class DF>
HWY_INLINE void StoreFirst(hn::Vec<DF> v, DF d, float* p, std::size_t count) {
  if (count >= hn::MaxLanes(d)) return hn::StoreU(v, d, p);
  alignas(64) float lanes[16];
  hn::Store(v, d, lanes);
  for (std::size_t i = 0; i < count; ++i) p[i] = lanes[i];
}

// Consecutive stored values as f32. Any alignment.
template <class DF>
HWY_INLINE hn::Vec<DF> LoadF16(DF d, const std::byte* p) {
  const hn::Rebind<hwy::float16_t, DF> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
}
template <class DF>
HWY_INLINE hn::Vec<DF> LoadBf16(DF d, const std::byte* p) {
  const hn::Rebind<std::uint16_t, DF> d16;
  const hn::Rebind<std::uint32_t, DF> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(p));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}
template <class DF>
HWY_INLINE hn::Vec<DF> LoadF32(DF d, const std::byte* p) {
  return hn::LoadU(d, reinterpret_cast<const float*>(p));
}

// The reference Exp, lane by lane, of what is at most 0 or NaN.
HWY_INLINE V ExpOfNonPositive(V x) {
  const D d;
  const DU32 du;
  const V round = hn::Set(d, kExpRound);
  const V shifted = hn::MulAdd(x, hn::Set(d, kExpLog2E), round);
  const V n = hn::Sub(shifted, round);
  V r = hn::NegMulAdd(n, hn::Set(d, kExpLn2High), x);
  r = hn::NegMulAdd(n, hn::Set(d, kExpLn2Low), r);
  V p = hn::MulAdd(hn::Set(d, kExpP4), r, hn::Set(d, kExpP3));
  p = hn::MulAdd(p, r, hn::Set(d, kExpP2));
  p = hn::MulAdd(p, r, hn::Set(d, kExpP1));
  p = hn::MulAdd(p, r, hn::Set(d, kExpP0));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  // The bits of kExpRound end in zeros where n is added, so the shift keeps n + 127 alone.
  const auto biased = hn::Add(hn::BitCast(du, shifted), hn::Set(du, 127));
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(biased));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, kExpLowest)), hn::Mul(p, power));
}

// The reference Exp, lane by lane.
HWY_INLINE V ExpOf(V x) {
  const D d;
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  return hn::IfThenElse(hn::Gt(x, hn::Set(d, kExpHighest)), infinity, ExpOfNonPositive(x));
}

// The greater of both, and `number` where x is NaN; `number` never is. Of zeros either.
HWY_INLINE V MaxOfNumbers(V x, V number) {
#if HWY_TARGET == HWY_AVX3
  return V{_mm512_max_ps(x.raw, number.raw)};  // the second operand, in doubt
#elif HWY_TARGET == HWY_AVX2
  return V{_mm256_max_ps(x.raw, number.raw)};
#else
  return hn::IfThenElse(hn::Gt(x, number), x, number);
#endif
}

// Lanes i and i + half summed, until one is left.
template <class DF>
HWY_INLINE float FoldLanes([[maybe_unused]] DF d, hn::Vec<DF> v) {
  if constexpr (hn::MaxLanes(DF()) > 4) {
    const hn::Half<DF> half;
    return FoldLanes(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    v = hn::Add(v, hn::Shuffle1032(v));
    return hn::GetLane(hn::Add(v, hn::Shuffle2301(v)));
  }
}

// The fixed tree of kernel_set.h over 16 lanes.
HWY_INLINE float Fold16(const V (&v)[kVectorsPer16]) {
  V sums[kVectorsPer16];
  std::copy(v, v + kVectorsPer16, sums);
  for (std::size_t half = kVectorsPer16 / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) sums[i] = hn::Add(sums[i], sums[i + half]);
  }
  return FoldLanes(D(), sums[0]);
}

}  // namespace ashlar::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ASHLAR_SIMD_TARGET

#endif  // toggle
