// A linear layer y = W x + bias.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/packed_matrix.h"

namespace ashlar::model {

struct Linear {
  kernels::PackedMatrix w;
  const float* bias = nullptr;  // null when there is none
  // [w.k], a permutation: column c of w multiplies x[order[c]]. Empty: x[c].
  std::span<const std::uint32_t> order;
};

}  // namespace ashlar::model
