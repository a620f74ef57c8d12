#include "engine/step_cost_estimator.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace ashlar::engine {
namespace {

class Machine {
 public:
  explicit Machine(const sched::StepCost& cost) : cost_(cost) {}

  // A step, up to a tenth longer or shorter than it should be.
  void Run(StepCostEstimator& estimator, std::uint64_t tokens, std::uint64_t context) {
    const std::uint64_t pairs = tokens * context;
    const double noise = 0.9 + 0.2 * RandomUnit(1, 2, steps_++);
    estimator.Observe(tokens, pairs,
                      static_cast<std::int64_t>(noise * cost_.PredictNs(tokens, pairs)));
  }
  double RatioFor(const StepCostEstimator& estimator, std::uint64_t tokens,
                  std::uint64_t context) const {
    return estimator.cost().PredictNs(tokens, tokens * context) /
           cost_.PredictNs(tokens, tokens * context);
  }

 private:
  sched::StepCost cost_;
  std::uint64_t steps_ = 0;
};

constexpr sched::StepCost kCost = {
    .fixed_ns = 4e6, .per_token_ns = 2.5e6, .per_context_token_ns = 800};

TEST(StepCostEstimator, KnowsNothingAtFirst) {
  EXPECT_EQ(StepCostEstimator().cost(), sched::StepCost{});
}

TEST(StepCostEstimator, LearnsFromMixedSteps) {
  StepCostEstimator estimator;
  Machine machine(kCost);
  for (std::uint64_t i = 0; i < 100; ++i) {
    machine.Run(estimator, 1 + RandomBits(3, 4, i) % 300, 100 + RandomBits(3, 5, i) % 4000);
  }
  for (const std::uint64_t tokens : {1u, 8u, 64u, 256u}) {
    EXPECT_NEAR(machine.RatioFor(estimator, tokens, 1000), 1, 0.15) << tokens;
  }
}

// Decodes alone for a long time say nothing about prefills; what was known of those stays.
TEST(StepCostEstimator, RemembersPrefillsThroughALongDecode) {
  StepCostEstimator estimator;
  Machine machine(kCost);
  for (std::uint64_t i = 0; i < 4; ++i) machine.Run(estimator, 256, 256 * i);
  for (std::uint64_t i = 0; i < 2000; ++i) machine.Run(estimator, 1, 1024 + i);
  EXPECT_NEAR(machine.RatioFor(estimator, 1, 3000), 1, 0.15);
  EXPECT_NEAR(machine.RatioFor(estimator, 128, 512), 1, 0.3);
}

TEST(StepCostEstimator, FollowsAMachineThatBecomesSlowerAndForgetsAStall) {
  StepCostEstimator estimator;
  Machine machine(kCost);
  for (std::uint64_t i = 0; i < 60; ++i) machine.Run(estimator, 1 + i % 100, 500);
  estimator.Observe(10, 5000, 60'000'000'000);  // a minute
  EXPECT_LT(machine.RatioFor(estimator, 50, 500), 1.3);
  Machine slower({.fixed_ns = 8e6, .per_token_ns = 5e6, .per_context_token_ns = 1600});
  for (std::uint64_t i = 0; i < 300; ++i) slower.Run(estimator, 1 + i % 100, 500);
  EXPECT_NEAR(slower.RatioFor(estimator, 50, 500), 1, 0.15);
}

TEST(StepCostEstimator, NoCoefficientIsNegative) {
  StepCostEstimator estimator;
  for (std::uint64_t i = 0; i < 200; ++i) {
    estimator.Observe(1 + RandomBits(1, 1, i) % 64, RandomBits(1, 2, i) % 10'000,
                      static_cast<std::int64_t>(RandomBits(1, 3, i) % 1'000'000));
    EXPECT_GE(estimator.cost().fixed_ns, 0);
    EXPECT_GE(estimator.cost().per_token_ns, 0);
    EXPECT_GE(estimator.cost().per_context_token_ns, 0);
  }
}

}  // namespace
}  // namespace ashlar::engine
