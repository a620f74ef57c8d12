// Where things lie inside a panel of a PackedMatrix (for the packer and the matmul kernels only).
//
// Unquantised: k columns of 16 elements, [k][16].
//
// Quantised: chunks of columns, one after the other, each
//
//   headers, one for each of its GGUF blocks (of all 16 rows), together padded to 64 bytes:
//     f16 d[16]                       the rows' scales (MXFP4: bf16)
//     f16 m[16]                       formats with a minimum
//     then per sub-block
//       int8 scale[16]                K-quants
//       uint8 minimum[16]             K-quants with a minimum
//   units of 32 columns:
//     uint32 words[bits][16]          all rows' first word, all rows' second, ...
//
// A chunk is one GGUF block, or two where a header alone would be half a line of a cache: words
// start on a line, and a panel is read from its first byte to its last. (The last chunk has one
// block of two where k is no whole number of chunks.)
//
// A unit's columns are eight vectors of four: vector v holds, in each row's 32 bits, columns 4 v ..
// 4 v + 3 as bytes. That is the shape in which processors multiply bytes (simd/dot-inl.h). Stored
// are planes of 8, 4, 2 or 1 bits of those bytes: a word of a plane of b bits has 8 / b vectors,
// vector v at bit b * (v mod (8 / b)) of each byte. 8 and 4 bits are one plane, 5 and 6 bits a
// plane of 4 and one of 1 or 2, 3 bits a plane of 2 and one of 1. So no bit is wasted, and a vector
// is a shift and a mask for each plane. A word of the high plane stands before the low words of its
// vectors: a unit is then read line by line, which is what the processor foresees
// (bench/README.md).
//
//   bytes per weight: F32 4, F16 BF16 2, Q4_0 0.5625, Q4_1 0.625, Q5_0 0.6875, Q5_1 0.75,
//   Q8_0 1.0625 (all as in the file), Q4_K 0.578, Q5_K 0.703 (file: 0.5625, 0.6875; 6-bit scales
//   became bytes), Q6_K 0.828 (file: 0.8203), Q2_K 0.391 (file: 0.328; 4-bit scales became
//   bytes), Q3_K 0.453 (file: 0.430), IQ4_NL 0.5625 (as in the file), MXFP4 0.5625 (file: 0.531; a
//   byte of exponent became bf16).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "kernels/block_format.h"
#include "kernels/packed_matrix.h"

namespace ashlar::kernels {

inline constexpr std::size_t kUnitColumns = 32;
inline constexpr std::size_t kUnitVectors = 8;  // of 4 columns
inline constexpr std::size_t kVectorColumns = 4;
inline constexpr std::size_t kWordRowBytes = kPanelRows * sizeof(std::uint32_t);

// The planes of a code: its low bits, and those above them, if any.
enum class Plane : std::uint8_t { kLow, kHigh };
constexpr std::size_t PlaneBits(const BlockShape& shape, Plane plane) {
  const std::size_t low = shape.bits == 8 ? 8 : shape.bits >= 4 ? 4 : 2;
  return plane == Plane::kLow ? low : shape.bits - low;
}

// Where a plane has a vector.
struct PlanePlace {
  std::size_t word;   // of the unit
  std::size_t shift;  // in each byte
};
constexpr PlanePlace PlaceIn(const BlockShape& shape, Plane plane, std::size_t vector) {
  const std::size_t low = PlaneBits(shape, Plane::kLow);
  const std::size_t high = PlaneBits(shape, Plane::kHigh);
  const std::size_t bits = plane == Plane::kLow ? low : high;
  const std::size_t word = vector / (8 / bits);  // of the plane
  const std::size_t shift = bits * (vector % (8 / bits));
  if (high == 0) return {word, shift};
  // A word of the high plane and the low / high words of the low plane that follow it.
  return {plane == Plane::kLow ? word / (low / high) + 1 + word : word * (1 + low / high), shift};
}

// A plane's bits in every byte of a word, at bit 0.
constexpr std::uint32_t FieldsMask(std::size_t bits) { return 0x01010101u * ((1u << bits) - 1); }

constexpr std::size_t SubsPerUnit(const BlockShape& shape) {
  return kUnitColumns / shape.sub_columns;
}
constexpr std::size_t PackedUnitBytes(const BlockShape& shape) {
  return shape.bits * kWordRowBytes;
}
constexpr std::size_t PackedSubHeaderBytes(const BlockShape& shape) {
  return shape.has_sub_scales ? kPanelRows * (shape.has_minimum ? 2 : 1) : 0;
}
constexpr std::size_t PackedSubHeadersOffset(const BlockShape& shape) {  // in a header
  return kPanelRows * 2 * (shape.has_minimum ? 2 : 1);
}
constexpr std::size_t PackedBlockHeaderBytes(const BlockShape& shape) {
  return PackedSubHeadersOffset(shape) + shape.subs() * PackedSubHeaderBytes(shape);
}
constexpr std::size_t BlocksPerChunk(const BlockShape& shape) {
  return PackedBlockHeaderBytes(shape) < kPackAlignment ? 2 : 1;
}
constexpr std::size_t UnitsPerBlock(const BlockShape& shape) {
  return shape.columns / kUnitColumns;
}
constexpr std::size_t UnitsPerChunk(const BlockShape& shape) {
  return BlocksPerChunk(shape) * UnitsPerBlock(shape);
}
constexpr std::size_t ChunkHeaderBytes(const BlockShape& shape) {
  const std::size_t bytes = BlocksPerChunk(shape) * PackedBlockHeaderBytes(shape);
  return (bytes + kPackAlignment - 1) / kPackAlignment * kPackAlignment;
}
constexpr std::size_t ChunkBytes(const BlockShape& shape) {
  return ChunkHeaderBytes(shape) + UnitsPerChunk(shape) * PackedUnitBytes(shape);
}

// Where a unit lies in its panel, and what it is multiplied with.
struct UnitPlace {
  std::size_t words;
  std::size_t header;  // of its block
  std::size_t sub;     // its first sub-block in the block
};
// Always inline: with a constant shape it is a shift and a multiplication.
[[gnu::always_inline]] constexpr UnitPlace PlaceOfUnit(const BlockShape& shape, std::size_t unit) {
  const std::size_t chunk = unit / UnitsPerChunk(shape) * ChunkBytes(shape);
  const std::size_t in_chunk = unit % UnitsPerChunk(shape);
  return {chunk + ChunkHeaderBytes(shape) + in_chunk * PackedUnitBytes(shape),
          chunk + in_chunk / UnitsPerBlock(shape) * PackedBlockHeaderBytes(shape),
          in_chunk % UnitsPerBlock(shape) * SubsPerUnit(shape)};
}

// Takes block `block` of row `row` (0..15) of a panel apart: the inverse of packing. (For the
// reference kernels.)
struct PanelBlock {
  const std::byte* panel;
  std::size_t block;
  std::size_t row;
};
void ReadPackedBlock(const BlockShape& shape, const PanelBlock& from, BlockFields* fields);

}  // namespace ashlar::kernels
