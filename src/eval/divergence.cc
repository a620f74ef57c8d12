#include "eval/divergence.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.h"

namespace ashlar::eval {

bool TokenScore::IsFinite() const {
  return std::isfinite(kl_nats) && std::isfinite(reference_nll_nats) && std::isfinite(nll_nats);
}

TokenScore Compare(std::span<const float> reference, std::span<const float> other, TokenId next) {
  ASHLAR_CHECK(!reference.empty() && reference.size() == other.size() && next >= 0 &&
                   static_cast<std::size_t>(next) < reference.size(),
               "rows of {} and {} logits, token {}", reference.size(), other.size(), next);
  std::size_t reference_top = 0;
  std::size_t other_top = 0;
  for (std::size_t i = 1; i < reference.size(); ++i) {
    if (reference[i] > reference[reference_top]) reference_top = i;
    if (other[i] > other[other_top]) other_top = i;
  }
  const double reference_max = static_cast<double>(reference[reference_top]);
  const double other_max = static_cast<double>(other[other_top]);
  double reference_sum = 0;
  double other_sum = 0;
  double weighted = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double r = static_cast<double>(reference[i]) - reference_max;
    const double o = static_cast<double>(other[i]) - other_max;
    const double weight = std::exp(r);
    reference_sum += weight;
    other_sum += std::exp(o);
    weighted += weight * (r - o);
  }
  const double reference_log = std::log(reference_sum);
  const double other_log = std::log(other_sum);
  const auto at = static_cast<std::size_t>(next);
  const double kl = weighted / reference_sum - (reference_log - other_log);
  return {
      // Rounding may leave a little less than the 0 that is the least. A NaN must stay one.
      .kl_nats = kl < 0 ? 0 : kl,
      .reference_nll_nats = reference_log - (static_cast<double>(reference[at]) - reference_max),
      .nll_nats = other_log - (static_cast<double>(other[at]) - other_max),
      .has_same_top = reference_top == other_top};
}

}  // namespace ashlar::eval
