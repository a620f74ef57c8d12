// What the quantised GGUF formats have in common, as data. All of them store an unsigned integer,
// the code, per element and mean
//
//   w = q * d + m        (the multiplication rounded to f32, then the addition)
//
// where q is the code, or what a codebook has at its place, and d and m belong to a sub-block of
// neighbouring columns:
//
//   format        code      d              m
//   Q4_0 Q5_0     4, 5 bit  f16            -8 * d, -16 * d
//   Q8_0          8 bit     f16            -128 * d      (the file's signed byte plus 128)
//   Q4_1 Q5_1     4, 5 bit  f16            f16
//   Q4_K Q5_K     4, 5 bit  f16 * scale    -(f16 * minimum)      scale, minimum: 6-bit integers
//   Q2_K          2 bit     f16 * scale    -(f16 * minimum)      scale, minimum: 4-bit integers
//   Q6_K          6 bit     f16 * scale    -32 * d               scale: a signed byte
//   Q3_K          3 bit     f16 * scale    -4 * d                scale: a 6-bit integer - 32
//   IQ4_NL        4 bit     f16            -128 * d              codebook: kIq4NlLevels
//   MXFP4         4 bit     2^(e - 128)    -16 * d               codebook: kMxfp4Levels
//
// q * d is exact in f32 (at most 24 significant bits), and where m is a multiple of d the sum is
// exact too: hence fma(q, d, m), (q - offset) * d and the formula above are the same number, except
// that this one never gives a negative zero for q = offset. (An MXFP4 scale of 2^119 or more, which
// no weight has, gives infinities and NaN.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/dtype.h"

namespace ashlar::kernels {

inline constexpr std::size_t kMaxBlockColumns = 256;

// Levels of the codebooks, raised by the format's offset. IQ4_NL: those of llama.cpp
// (kvalues_iq4nl). MXFP4: twice the values of FP4 E2M1 (OCP Microscaling Formats 1.0), halved again
// by d: 0, 1, 2, 3, 4, 6, 8, 12 and their negatives.
using Levels = std::array<std::uint8_t, 16>;
inline constexpr Levels kIq4NlLevels = {1,   24,  45,  63,  79,  93,  106, 118,
                                        129, 141, 153, 166, 181, 197, 217, 241};
inline constexpr Levels kMxfp4Levels = {16, 17, 18, 19, 20, 22, 24, 28,
                                        16, 15, 14, 13, 12, 10, 8,  4};

enum class Codebook : std::uint8_t { kNone, kIq4Nl, kMxfp4 };
// Precondition: not kNone.
constexpr const Levels& LevelsOf(Codebook codebook) {
  return codebook == Codebook::kIq4Nl ? kIq4NlLevels : kMxfp4Levels;
}

struct BlockShape {
  std::uint32_t columns;      // elements of a block
  std::uint32_t sub_columns;  // elements that share d and m
  std::uint32_t bits;         // of a code
  std::uint32_t offset;       // m = -offset * d when the format stores no minimum
  bool has_minimum;
  bool has_sub_scales;  // K-quants: the f16 values are scaled again per sub-block
  Codebook codebook = Codebook::kNone;
  bool has_bf16_scale = false;  // d is stored as bf16, which holds any power of two

  constexpr std::uint32_t subs() const { return columns / sub_columns; }
  constexpr std::uint32_t QOf(std::uint8_t code) const {
    return codebook == Codebook::kNone ? code : LevelsOf(codebook)[code];
  }
  constexpr std::uint32_t max_q() const {
    std::uint32_t most = 0;
    for (std::uint32_t code = 0; code < 1u << bits; ++code) {
      most =
          QOf(static_cast<std::uint8_t>(code)) > most ? QOf(static_cast<std::uint8_t>(code)) : most;
    }
    return most;
  }
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
    case DType::kQ2_K:
      return {256, 16, 2, 0, true, true};
    case DType::kQ3_K:
      return {256, 16, 3, 4, false, true};
    case DType::kIQ4_NL:
      return {32, 32, 4, 128, false, false, Codebook::kIq4Nl};
    case DType::kMXFP4:
      return {32, 32, 4, 16, false, false, Codebook::kMxfp4, true};
    default:
      ASHLAR_CHECK(false, "{} has no blocks", NameOf(dtype));
  }
}

// A block taken apart, before any arithmetic.
struct BlockFields {
  std::uint16_t d;  // f16 bits, or bf16 bits where the shape says so
  std::uint16_t m;  // f16 bits; 0 without a minimum
  std::int8_t scales[16];
  std::uint8_t minimums[16];
  std::uint8_t code[kMaxBlockColumns];
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
