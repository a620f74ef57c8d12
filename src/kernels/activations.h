// Activations as codes of 8 bits: what quantised weights are multiplied with when speed matters
// more than the last digits (docs/decisions/0012-activations-of-8-bits.md).
//
// A row x [k] becomes k / 32 blocks of 32 columns. With G the greatest magnitude of a block:
//
//   G <= kLeastMagnitude       step = 0 and all codes are 0
//   a value that is not finite step is NaN and all codes are 0
//   else                       step = G / 127, code = nearest integer, ties to even, of
//                              x * (1 / step), each rounded to f32
//
// Codes are those of their own 32 columns alone: no other block, row or step can change them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/packed_matrix.h"

namespace ashlar::kernels {

inline constexpr std::size_t kActivationColumns = 32;
inline constexpr int kActivationLevels = 127;

// One line of a cache: what a kernel needs of 32 columns.
struct alignas(64) ActivationBlock {
  std::int8_t code[kActivationColumns];
  float step;
  // step times the sum of codes: of all, and of each half. (For formats with a minimum.)
  float step_sum;
  float half_step_sum[2];
  // Sums of codes, negated: of all, and of each half. (For formats with an offset.)
  std::int32_t minus_sum;
  std::int32_t minus_half_sum[2];
  std::int32_t unused;
};
static_assert(sizeof(ActivationBlock) == 64);

// Rows lie in groups of kActivationRows (the last has what is left); in a group, the blocks of the
// same columns lie side by side: [group][k / 32][rows of the group]. A unit of weights is taken
// apart once for a group: with 16 rows instead of 32, 512 rows took 2 to 5 % longer (`ashlar bench
// matmul --rows 512`).
inline constexpr std::size_t kActivationRows = 32;

struct ActivationPlace {
  std::size_t first;   // index of the row's block of columns 0 .. 31
  std::size_t stride;  // blocks from one of its blocks to the next
};
constexpr ActivationPlace PlaceOfActivations(std::size_t rows, std::size_t k, std::size_t row) {
  const std::size_t begin = row / kActivationRows * kActivationRows;
  return {begin * (k / kActivationColumns) + row - begin, std::min(kActivationRows, rows - begin)};
}
constexpr std::size_t ActivationBlocks(std::size_t rows, std::size_t k) {
  return rows * (k / kActivationColumns);
}

// Encodes one row. k is a whole number of blocks; block i goes to out[i * stride].
struct EncodeActivationsArgs {
  const float* x;  // [k]
  std::size_t k;
  ActivationBlock* out;
  std::size_t stride;
};

// y[r][j] = bias[j] + W[j] . x[r] as kernels/kernel_set.h has it, from codes of x, for a quantised
// W. The chain of element (r, j): start at bias[j] or 0, then for each sub-block of 32 or 16
// columns (block_format.h) in order, with d and m of the sub-block and q - offset for q where the
// format has no minimum (then m is not used):
//
//   acc = fma(f32(sum of q[c] * code[c]), d * step, acc)
//   acc = fma(m, step * f32(sum of code[c]), acc)              formats with a minimum
//
// Sums are exact integers below 2^24: only what is written as f32 is rounded.
struct MatmulCodesArgs {
  const PackedMatrix* w;     // IsQuantised(w->dtype)
  const ActivationBlock* x;  // ActivationBlocks(rows, w->k)
  std::size_t rows;
  const float* bias;  // [n] or nullptr
  float* y;           // [rows, n], row stride y_stride (elements)
  std::size_t y_stride;
  std::size_t panel_begin;
  std::size_t panel_end;
};

}  // namespace ashlar::kernels
