// What the quantised GGUF formats have in common, as data. All of them store an unsigned integer q
// per element and mean
//
//   w = q * d + m        (the multiplication rounded to f32, then the addition)
//
// where d and m belong to a sub-block of neighbouring columns:
//
//   format        q         d              m
//   Q4_0 Q5_0     4, 5 bit  f16            -8 * d, -16 * d
//   Q8_0          8 bit     f16            -128 * d      (the file's signed byte plus 128)
//   Q4_1 Q5_1     4, 5 bit  f16            f16
//   Q4_K Q5_K     4, 5 bit  f16 * scale    -(f16 * minimum)      scale, minimum: 6-bit integers
//   Q6_K          6 bit     f16 * scale    -32 * d               scale: a signed byte
//
// q * d is exact in f32 (at most 24 significant bits), and where m is a multiple of d the sum is
// exact too: hence fma(q, d, m), (q - offset) * d and the formula above are the same number, except
// that this one never gives a negative zero for q = offset.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/dtype.h"

namespace ashlar::kernels {

inline constexpr std::size_t kMaxBlockColumns = 256;

struct BlockShape {
  std::uint32_t columns;      // elements of a block
  std::uint32_t sub_columns;  // elements that share d and m
  std::uint32_t bits;         // of q
  std::uint32_t offset;       // m = -offset * d when the format stores no minimum
  bool has_minimum;
  bool has_sub_scales;  // K-quants: the f16 values are scaled again per sub-block

  constexpr std::uint32_t subs() const { return columns / sub_columns; }
  constexpr std::uint32_t max_q() const { return (1u << bits) - 1; }
};

// True for the formats of the table above; false for F32, F16, BF16.
constexpr bool IsQuantised(DType dtype) {
  return dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16;
}

// Precondition: IsQuantised(dtype).
constexpr BlockShape ShapeOf(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
      return {32, 32, 4, 8, false, false};
    case DType::kQ4_1:
      return {32, 32, 4, 0, true, false};
    case DType::kQ5_0:
      return {32, 32, 5, 16, false, false};
    case DType::kQ5_1:
      return {32, 32, 5, 0, true, false};
    case DType::kQ8_0:
      return {32, 32, 8, 128, false, false};
    case DType::kQ4_K:
      return {256, 32, 4, 0, true, true};
    case DType::kQ5_K:
      return {256, 32, 5, 0, true, true};
    case DType::kQ6_K:
      return {256, 16, 6, 32, false, true};
    default:
      ASHLAR_CHECK(false, "{} has no blocks", NameOf(dtype));
  }
}

// A block taken apart, before any arithmetic.
struct BlockFields {
  std::uint16_t d;  // f16 bits
  std::uint16_t m;  // f16 bits; 0 without a minimum
  std::int8_t scales[16];
  std::uint8_t minimums[8];
  std::uint8_t q[kMaxBlockColumns];
};

// Precondition: IsQuantised(dtype); `block` holds InfoOf(dtype).block_bytes bytes.
void ReadBlock(DType dtype, const std::byte* block, BlockFields* fields);

// d and m of a sub-block, in f32.
struct SubScale {
  float d;
  float m;
};
SubScale SubScaleOf(const BlockShape& shape, const BlockFields& fields, std::size_t sub);

}  // namespace ashlar::kernels
