// The table of each instruction set this build contains.
#pragma once

#include <vector>

#include "kernels/kernel_set.h"

namespace ashlar::kernels {

// Slowest first, whether or not this processor can run them: ask RunnableIsas() before calling one.
std::vector<const KernelSet*> BuiltSimdTables();

}  // namespace ashlar::kernels
