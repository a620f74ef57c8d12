// Rotary position embedding: the angles of each position (Su et al. 2021, arXiv:2104.09864), with
// the stretched forms of RopeScaling and divisors per frequency (Llama 3, and the two sets of
// LongRoPE, arXiv:2402.13753).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/config.h"

namespace ashlar::model {

class Rope {
 public:
  // `dims` channels rotate. `divisors`: [dims / 2], or empty.
  Rope(const RopeSpec& spec, std::uint32_t dims, std::span<const float> divisors);

  std::size_t pairs() const { return frequencies_.size(); }

  // cosine, sine: [pairs()] f32 for one position. Angles are computed in f64.
  void Angles(std::uint64_t position, float* cosine, float* sine) const;

 private:
  std::vector<double> frequencies_;  // radians per position
  double magnitude_;
};

}  // namespace ashlar::model
