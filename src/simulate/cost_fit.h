// From steps that were timed to a CostModel: least squares of the relative error, no coefficient
// below 0 (coordinate descent on the normal equations).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "simulate/cost_model.h"

namespace ashlar::simulate {

struct CostSample {
  StepWork work;
  double ns = 0;
};

struct CostFit {
  CostModel::Measured cost;
  std::uint64_t samples = 0;
  // Shares of the measured time, over samples.
  double mean_error = 0;
  double p90_error = 0;
  double worst_error = 0;
};

// `knots`: numbers of tokens at which the matrices' time is fitted, ascending; samples should have
// each. step_ns and kv_byte_ns stay 0: they cannot be told from the first row and from pairs.
// Precondition: samples, knots; every time above 0.
CostFit FitCost(std::span<const CostSample> samples, std::span<const double> knots);

}  // namespace ashlar::simulate
