// The limit loops (kernels/limits.h says what was tried).
#include "kernels/simd/targets.h"  // first: says which targets exist

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/limits.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/limit_tables.h"
#include "kernels/simd/vectors-inl.h"

#if ASHLAR_SIMD_TARGET
namespace ashlar::kernels::HWY_NAMESPACE {
namespace {

// Sums of a loop: enough to hide the latency of what adds to them (4 cycles, 2 a cycle), and not
// more than the registers hold beside the operands (16 with AVX2).
constexpr std::size_t kChains = 12;
constexpr std::size_t kReadSums = 8;
// Where three instructions make a product, the sums' additions are not what takes time.
constexpr std::size_t kPairChains = 4;

}  // namespace
}  // namespace ashlar::kernels::HWY_NAMESPACE

HWY_BEFORE_NAMESPACE();
namespace ashlar::kernels::HWY_NAMESPACE {
namespace {

// 32 bytes, also where vectors are longer.
using DRead = hn::CappedTag<std::uint32_t, 8>;
using DBytes = hn::CappedTag<std::uint8_t, 64>;
using DSigned = hn::RebindToSigned<DBytes>;

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
  return hn::GetLane(hn::SumOfLanes(d, sums[0]));
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

// sum + x . w, four neighbours to a 32-bit lane, without an instruction of its own: pairs in 16
// bits, pairs of pairs in 32.
HWY_INLINE hn::Vec<DI32> DotPairs(hn::Vec<DBytes> x, hn::Vec<DSigned> w, hn::Vec<DI32> sum) {
#if HWY_TARGET == HWY_AVX2
  const __m256i pairs = _mm256_maddubs_epi16(x.raw, w.raw);
  const __m256i dots = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  return hn::Add(sum, hn::Vec<DI32>{dots});
#elif HWY_TARGET == HWY_AVX3
  const __m512i pairs = _mm512_maddubs_epi16(x.raw, w.raw);
  const __m512i dots = _mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
  return hn::Add(sum, hn::Vec<DI32>{dots});
#else
  // Products of x / 2 and of x's lowest bit fit what AArch64 multiplies without extensions; other
  // lanes than the neighbours' do here, since all are summed.
  const int8x16_t half = vreinterpretq_s8_u8(vshrq_n_u8(x.raw, 1));
  const int8x16_t odd = vreinterpretq_s8_u8(vandq_u8(x.raw, vdupq_n_u8(1)));
  int16x8_t pairs = vmull_s8(vget_low_s8(half), vget_low_s8(w.raw));
  pairs = vmlal_high_s8(pairs, half, w.raw);
  pairs = vshlq_n_s16(pairs, 1);
  pairs = vmlal_s8(pairs, vget_low_s8(odd), vget_low_s8(w.raw));
  pairs = vmlal_high_s8(pairs, odd, w.raw);
  return hn::Vec<DI32>(vpadalq_s16(sum.raw, pairs));
#endif
}

std::uint32_t ReadInt8Pairs(const std::byte* data, std::size_t bytes, std::int8_t weight) {
  const DBytes d8;
  constexpr std::size_t kWidth = hn::MaxLanes(DBytes());
  const auto w = hn::Set(DSigned(), weight);
  hn::Vec<DI32> sums[kReadSums];
  for (auto& sum : sums) sum = hn::Zero(DI32());
  for (std::size_t i = 0; i < bytes; i += kReadSums * kWidth) {
    ASHLAR_UNROLL
    for (std::size_t s = 0; s < kReadSums; ++s) {
      const auto* const from = reinterpret_cast<const std::uint8_t*>(data + i + s * kWidth);
      sums[s] = DotPairs(hn::LoadU(d8, from), w, sums[s]);
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

std::uint32_t Int8Pairs(std::size_t rounds, std::uint8_t x, std::int8_t weight) {
  auto xs = hn::Set(DBytes(), x);
  const auto w = hn::Set(DSigned(), weight);
  hn::Vec<DI32> chains[kPairChains];
  for (auto& chain : chains) chain = hn::Zero(DI32());
  for (std::size_t i = 0; i < rounds; ++i) {
    ASHLAR_UNROLL
    for (auto& chain : chains) {
      Forget(xs);
      chain = DotPairs(xs, w, chain);
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

#if HWY_TARGET == HWY_AVX3
// VNNI is no part of the target: these two are called where the processor has it. Their own
// attribute cannot stand inside Highway's.
#define ASHLAR_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))

ASHLAR_VNNI std::uint32_t ReadInt8Vnni(const std::byte* data, std::size_t bytes,
                                       std::int8_t weight) {
  constexpr std::size_t kWidth = 32;
  const __m256i w = _mm256_set1_epi8(weight);
  __m256i sums[kReadSums];
  for (__m256i& sum : sums) sum = _mm256_setzero_si256();
  for (std::size_t i = 0; i < bytes; i += kReadSums * kWidth) {
    ASHLAR_UNROLL
    for (std::size_t s = 0; s < kReadSums; ++s) {
      const auto* const from = reinterpret_cast<const __m256i*>(data + i + s * kWidth);
      sums[s] = _mm256_dpbusd_epi32(sums[s], _mm256_loadu_si256(from), w);
    }
  }
  alignas(32) std::uint32_t lanes[kWidth / 4];
  std::uint32_t total = 0;
  for (const __m256i& sum : sums) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sum);
    for (const std::uint32_t lane : lanes) total += lane;
  }
  return total;
}

ASHLAR_VNNI std::uint32_t Int8Vnni(std::size_t rounds, std::uint8_t x, std::int8_t weight) {
  const __m512i xs = _mm512_set1_epi8(static_cast<char>(x));
  const __m512i w = _mm512_set1_epi8(weight);
  __m512i chains[kChains];
  ASHLAR_UNROLL
  for (__m512i& chain : chains) {
    chain = _mm512_setzero_si512();
    asm volatile("" : "+v"(chain));
  }
  for (std::size_t i = 0; i < rounds; ++i) {
    ASHLAR_UNROLL
    for (__m512i& chain : chains) chain = _mm512_dpbusd_epi32(chain, xs, w);
  }
  alignas(64) std::uint32_t lanes[16];
  std::uint32_t total = 0;
  for (const __m512i& chain : chains) {
    _mm512_store_si512(lanes, chain);
    for (const std::uint32_t lane : lanes) total += lane;
  }
  return total;
}
#undef ASHLAR_VNNI
#endif  // HWY_AVX3

constexpr Isa IsaOfTarget() {
  if (HWY_TARGET == HWY_AVX2) return Isa::kAvx2;
  if (HWY_TARGET == HWY_AVX3) return Isa::kAvx512;
  return Isa::kNeon;
}

constexpr LimitLoops kLoops = {
    .isa = IsaOfTarget(),
    .dot_instruction = HWY_ARCH_X86 ? "vpmaddubsw" : "",
    .read = Read,
    .read_f16_fma = ReadF16Fma,
    .read_int8_dot = ReadInt8Pairs,
    .fma = Fma,
    .int8_dot = Int8Pairs,
    .exp = SumOfExp,
    .fma_per_round = kChains * HWY_MAX_BYTES / sizeof(float),
    .dot_per_round = kPairChains * HWY_MAX_BYTES,
};

}  // namespace

const LimitLoops* Loops() {
#if HWY_TARGET == HWY_AVX3
  if (__builtin_cpu_supports("avx512vnni")) {
    static constexpr LimitLoops kVnniLoops = [] {
      LimitLoops loops = kLoops;
      loops.dot_instruction = "vpdpbusd";
      loops.read_int8_dot = ReadInt8Vnni;
      loops.int8_dot = Int8Vnni;
      loops.dot_per_round = kChains * HWY_MAX_BYTES;
      return loops;
    }();
    return &kVnniLoops;
  }
#endif
  return &kLoops;
}

}  // namespace ashlar::kernels::HWY_NAMESPACE
#endif  // ASHLAR_SIMD_TARGET

#if HWY_ONCE
namespace ashlar::kernels {

std::vector<const LimitLoops* (*)()> BuiltLimitLoops() {
  return {
#if HWY_TARGETS & HWY_AVX2
      N_AVX2::Loops,
#endif
#if HWY_TARGETS & HWY_AVX3
      N_AVX3::Loops,
#endif
#if HWY_TARGETS & HWY_NEON
      N_NEON::Loops,
#endif
  };
}

}  // namespace ashlar::kernels
#endif  // HWY_ONCE
