// The limit loops of each instruction set this build contains.
#pragma once

#include <vector>

#include "kernels/limits.h"

namespace ashlar::kernels {

// Slowest first, whether or not this processor can run them: ask RunnableIsas() before calling one.
std::vector<const LimitLoops*> BuiltLimitLoops();

}  // namespace ashlar::kernels
