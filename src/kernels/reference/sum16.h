// The fixed reduction tree of kernel_set.h.
#pragma once

#include <cstddef>

namespace ashlar::kernels::reference {

float Sum16(const float* v, std::size_t n);

// The tree alone; overwrites the 16 lanes.
float Fold16(float* lanes);

}  // namespace ashlar::kernels::reference
