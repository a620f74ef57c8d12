// The limit loops of each instruction set this build contains.
#pragma once

#include <vector>

#include "kernels/limits.h"

namespace ashlar::kernels {

// Slowest first, whether or not this processor can run them. Asking for a table runs baseline code
// only.
std::vector<const LimitLoops* (*)()> BuiltLimitLoops();

}  // namespace ashlar::kernels
