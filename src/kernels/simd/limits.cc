// The limit loops (kernels/limits.h says what was tried).
#include "kernels/simd/targets.h"  // first: says which targets exist

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/limits.cc"
#include <type_traits>

#include "hwy/foreach_target.h"
#include "kernels/simd/dot-inl.h"
#include "kernels/simd/limit_tables.h"
#include "kernels/simd/vectors-inl.h"

#if ASHLAR_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace ashlar::kernels::HWY_NAMESPACE {
namespace {

// Sums of a loop: enough to hide the latency of what adds to them (4 cycles, 2 a cycle), and not
// more than the registers hold beside the operands (16 with AVX2).
constexpr std::size_t kReadSums = 8;
constexpr std::size_t kChains = 12;
// Where a dot product is several instructions, the additions are not what takes time.
constexpr std::size_t kDotChains = HWY_TARGET == HWY_AVX3 ? kChains : 4;

// 32 bytes, also where vectors are longer.
using DRead = hn::CappedTag<std::uint32_t, 8>;

// Makes the compiler forget what it knows of a value, so that equal chains stay many and what does
// not change is computed again.
template <class VX>
HWY_INLINE void Forget(VX& v) {
#if HWY_ARCH_X86
  asm volatile("" : "+x"(v.raw));
#else
  asm volatile("" : "+w"(v.raw));
#endif
}

template <class DX, std::size_t kCount>
HWY_INLINE hn::TFromD<DX> SumOf(DX d, hn::Vec<DX> (&sums)[kCount]) {
  ASHLAR_UNROLL
  for (std::size_t i = 1; i < kCount; ++i) sums[0] = hn::Add(sums[0], sums[i]);
  using T = hn::TFromD<DX>;
  if constexpr (std::is_floating_point_v<T>) {
    return hn::GetLane(hn::SumOfLanes(d, sums[0]));
  } else {  // lane by lane: the sum wraps, and the intrinsic's is of signed numbers
    alignas(64) T lanes[64 / sizeof(T)];
    hn::Store(sums[0], d, lanes);
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < hn::MaxLanes(d); ++i) sum += static_cast<std::uint32_t>(lanes[i]);
    return static_cast<T>(sum);
  }
}

std::uint32_t Read(const std::byte* data, std::size_t bytes) {
  const DRead d;
  constexpr std::size_t kWidth = hn::MaxLanes(DRead()) * sizeof(std::uint32_t);
  hn::Vec<DRead> sums[kReadSums];
  for (auto& sum : sums) sum = hn::Zero(d);
  for (std::size_t i = 0; i < bytes; i += kReadSums * kWidth) {
    ASHLAR_UNROLL
    for (std::size_t s = 0; s < kReadSums; ++s) {
      const auto* const from = reinterpret_cast<const std::uint32_t*>(data + i + s * kWidth);
      sums[s] = hn::Add(sums[s], hn::LoadU(d, from));
    }
  }
  return SumOf(d, sums);
}

float ReadF16Fma(const std::byte* data, std::size_t bytes, float weight) {
  const D d;
  constexpr std::size_t kWidth = kLanes * sizeof(std::uint16_t);
  const V w = hn::Set(d, weight);
  V sums[kReadSums];
  for (V& sum : sums) sum = hn::Zero(d);
  for (std::size_t i = 0; i < bytes; i += kReadSums * kWidth) {
    ASHLAR_UNROLL
    for (std::size_t s = 0; s < kReadSums; ++s) {
      sums[s] = hn::MulAdd(LoadF16(d, data + i + s * kWidth), w, sums[s]);
    }
  }
  return SumOf(d, sums);
}

// 64 bytes as two loads of 32.
HWY_INLINE VI8 LoadBytes(const std::byte* data) {
  const auto* const from = reinterpret_cast<const std::int8_t*>(data);
#if HWY_TARGET == HWY_AVX3
  const hn::Half<DI8> half;
  return hn::Combine(DI8(), hn::LoadU(half, from + 32), hn::LoadU(half, from));
#else
  return hn::LoadU(DI8(), from);
#endif
}

