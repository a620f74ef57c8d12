// Which experts a token uses, and how much each one counts.
#pragma once

#include <cstdint>
#include <span>

#include "model/config.h"

namespace ashlar::model {

struct ExpertChoice {
  std::uint32_t expert = 0;
  float weight = 0;
};

// Fills `choices` [config.used], the best first, equal ones by lower number. `scores`
// [config.count] are the router's logits; they are overwritten. `bias` [config.count] is added to
// choose by, not to weigh by; null: none. A function of this token's logits alone.
void ChooseExperts(const ExpertsConfig& config, std::span<float> scores, const float* bias,
                   std::span<ExpertChoice> choices);

}  // namespace ashlar::model
