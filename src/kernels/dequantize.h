// The meaning of every stored number format: one row to f32. This is the definition that the matmul
// kernels must agree with bit for bit.
#pragma once

#include <cstddef>

#include "base/dtype.h"

namespace ashlar::kernels {

// Writes `elements` values (a whole number of dtype blocks) of the GGUF row `row` to `out`.
// Formats: the GGUF block layouts; scaled formats give (q - offset) * d + m, each operation rounded
// to f32 (K-quants: d = f16 scale times sub-block scale, rounded, before use).
void DequantizeRow(DType dtype, const std::byte* row, std::size_t elements, float* out);

}  // namespace ashlar::kernels
