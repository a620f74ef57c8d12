#include "kernels/dequantize.h"

#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/half.h"
#include "kernels/block_format.h"

namespace ashlar::kernels {
namespace {

template <typename Convert>
void ConvertHalves(const std::byte* row, std::size_t elements, float* out, Convert convert) {
  for (std::size_t i = 0; i < elements; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, row + 2 * i, sizeof bits);
    out[i] = convert(bits);
  }
}

}  // namespace

void DequantizeRow(DType dtype, const std::byte* row, std::size_t elements, float* out) {
  if (dtype == DType::kF32) {
    if (elements > 0) std::memcpy(out, row, elements * sizeof(float));
    return;
  }
  if (dtype == DType::kF16) return ConvertHalves(row, elements, out, F16ToF32);
  if (dtype == DType::kBF16) return ConvertHalves(row, elements, out, Bf16ToF32);

  const BlockShape shape = ShapeOf(dtype);
  ASHLAR_DCHECK(elements % shape.columns == 0, "{} elements of {}", elements, NameOf(dtype));
  BlockFields fields;
  for (std::size_t begin = 0; begin < elements; begin += shape.columns) {
    ReadBlock(dtype, row, &fields);
    row += InfoOf(dtype).block_bytes;
    DequantizeBlock(shape, fields, out + begin);
  }
}

void DequantizeBlock(const BlockShape& shape, const BlockFields& fields, float* out) {
  for (std::size_t sub = 0; sub < shape.subs(); ++sub) {
    const SubScale scale = SubScaleOf(shape, fields, sub);
    const std::size_t first = sub * shape.sub_columns;
    for (std::size_t c = first; c < first + shape.sub_columns; ++c) {
      out[c] = static_cast<float>(shape.QOf(fields.code[c])) * scale.d + scale.m;
    }
  }
}

}  // namespace ashlar::kernels
