// Where the weights that a forward pass multiplies with lie.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace ashlar::model {

enum class WeightAccess : std::uint8_t {
  kCopy,  // packed at load into memory of our own, on huge pages: fast
  kMmap,  // in the mapped file, and packed a few rows at a time whenever they are used: nothing is
          // read before it is needed, pages are shared and may be given up, products take longer
};

// "copy", "mmap".
std::string_view NameOf(WeightAccess access);
// Error: kInvalidArgument naming both.
Result<WeightAccess> ParseWeightAccess(std::string_view name);

}  // namespace ashlar::model
