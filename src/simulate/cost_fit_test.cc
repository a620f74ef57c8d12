#include "simulate/cost_fit.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"

namespace ashlar::simulate {
namespace {

constexpr double kKnots[] = {1, 16, 256};

std::vector<CostSample> Samples(const CostModel& model, double noise) {
  std::vector<CostSample> samples;
  for (std::uint64_t i = 0; i < 400; ++i) {
    const bool is_decode = RandomBits(1, 0, i) % 2 == 0;
    StepWork work = {.tokens = 1 + RandomBits(1, 1, i) % 256};
    const auto tokens = static_cast<double>(work.tokens);
    const double depth = 1000 * RandomUnit(1, 2, i);
    work.sequences = is_decode ? work.tokens : 1 + RandomBits(1, 3, i) % 2;
    (is_decode ? work.decode_pairs : work.prefill_pairs) = tokens * depth;
    const double factor = 1 + noise * (2 * RandomUnit(1, 4, i) - 1);
    samples.push_back({work, static_cast<double>(model.StepNs(work)) * factor});
  }
  return samples;
}

TEST(CostFit, FindsWhatMadeTheTimes) {
  const CostModel::Measured truth = {.rows_ns = {{1, 5e6}, {16, 6e6}, {256, 90e6}},
                                     .prefill_pair_ns = 40,
                                     .decode_pair_ns = 90,
                                     .sequence_ns = 20'000};
  const CostFit fit = FitCost(Samples(CostModel::Of(truth), 0), kKnots);
  EXPECT_EQ(fit.samples, 400U);
  EXPECT_LT(fit.worst_error, 1e-3);
  ASSERT_EQ(fit.cost.rows_ns.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(fit.cost.rows_ns[i].tokens, kKnots[i]);
    EXPECT_NEAR(fit.cost.rows_ns[i].ns, truth.rows_ns[i].ns, truth.rows_ns[i].ns * 0.02);
  }
  EXPECT_NEAR(fit.cost.prefill_pair_ns, 40, 0.5);
  EXPECT_NEAR(fit.cost.decode_pair_ns, 90, 1);
}

TEST(CostFit, NoiseIsTakenForNoise) {
  const CostModel::Measured truth = {
      .rows_ns = {{1, 5e6}, {16, 6e6}, {256, 90e6}}, .prefill_pair_ns = 40, .decode_pair_ns = 90};
  const CostFit fit = FitCost(Samples(CostModel::Of(truth), 0.1), kKnots);
  EXPECT_NEAR(fit.mean_error, 0.05, 0.01);
  EXPECT_LT(fit.worst_error, 0.13);
  EXPECT_GE(fit.worst_error, fit.p90_error);
  EXPECT_GE(fit.p90_error, fit.mean_error);
}

TEST(CostFit, NothingIsBelowZero) {
  // More sequences take less time: no sequence_ns says so.
  std::vector<CostSample> samples;
  for (std::uint64_t sequences = 1; sequences <= 8; ++sequences) {
    samples.push_back({{.tokens = 16, .sequences = sequences}, 1e6 - 1e4 * double(sequences)});
  }
  const CostFit fit = FitCost(samples, kKnots);
  EXPECT_EQ(fit.cost.sequence_ns, 0);
  EXPECT_LT(fit.worst_error, 0.05);
}

}  // namespace
}  // namespace ashlar::simulate
