// In what precision activations meet quantised weights
// (docs/decisions/0012-activations-of-8-bits.md).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace ashlar::model {

enum class Activations : std::uint8_t {
  kF32,   // as they are: exact products with the dequantised weights
  kInt8,  // as codes of 8 bits (kernels/activations.h) where the weights are quantised
};

// "f32", "int8".
std::string_view NameOf(Activations activations);
// Error: kInvalidArgument naming both.
Result<Activations> ParseActivations(std::string_view name);

}  // namespace ashlar::model
