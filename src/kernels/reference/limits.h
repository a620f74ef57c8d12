#pragma once

#include "kernels/limits.h"

namespace ashlar::kernels::reference {

const LimitLoops& Limits();

}  // namespace ashlar::kernels::reference
