// What this processor and its memory can do at best: loops that read or compute and do nothing
// else, for benchmarks to state their figures as a share of. No kernel of ours is measured against
// a number from a data sheet.
//
// The loops are pure functions on pointers; a caller runs one on as many threads as it likes, each
// with its own part. What they return depends on all of the work, so that none of it can be left
// out; sums of integers are exact modulo 2^32, sums of floats run in an order of the Isa's own.
//
// What was tried for the reading loops (Zen 4, 1 GiB on huge pages, 1 and 2 threads, medians of 15
// turns): one stream of 32-byte loads without software prefetch is the fastest or within the noise
// of it. 64-byte loads: 0.93 to 1.0 of it. Software prefetch 0.5 to 8 KiB ahead (to all levels, or
// as non-temporal): 0.75 to 1.0. Two or four streams, a page or a part of the buffer apart: 0.4 to
// 0.9. 4, 8 or 16 sums: no difference. f16 with 256-bit or 512-bit arithmetic: no difference.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/isa.h"

namespace ashlar::kernels {

// Bytes to read come in multiples of this; floats for `exp` in multiples of kLimitFloats.
inline constexpr std::size_t kLimitBytes = 1024;
inline constexpr std::size_t kLimitFloats = 64;
// Of the 8-bit loops: products of 7 and 8 bits are what every processor multiplies fastest.
inline constexpr std::uint8_t kMaxLimitWeight = 127;

struct LimitLoops {
  Isa isa;

  // Reads. Any alignment.
  // The sum of the bytes' u32 words.
  std::uint32_t (*read)(const std::byte* data, std::size_t bytes);
  // The sum of weight * x over f16 numbers x, each converted to f32 and added by a fused
  // multiply-add.
  float (*read_f16_fma)(const std::byte* data, std::size_t bytes, float weight);
  // The sum of weight * x over s8 numbers x. weight <= kMaxLimitWeight.
  std::uint32_t (*read_int8_dot)(const std::byte* data, std::size_t bytes, std::uint8_t weight);

  // Arithmetic in registers: independent chains, `rounds` steps each.
  // fma_per_round * y, where y = 0, then rounds times y = fma(y, factor, addend); as a sum of
  // fma_per_round equal chains.
  float (*fma)(std::size_t rounds, float factor, float addend);
  // dot_per_round * rounds * weight * x. weight <= kMaxLimitWeight.
  std::uint32_t (*int8_dot)(std::size_t rounds, std::uint8_t weight, std::int8_t x);
  // The sum of Exp(x[i]) (kernel_set.h).
  float (*exp)(const float* x, std::size_t count);

  std::size_t fma_per_round;  // f32 multiply-adds: 2 FLOP each
  std::size_t dot_per_round;  // 8-bit multiply-adds: 2 operations each
};

// Precondition: `isa` is one of RunnableIsas(). kReference gives plain loops: the definition, no
// limit of anything.
const LimitLoops& LimitLoopsFor(Isa isa);

}  // namespace ashlar::kernels
