#include "base/dtype.h"

#include <array>

#include "base/check.h"

namespace ashlar {
namespace {

// Block sizes follow from each format's layout (algorithms in kernels/dequantize.h): e.g. Q4_1 is
// an f16 scale, an f16 minimum and 32 nibbles = 2 + 2 + 16 bytes.
constexpr std::array<DTypeInfo, 15> kInfos = {{
    {DType::kF32, "F32", 1, 4},
    {DType::kF16, "F16", 1, 2},
    {DType::kBF16, "BF16", 1, 2},
    {DType::kQ4_0, "Q4_0", 32, 18},
    {DType::kQ4_1, "Q4_1", 32, 20},
    {DType::kQ5_0, "Q5_0", 32, 22},
    {DType::kQ5_1, "Q5_1", 32, 24},
    {DType::kQ8_0, "Q8_0", 32, 34},
    {DType::kQ4_K, "Q4_K", 256, 144},
    {DType::kQ5_K, "Q5_K", 256, 176},
    {DType::kQ6_K, "Q6_K", 256, 210},
    {DType::kQ2_K, "Q2_K", 256, 84},
    {DType::kQ3_K, "Q3_K", 256, 110},
    {DType::kIQ4_NL, "IQ4_NL", 32, 18},
    {DType::kMXFP4, "MXFP4", 32, 17},
}};

}  // namespace

std::span<const DTypeInfo> AllDTypes() { return kInfos; }

const DTypeInfo& InfoOf(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  ASHLAR_CHECK(index < kInfos.size() && kInfos[index].dtype == dtype, "DType {}", index);
  return kInfos[index];
}

std::optional<std::uint64_t> RowBytes(DType dtype, std::uint64_t elements) {
  const DTypeInfo& info = InfoOf(dtype);
  if (elements % info.block_elements != 0) return std::nullopt;
  return elements / info.block_elements * info.block_bytes;
}

}  // namespace ashlar
