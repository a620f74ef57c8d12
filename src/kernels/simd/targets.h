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

// Whether sanitizers check what is compiled. They take minutes for what is unrolled or made for
// many numbers of rows, and find nothing more in it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ASHLAR_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ASHLAR_SANITIZED 1
#endif
#endif
#ifndef ASHLAR_SANITIZED
#define ASHLAR_SANITIZED 0
#endif

// Before a loop with a constant count whose body indexes an array of vectors: without unrolling the
// array lives in memory instead of registers.
#if ASHLAR_SANITIZED
#define ASHLAR_UNROLL
#elif defined(__clang__)
#define ASHLAR_UNROLL _Pragma("clang loop unroll(full)")
#else
#define ASHLAR_UNROLL _Pragma("GCC unroll 32")
#endif
