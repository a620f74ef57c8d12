// Products of bytes: four neighbouring products summed into each 32-bit lane, exactly.
//
// The sums are integers and nothing saturates, so every target gives the same value. The registers
// are those of vectors-inl.h: kLanes lanes of four bytes, lane i holding bytes 4 i .. 4 i + 3. The
// sum itself wraps at 32 bits; a product is at most 2^15, so 65,536 of them never do.
//
// Each function is an expression of a few instructions that inlines into any function of its
// target. AVX-512's is one instruction of the VNNI extension, which HWY_AVX3 does not include. An
// intrinsic would need a target attribute, and GCC inlines no function into another that has fewer
// of them: callers would need it as well, and their callers. The instruction is therefore written
// as such; kernels/isa.cc offers the AVX-512 tables only to processors that have it.
#include <cstdint>

#include "kernels/simd/vectors-inl.h"

#if defined(ASHLAR_KERNELS_SIMD_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASHLAR_KERNELS_SIMD_DOT_INL_H_
#undef ASHLAR_KERNELS_SIMD_DOT_INL_H_
#else
#define ASHLAR_KERNELS_SIMD_DOT_INL_H_
#endif

#if ASHLAR_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace ashlar::kernels::HWY_NAMESPACE {

using DU8 = hn::Repartition<std::uint8_t, D>;
using DI8 = hn::Repartition<std::int8_t, D>;
using VU8 = hn::Vec<DU8>;
using VI8 = hn::Vec<DI8>;
using VI32 = hn::Vec<DI32>;

// DotU8S8: sum[i] + the sum of a[4 i + j] * b[4 i + j] over j in [0, 4).
// DotU7S8: the same where no byte of `a` exceeds 127; AVX2 and NEON need half the instructions.
// DotS8S8: both signed, no byte of `b` is -128. Not on AVX-512, which has one side unsigned.

#if HWY_TARGET == HWY_AVX3

HWY_INLINE VI32 DotU8S8(VI32 sum, VU8 a, VI8 b) {
  // No memory operand: clang, free to choose, would store b first.
  asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  return sum;
}
HWY_INLINE VI32 DotU7S8(VI32 sum, VU8 a, VI8 b) { return DotU8S8(sum, a, b); }

#elif HWY_TARGET == HWY_AVX2

HWY_INLINE VI32 DotU8S8(VI32 sum, VU8 a, VI8 b) {
  // vpmaddubsw would saturate: a pair reaches 2 * 255 * -128. Even and odd bytes as 16 bits, then.
  const hn::Repartition<std::uint16_t, D> du16;
  const hn::Repartition<std::int16_t, D> di16;
  const auto a16 = hn::BitCast(du16, a);
  const auto b16 = hn::BitCast(di16, b);
  const auto a_even = hn::And(a16, hn::Set(du16, 0xFF));
  const auto a_odd = hn::ShiftRight<8>(a16);
  const auto b_even = hn::ShiftRight<8>(hn::ShiftLeft<8>(b16));
  const auto b_odd = hn::ShiftRight<8>(b16);
  const VI32 even{_mm256_madd_epi16(a_even.raw, b_even.raw)};
  const VI32 odd{_mm256_madd_epi16(a_odd.raw, b_odd.raw)};
  return hn::Add(sum, hn::Add(even, odd));
}

HWY_INLINE VI32 DotU7S8(VI32 sum, VU8 a, VI8 b) {
  // A pair lies in [2 * 127 * -128, 2 * 127 * 127]: it fits in 16 bits.
  const __m256i pairs = _mm256_maddubs_epi16(a.raw, b.raw);
  const __m256i ones = _mm256_set1_epi16(1);
  return hn::Add(sum, VI32{_mm256_madd_epi16(pairs, ones)});
}

HWY_INLINE VI32 DotS8S8(VI32 sum, VI8 a, VI8 b) {
  // |a| times b with the sign of a: a pair lies within 2 * 128 * 127.
  const __m256i pairs =
      _mm256_maddubs_epi16(_mm256_abs_epi8(a.raw), _mm256_sign_epi8(b.raw, a.raw));
  return hn::Add(sum, VI32{_mm256_madd_epi16(pairs, _mm256_set1_epi16(1))});
}

#elif HWY_TARGET == HWY_NEON

// Without the dot product extension: products fit in 16 bits (255 * -128 is the least).
HWY_INLINE VI32 DotU8S8ByWidening(VI32 sum, VU8 a, VI8 b) {
  const int16x8_t a_low = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(a.raw)));
  const int16x8_t a_high = vreinterpretq_s16_u16(vmovl_high_u8(a.raw));
  const int16x8_t low = vmulq_s16(a_low, vmovl_s8(vget_low_s8(b.raw)));
  const int16x8_t high = vmulq_s16(a_high, vmovl_high_s8(b.raw));
  return VI32{vaddq_s32(sum.raw, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)))};
}

#if defined(__ARM_FEATURE_DOTPROD)
HWY_INLINE VI32 DotU8S8(VI32 sum, VU8 a, VI8 b) {
  // a = (a - 128) + 128. The second product depends on b alone: out of a loop where b stays.
  const int8x16_t centred = vreinterpretq_s8_u8(veorq_u8(a.raw, vdupq_n_u8(0x80)));
  const int32x4_t minus_128_b = vdotq_s32(vdupq_n_s32(0), vdupq_n_s8(-128), b.raw);
  return VI32{vsubq_s32(vdotq_s32(sum.raw, centred, b.raw), minus_128_b)};
}
HWY_INLINE VI32 DotU7S8(VI32 sum, VU8 a, VI8 b) {
  return VI32{vdotq_s32(sum.raw, vreinterpretq_s8_u8(a.raw), b.raw)};
}
HWY_INLINE VI32 DotS8S8(VI32 sum, VI8 a, VI8 b) { return VI32{vdotq_s32(sum.raw, a.raw, b.raw)}; }
#else
HWY_INLINE VI32 DotU8S8(VI32 sum, VU8 a, VI8 b) { return DotU8S8ByWidening(sum, a, b); }
HWY_INLINE VI32 DotU7S8(VI32 sum, VU8 a, VI8 b) { return DotU8S8ByWidening(sum, a, b); }
HWY_INLINE VI32 DotS8S8(VI32 sum, VI8 a, VI8 b) {
  const int16x8_t low = vmull_s8(vget_low_s8(a.raw), vget_low_s8(b.raw));
  const int16x8_t high = vmull_high_s8(a.raw, b.raw);
  return VI32{vaddq_s32(sum.raw, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)))};
}
#endif

#endif  // HWY_TARGET

}  // namespace ashlar::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ASHLAR_SIMD_TARGET

#endif  // toggle
