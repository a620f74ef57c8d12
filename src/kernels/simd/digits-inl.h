// Numbers as integers of one or two digits of a byte (kernels/attention.h says how many levels).
#include <cstring>
#include <limits>

#include "kernels/prepared_query.h"
#include "kernels/simd/dot-inl.h"
#include "kernels/simd/vectors-inl.h"

#if defined(ASHLAR_KERNELS_SIMD_DIGITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASHLAR_KERNELS_SIMD_DIGITS_INL_H_
#undef ASHLAR_KERNELS_SIMD_DIGITS_INL_H_
#else
#define ASHLAR_KERNELS_SIMD_DIGITS_INL_H_
#endif

#if ASHLAR_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace ashlar::kernels::HWY_NAMESPACE {

template <std::size_t kDigits>
HWY_INLINE VI32 JoinDigits(const VI32 (&digits)[kDigits]) {
  if constexpr (kDigits == 1) return digits[0];
  return hn::Add(hn::ShiftLeft<8>(digits[0]), digits[1]);
}

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

// Integers of 15 bits as two digits, in order.
HWY_INLINE void StoreTwoDigits(VI32 x, std::int8_t* high, std::int8_t* low) {
  const hn::Rebind<std::int8_t, D> d8;
  const VI32 h = hn::ShiftRight<8>(hn::Add(x, hn::Set(DI32(), 128)));
  hn::StoreU(hn::DemoteTo(d8, h), d8, high);
  hn::StoreU(hn::DemoteTo(d8, hn::Sub(x, hn::ShiftLeft<8>(h))), d8, low);
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
      StoreTwoDigits(x, high + i, low + i);
    }
  }
  return step;
}

// Weighted tokens: weights times scales as integers, of which value = integer * step.
struct WeightDigits {
  float step;        // as StepOf says
  std::int32_t sum;  // of the integers
};

// Greatest magnitudes as bits: anything not finite is greater still.
template <bool kIsSigned>
HWY_INLINE hn::Vec<DU32> MagnitudeBits(V x) {
  return hn::BitCast(DU32(), kIsSigned ? hn::Abs(x) : x);
}

HWY_INLINE std::int32_t SumOfDigits(const VI32 (&sums)[2]) {
  return hn::GetLane(hn::SumOfLanes(DI32(), JoinDigits(sums)));
}

#if HWY_TARGET == HWY_AVX3
// 64 integers of 16 bits, as words of two vectors each, in two digits; adds them to `sums`.
HWY_INLINE void StoreDigits64(const V* weighted, V inverse, std::int8_t* high, std::int8_t* low,
                              VI32 (&sums)[2]) {
  __m512i x[4];
  ASHLAR_UNROLL
  for (std::size_t i = 0; i < 4; ++i) {
    x[i] = NearestOf(hn::Mul(weighted[i], inverse)).raw;
  }
  const __m512i a = _mm512_packs_epi32(x[0], x[1]);
  const __m512i b = _mm512_packs_epi32(x[2], x[3]);
  const __m512i half = _mm512_set1_epi16(128);
  const __m512i byte = _mm512_set1_epi16(0xFF);
  const __m512i high_a = _mm512_srai_epi16(_mm512_add_epi16(a, half), 8);
  const __m512i high_b = _mm512_srai_epi16(_mm512_add_epi16(b, half), 8);
  const VI8 h{_mm512_packs_epi16(high_a, high_b)};
  const VI8 l{_mm512_packus_epi16(_mm512_and_si512(a, byte), _mm512_and_si512(b, byte))};
  hn::StoreU(h, DI8(), high);
  hn::StoreU(l, DI8(), low);
  const VU8 ones = hn::Set(DU8(), std::uint8_t{1});
  sums[0] = DotU7S8(sums[0], ones, h);
  sums[1] = DotU7S8(sums[1], ones, l);
}

