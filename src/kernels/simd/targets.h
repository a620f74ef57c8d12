// Which instruction sets the SIMD files are compiled for. First include of each of them.
//
// A SIMD file is compiled once per Highway target, by including itself (hwy/foreach_target.h). We
// want the targets with a fused multiply-add and vectors of a fixed size; for any other (on x86 the
// fallback that Highway insists on) ASHLAR_SIMD_TARGET is 0 and the file must be empty.
#pragma once

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

#define ASHLAR_SIMD_TARGET \
  (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON)

// Before a loop with a constant count whose body indexes an array of vectors: without unrolling the
// array lives in memory instead of registers. Not for sanitizers: they check every access of the
// unrolled code, which takes minutes to compile and finds nothing more.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ASHLAR_UNROLL
#elif defined(__clang__)
#define ASHLAR_UNROLL _Pragma("clang loop unroll(full)")
#else
#define ASHLAR_UNROLL _Pragma("GCC unroll 32")
#endif
