// What steps last, learned from those that were run: least squares over (1, tokens, pairs) with old
// steps fading away, and no coefficient below 0. A single step that lasts far longer than expected
// (it waited for the processor) is left out. O(1) a step, no allocation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "sched/step_cost.h"

namespace ashlar::engine {

class StepCostEstimator {
 public:
  // A step of so many tokens and query-key pairs lasted so long.
  void Observe(std::uint64_t tokens, std::uint64_t pairs, std::int64_t duration_ns);

  // All 0 before the first step.
  const sched::StepCost& cost() const { return cost_; }

 private:
  static constexpr std::size_t kTerms = 3;

  void Rescale(std::size_t term, double unit);
  void Solve();

  // Sums over steps, each term in units of its largest value seen so far.
  std::array<std::array<double, kTerms>, kTerms> squares_ = {};
  std::array<double, kTerms> products_ = {};
  std::array<double, kTerms> units_ = {1, 0, 0};
  std::array<double, kTerms> solution_ = {};
  bool was_left_out_ = false;  // the last step
  sched::StepCost cost_;
};

}  // namespace ashlar::engine
