#include "kernels/block_format.h"

#include "base/half.h"
#include "kernels/block_reader.h"

namespace ashlar::kernels {

void ReadBlock(DType dtype, const std::byte* block, BlockFields* fields) {
  ForQuantisedType(dtype, [&]<DType Type>() { ReadBlockOf<Type>(block, fields); });
}

SubScale SubScaleOf(const BlockShape& shape, const BlockFields& fields, std::size_t sub) {
  float d = shape.has_bf16_scale ? Bf16ToF32(fields.d) : F16ToF32(fields.d);
  if (shape.has_sub_scales) d *= static_cast<float>(fields.scales[sub]);
  if (!shape.has_minimum) return {d, -(static_cast<float>(shape.offset) * d)};
  const float m = F16ToF32(fields.m);
  if (!shape.has_sub_scales) return {d, m};
  return {d, -(m * static_cast<float>(fields.minimums[sub]))};
}

}  // namespace ashlar::kernels
