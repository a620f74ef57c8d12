// The meaning of every stored number format: one row to f32. This is the definition that the matmul
// kernels must agree with bit for bit.
#pragma once

#include <cstddef>

#include "base/dtype.h"
#include "kernels/block_format.h"

namespace ashlar::kernels {

// Writes `elements` values (a whole number of dtype blocks) of the GGUF row `row` to `out`. Any
// alignment. Quantised formats give q * d + m as block_format.h defines it; a zero is never
// negative where the format has no minimum.
void DequantizeRow(DType dtype, const std::byte* row, std::size_t elements, float* out);

// The same of a block taken apart.
void DequantizeBlock(const BlockShape& shape, const BlockFields& fields, float* out);

}  // namespace ashlar::kernels
