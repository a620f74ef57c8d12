#include "engine/step_cost_estimator.h"

#include <algorithm>

namespace ashlar::engine {
namespace {

constexpr double kFade = 0.98;  // weight of a step beside the one after it: some 50 count
constexpr int kSweeps = 16;     // of coordinate descent; it goes on from the last solution
constexpr double kFar = 4;      // times what was expected

}  // namespace

void StepCostEstimator::Observe(std::uint64_t tokens, std::uint64_t pairs,
                                std::int64_t duration_ns) {
  const auto duration = static_cast<double>(duration_ns);
  const bool is_known = cost_ != sched::StepCost{};
  was_left_out_ = is_known && !was_left_out_ && duration > kFar * cost_.PredictNs(tokens, pairs);
  if (was_left_out_) return;
  std::array<double, kTerms> terms = {1, static_cast<double>(tokens), static_cast<double>(pairs)};
  for (std::size_t i = 0; i < kTerms; ++i) {
    if (terms[i] > units_[i]) Rescale(i, terms[i]);
    if (units_[i] > 0) terms[i] /= units_[i];
  }
  for (std::size_t i = 0; i < kTerms; ++i) {
    for (std::size_t j = 0; j < kTerms; ++j) {
      squares_[i][j] = kFade * squares_[i][j] + terms[i] * terms[j];
    }
    products_[i] = kFade * products_[i] + terms[i] * duration;
  }
  Solve();
}

void StepCostEstimator::Rescale(std::size_t term, double unit) {
  const double ratio = units_[term] / unit;
  for (std::size_t j = 0; j < kTerms; ++j) {
    squares_[term][j] *= ratio;
    squares_[j][term] *= ratio;
  }
  products_[term] *= ratio;
  if (ratio > 0) solution_[term] /= ratio;
  units_[term] = unit;
}

// Starting from the last solution matters: where the last steps were all alike they leave a
// direction open, and in that nothing moves.
void StepCostEstimator::Solve() {
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (std::size_t i = 0; i < kTerms; ++i) {
      if (squares_[i][i] <= 0) continue;
      double rest = products_[i];
      for (std::size_t j = 0; j < kTerms; ++j) rest -= j == i ? 0 : squares_[i][j] * solution_[j];
      solution_[i] = std::max(0.0, rest / squares_[i][i]);
    }
  }
  cost_ = {.fixed_ns = solution_[0] / units_[0],
           .per_token_ns = units_[1] > 0 ? solution_[1] / units_[1] : 0,
           .per_context_token_ns = units_[2] > 0 ? solution_[2] / units_[2] : 0};
}

}  // namespace ashlar::engine
