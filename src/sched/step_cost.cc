#include "sched/step_cost.h"

namespace ashlar::sched {

std::uint32_t StepCost::TokensWithin(double budget_ns, std::uint64_t position,
                                     std::uint32_t limit) const {
  const auto fits = [&](std::uint32_t tokens) {
    return PredictNs(tokens, AttendedPairs(position, tokens)) - fixed_ns <= budget_ns;
  };
  if (fits(limit)) return limit;
  std::uint32_t most = 0;
  for (std::uint32_t above = limit; above - most > 1;) {
    const std::uint32_t middle = most + (above - most) / 2;
    (fits(middle) ? most : above) = middle;
  }
  return most;
}

}  // namespace ashlar::sched
