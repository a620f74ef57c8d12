// Weights, rearranged so that one SIMD vector holds the same column of 16 neighbouring rows.
//
// A matrix W [n rows, k columns] of a GGUF dtype becomes ceil(n / 16) panels of 16 rows; inside a
// panel elements lie column by column (k-major), still in their stored number of bits, with the
// scales beside them. The last panel is filled up with rows of zeros. A panel's bytes start at a
// multiple of 64.
//
// Functions here work on memory the caller owns and allocate nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace ashlar::kernels {

inline constexpr std::size_t kPanelRows = 16;
inline constexpr std::size_t kPackAlignment = 64;

// A view of a packed matrix; who made `data` owns it.
struct PackedMatrix {
  DType dtype = DType::kF32;
  std::size_t n = 0;  // rows: output features
  std::size_t k = 0;  // columns: input features
  const std::byte* data = nullptr;
  // Where W is not packed: as GGUF stores it, row after row, `data` being null. Kernels take packed
  // matrices only: who calls them packs the panels of the call (PackPanels).
  const std::byte* rows = nullptr;

  std::size_t panels() const { return (n + kPanelRows - 1) / kPanelRows; }
};

// Bytes of one panel / of the whole packed matrix. Precondition: k is a whole number of dtype
// blocks.
std::size_t PackedPanelBytes(DType dtype, std::size_t k);
std::size_t PackedBytes(DType dtype, std::size_t n, std::size_t k);

// Packs panels [panel_begin, panel_end) of `rows` (GGUF row-major storage of W) into `packed`, the
// start of the whole packed matrix (aligned to kPackAlignment).
struct PackArgs {
  DType dtype;
  std::size_t n;
  std::size_t k;
  const std::byte* rows;
  std::byte* packed;
  std::size_t panel_begin;
  std::size_t panel_end;
};
void PackPanels(const PackArgs& args);

// Row `row` of a packed matrix as f32 [k]: what DequantizeRow gives for the row that was packed.
void UnpackRow(const PackedMatrix& w, std::size_t row, float* out);

}  // namespace ashlar::kernels
