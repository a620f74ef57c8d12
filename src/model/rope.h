// Rotary position embedding: the angles of each position (Su et al. 2021, arXiv:2104.09864), with
// the stretched forms of ModelConfig::rope_scaling and the per-frequency divisors of Llama 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/config.h"

namespace ashlar::model {

class Rope {
 public:
  // `divisors`: [rope_dims / 2] of the tensor rope_freqs.weight (Llama 3), or empty.
  Rope(const ModelConfig& config, std::span<const float> divisors);

  std::size_t pairs() const { return frequencies_.size(); }

  // cosine, sine: [pairs()] f32 for one position. Angles are computed in f64.
  void Angles(std::uint64_t position, float* cosine, float* sine) const;

 private:
  std::vector<double> frequencies_;  // radians per position
  double magnitude_ = 1.0;           // YaRN's attention factor, on both cosine and sine
};

}  // namespace ashlar::model