std::uint32_t ReadInt8Dot(const std::byte* data, std::size_t bytes, std::uint8_t weight) {
  constexpr std::size_t kWidth = hn::MaxLanes(DI8());
  const VU8 w = hn::Set(DU8(), weight);
  VI32 sums[kReadSums];
  for (VI32& sum : sums) sum = hn::Zero(DI32());
  for (std::size_t i = 0; i < bytes; i += kReadSums * kWidth) {
    ASHLAR_UNROLL
    for (std::size_t s = 0; s < kReadSums; ++s) {
      sums[s] = DotU7S8(sums[s], w, LoadBytes(data + i + s * kWidth));
    }
  }
  return static_cast<std::uint32_t>(SumOf(DI32(), sums));
}

float Fma(std::size_t rounds, float factor, float addend) {
  const D d;
  const V f = hn::Set(d, factor);
  const V a = hn::Set(d, addend);
  V chains[kChains];
  ASHLAR_UNROLL
  for (V& chain : chains) {
    chain = hn::Zero(d);
    Forget(chain);
  }
  for (std::size_t i = 0; i < rounds; ++i) {
    ASHLAR_UNROLL
    for (V& chain : chains) chain = hn::MulAdd(chain, f, a);
  }
  return SumOf(d, chains);
}

std::uint32_t Int8Dot(std::size_t rounds, std::uint8_t weight, std::int8_t x) {
  VU8 w = hn::Set(DU8(), weight);
  const VI8 xs = hn::Set(DI8(), x);
  VI32 chains[kDotChains];
  for (VI32& chain : chains) {
    chain = hn::Zero(DI32());
    Forget(chain);
  }
  for (std::size_t i = 0; i < rounds; ++i) {
    ASHLAR_UNROLL
    for (VI32& chain : chains) {
      Forget(w);
      chain = DotU7S8(chain, w, xs);
    }
  }
  return static_cast<std::uint32_t>(SumOf(DI32(), chains));
}

float SumOfExp(const float* x, std::size_t count) {
  const D d;
  constexpr std::size_t kVectors = 4;
  V sums[kVectors];
  for (V& sum : sums) sum = hn::Zero(d);
  for (std::size_t i = 0; i < count; i += kVectors * kLanes) {
    ASHLAR_UNROLL
    for (std::size_t v = 0; v < kVectors; ++v) {
      sums[v] = hn::Add(sums[v], ExpOf(hn::LoadU(d, x + i + v * kLanes)));
    }
  }
  return SumOf(d, sums);
}

}  // namespace
}  // namespace ashlar::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace ashlar::kernels::HWY_NAMESPACE {
namespace {

constexpr LimitLoops kLoops = {
    .isa = IsaOfTarget(),
    .read = Read,
    .read_f16_fma = ReadF16Fma,
    .read_int8_dot = ReadInt8Dot,
    .fma = Fma,
    .int8_dot = Int8Dot,
    .exp = SumOfExp,
    .fma_per_round = kChains * HWY_MAX_BYTES / sizeof(float),
    .dot_per_round = kDotChains * HWY_MAX_BYTES,
};

}  // namespace

const LimitLoops* Loops() { return &kLoops; }

}  // namespace ashlar::kernels::HWY_NAMESPACE
#endif  // ASHLAR_SIMD_TARGET

#if HWY_ONCE
namespace ashlar::kernels {

std::vector<const LimitLoops*> BuiltLimitLoops() {
  return {
#if HWY_TARGETS & HWY_AVX2
      N_AVX2::Loops(),
#endif
#if HWY_TARGETS & HWY_AVX3
      N_AVX3::Loops(),
#endif
#if HWY_TARGETS & HWY_NEON
      N_NEON::Loops(),
#endif
  };
}

}  // namespace ashlar::kernels
#endif  // HWY_ONCE
