#include "gguf/format.h"

#include <array>

#include "base/check.h"

namespace ashlar::gguf {
namespace {

// Indexed by the type's number. Q4_2, Q4_3 and the _4_4, _4_8, _8_8 formats were used for a while
// and then withdrawn; old files still carry them.
constexpr std::array<std::string_view, 43> kTensorTypeNames = {
    "F32",   "F16",        "Q4_0",       "Q4_1",       "Q4_2",     "Q4_3",     "Q5_0",
    "Q5_1",  "Q8_0",       "Q8_1",       "Q2_K",       "Q3_K",     "Q4_K",     "Q5_K",
    "Q6_K",  "Q8_K",       "IQ2_XXS",    "IQ2_XS",     "IQ3_XXS",  "IQ1_S",    "IQ4_NL",
    "IQ3_S", "IQ2_S",      "IQ4_XS",     "I8",         "I16",      "I32",      "I64",
    "F64",   "IQ1_M",      "BF16",       "Q4_0_4_4",   "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",
    "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4",    "NVFP4",    "Q1_0",
    "Q2_0",
};

}  // namespace

std::size_t SizeOf(ValueType type) {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kI8:
    case ValueType::kBool:
      return 1;
    case ValueType::kU16:
    case ValueType::kI16:
      return 2;
    case ValueType::kU32:
    case ValueType::kI32:
    case ValueType::kF32:
      return 4;
    case ValueType::kU64:
    case ValueType::kI64:
    case ValueType::kF64:
      return 8;
    case ValueType::kString:
    case ValueType::kArray:
      return 0;
  }
  ASHLAR_CHECK(false, "ValueType {}", static_cast<std::uint32_t>(type));
}

std::uint32_t TensorTypeCode(DType dtype) {
  const std::string_view name = NameOf(dtype);
  for (std::uint32_t code = 0; code < kTensorTypeNames.size(); ++code) {
    if (kTensorTypeNames[code] == name) return code;
  }
  ASHLAR_CHECK(false, "{} is no tensor type of GGML", name);
}

std::optional<DType> DTypeOfCode(std::uint32_t code) {
  const std::string_view name = TensorTypeName(code);
  for (const DTypeInfo& info : AllDTypes()) {
    if (info.name == name) return info.dtype;
  }
  return std::nullopt;
}

std::string_view TensorTypeName(std::uint32_t code) {
  return code < kTensorTypeNames.size() ? kTensorTypeNames[code] : std::string_view();
}

}  // namespace ashlar::gguf
