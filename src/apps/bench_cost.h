// What steps of the engine last on this machine, as a cost that `ashlar simulate` reads.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/engine.h"
#include "simulate/cost_fit.h"

namespace ashlar::apps {

struct CostBenchOptions {
  std::uint64_t depth = 1024;  // tokens, of the longest prompts
  int rounds = 3;              // of which the median counts
};

// Runs prompts of many lengths and batches of many sizes at several depths, and times each step.
// The engine must have nothing to do, and measure nothing from its cache: Reuse::kOff. Errors:
// kInvalidArgument when its memory or context is too small for the batches.
Result<std::vector<simulate::CostSample>> MeasureSteps(engine::Engine& engine,
                                                       const sched::SchedulerLimits& limits,
                                                       const CostBenchOptions& options);

// Numbers of tokens in a step at which MeasureSteps has samples: 1, 2, 4, ... to the step's limit.
std::vector<double> CostKnots(const sched::SchedulerLimits& limits);

}  // namespace ashlar::apps
