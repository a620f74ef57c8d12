// Where things lie inside a panel of a PackedMatrix (for the packer and the matmul kernels only).
//
// Unquantised: k columns of 16 elements, [k][16].
//
// Quantised: k / columns packed blocks, one after the other; a packed block holds one GGUF block of
// each of the 16 rows:
//
//   f16 d[16]                       the rows' scales
//   f16 m[16]                       formats with a minimum
//   then per sub-block
//     int8 scale[16]                K-quants
//     uint8 minimum[16]             K-quants with a minimum
//     uint32 words[words][16]       the columns' q: all rows' first word, all rows' second, ...
//
// A word holds whole q's from bit 0 up, column after column: 8 of 4 bits, 4 of 8 bits, 6 of 5 bits
// or 5 of 6 bits. With 5 and 6 bits two top bits are spare; the sub-block's last columns (two with
// 5 bits: 30 and 31; one with 6 bits: 15) are dealt over them: written one after the other from bit
// 0 up they make one number, whose bits 2i and 2i + 1 are the top bits of word i. So no bit is
// wasted:
//
//   bytes per weight: F32 4, F16 BF16 2, Q4_0 0.5625, Q4_1 0.625, Q5_0 0.6875, Q5_1 0.75,
//   Q8_0 1.0625 (all as in the file), Q4_K 0.578, Q5_K 0.703 (file: 0.5625, 0.6875; 6-bit scales
//   became bytes), Q6_K 0.8203 (as in the file).
//
// Why words of 32 bits with fields in place: q = word & mask is q * 2^p as an integer, its
// conversion to f32 is exact, and fma(q * 2^p, d * 2^-p, m) is exactly fma(q, d, m): no shift per
// column.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "kernels/block_format.h"
#include "kernels/packed_matrix.h"

namespace ashlar::kernels {

inline constexpr std::size_t kWordRowBytes = kPanelRows * sizeof(std::uint32_t);

// How many whole q's of a column a word holds, and the words of a sub-block.
constexpr std::size_t FieldsPerWord(const BlockShape& shape) { return 32 / shape.bits; }
constexpr std::size_t WordsPerSub(const BlockShape& shape) {
  return shape.sub_columns * shape.bits / 32;
}
// Columns before this one have a whole field; the rest of the sub-block is dealt over spare bits.
constexpr std::size_t WholeColumns(const BlockShape& shape) {
  return WordsPerSub(shape) * FieldsPerWord(shape);
}

constexpr std::size_t PackedHeaderBytes(const BlockShape& shape) {
  return kPanelRows * 2 * (shape.has_minimum ? 2 : 1);
}
constexpr std::size_t PackedSubHeaderBytes(const BlockShape& shape) {
  return shape.has_sub_scales ? kPanelRows * (shape.has_minimum ? 2 : 1) : 0;
}
constexpr std::size_t PackedSubBytes(const BlockShape& shape) {
  return PackedSubHeaderBytes(shape) + WordsPerSub(shape) * kWordRowBytes;
}
constexpr std::size_t PackedBlockBytes(const BlockShape& shape) {
  return PackedHeaderBytes(shape) + shape.subs() * PackedSubBytes(shape);
}

// Takes row `row` (0..15) of a packed block apart: the inverse of packing. (For the reference
// kernels.)
void ReadPackedBlock(const BlockShape& shape, const std::byte* block, std::size_t row,
                     BlockFields* fields);

}  // namespace ashlar::kernels