// Tokens [begin, end), multiples of 16, weighted, as integers in two digits at DigitsAt; no weight
// is negative, and no scale unless kIsSigned. Digits of whole groups of 64 tokens are written: 0
// outside [begin, end).
template <bool kIsSigned>
HWY_INLINE WeightDigits MakeWeightDigits(const float* weights, const float* scales,
                                         std::size_t begin, std::size_t end, std::int8_t* high,
                                         std::int8_t* low) {
  constexpr std::size_t kVectors = kSegmentTokens / kLanes;
  const D d;
  V weighted[kVectors];  // all of a segment in registers
  hn::Vec<DU32> bits[2] = {hn::Zero(DU32()), hn::Zero(DU32())};
  if (end - begin == kSegmentTokens) {
    ASHLAR_UNROLL
    for (std::size_t i = 0; i < kVectors; ++i) {
      weighted[i] = hn::Mul(hn::Load(d, weights + i * kLanes), hn::Load(d, scales + i * kLanes));
      bits[i % 2] = hn::Max(bits[i % 2], MagnitudeBits<kIsSigned>(weighted[i]));
    }
  } else {
    ASHLAR_UNROLL
    for (std::size_t i = 0; i < kVectors; ++i) {
      weighted[i] = hn::Zero(d);
      if (i * kLanes < begin || i * kLanes >= end) continue;
      weighted[i] = hn::Mul(hn::Load(d, weights + i * kLanes), hn::Load(d, scales + i * kLanes));
      bits[i % 2] = hn::Max(bits[i % 2], MagnitudeBits<kIsSigned>(weighted[i]));
    }
  }
  float inverse_step;
  const std::uint32_t greatest = hn::GetLane(hn::MaxOfLanes(DU32(), hn::Max(bits[0], bits[1])));
  const float step = StepOf(greatest, kWeightLevels, inverse_step);
  if (inverse_step == 0.0f) {
    std::fill(high + begin / 64 * 64, high + (end + 63) / 64 * 64, std::int8_t{0});
    std::fill(low + begin / 64 * 64, low + (end + 63) / 64 * 64, std::int8_t{0});
    return {step, 0};
  }
  const V inverse = hn::Set(d, inverse_step);
  VI32 sums[2] = {hn::Zero(DI32()), hn::Zero(DI32())};
  ASHLAR_UNROLL
  for (std::size_t i = 0; i < kVectors; i += 4) {
    if (i * kLanes + 64 <= begin || i * kLanes >= end) continue;
    StoreDigits64(weighted + i, inverse, high + i * kLanes, low + i * kLanes, sums);
  }
  return {step, SumOfDigits(sums)};
}

#else

template <bool kIsSigned>
HWY_INLINE WeightDigits MakeWeightDigits(const float* weights, const float* scales,
                                         std::size_t begin, std::size_t end, std::int8_t* high,
                                         std::int8_t* low) {
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
    bits = hn::Max(bits, MagnitudeBits<kIsSigned>(w));
    hn::Store(w, d, weighted + t);
  }
  float inverse_step;
  const float step = StepOf(hn::GetLane(hn::MaxOfLanes(du, bits)), kWeightLevels, inverse_step);
  if (inverse_step == 0.0f) {
    std::fill(high + first, high + last, std::int8_t{0});
    std::fill(low + first, low + last, std::int8_t{0});
    return {step, 0};
  }
  const V inverse = hn::Set(d, inverse_step);
  for (std::size_t t = first; t < last; t += kLanes) {
    StoreTwoDigits(NearestOf(hn::Mul(hn::Load(d, weighted + t), inverse)), high + t, low + t);
  }
  const VU8 ones = hn::Set(DU8(), std::uint8_t{1});
  VI32 sums[2] = {hn::Zero(DI32()), hn::Zero(DI32())};
  for (std::size_t t = first; t < last; t += 4 * kLanes) {
    sums[0] = DotU7S8(sums[0], ones, hn::LoadU(DI8(), high + t));
    sums[1] = DotU7S8(sums[1], ones, hn::LoadU(DI8(), low + t));
  }
  return {step, SumOfDigits(sums)};
}
#endif

}  // namespace ashlar::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ASHLAR_SIMD_TARGET

#endif  // toggle
