// The fixed reduction tree of kernel_set.h.
#pragma once

#include <cstddef>

namespace ashlar::kernels::reference {

float Sum16(const float* v, std::size_t n);

// The tree alone; overwrites the 16 lanes.
template <typename T>
T Fold16(T* lanes) {
  for (std::size_t half = 8; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

}  // namespace ashlar::kernels::reference
