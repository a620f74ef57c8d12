#include "model/expert_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace ashlar::model {
namespace {

using Gating = ExpertsConfig::Gating;

std::vector<ExpertChoice> Choose(const ExpertsConfig& config, std::vector<float> logits,
                                 const float* bias = nullptr) {
  std::vector<ExpertChoice> choices(config.used);
  ChooseExperts(config, logits, bias, choices);
  return choices;
}

std::vector<std::uint32_t> Numbers(const std::vector<ExpertChoice>& choices) {
  std::vector<std::uint32_t> numbers;
  numbers.reserve(choices.size());
  for (const ExpertChoice& choice : choices) numbers.push_back(choice.expert);
  return numbers;
}

TEST(ChooseExperts, TheBestComeFirstAndEqualOnesByNumber) {
  const ExpertsConfig config{.count = 6, .used = 4};
  EXPECT_EQ(Numbers(Choose(config, {0, 2, 1, 2, -1, 3})), (std::vector<std::uint32_t>{5, 1, 3, 2}));
}

TEST(ChooseExperts, AgreesWithSortingOnRandomLogits) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 200; ++round) {
    const ExpertsConfig config{.count = 1 + static_cast<std::uint32_t>(random() % 40), .used = 1};
    ExpertsConfig several = config;
    several.used = 1 + static_cast<std::uint32_t>(random() % config.count);
    std::vector<float> logits(config.count);
    for (float& logit : logits) logit = normal(random);
    std::vector<std::uint32_t> sorted(config.count);
    std::iota(sorted.begin(), sorted.end(), 0u);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](auto a, auto b) { return logits[a] > logits[b]; });
    sorted.resize(several.used);
    EXPECT_EQ(Numbers(Choose(several, logits)), sorted);
  }
}

TEST(ChooseExperts, WeightsFollowTheGating) {
  ExpertsConfig config{.count = 3, .used = 2};
  const std::vector<float> logits = {1.0f, 3.0f, 2.0f};
  const double all = std::exp(1.0) + std::exp(2.0) + std::exp(3.0);
  EXPECT_NEAR(Choose(config, logits)[0].weight, std::exp(3.0) / all, 1e-6);
  EXPECT_NEAR(Choose(config, logits)[1].weight, std::exp(2.0) / all, 1e-6);
  config.is_normalised = true;
  const double two = std::exp(2.0) + std::exp(3.0);
  EXPECT_NEAR(Choose(config, logits)[1].weight, std::exp(2.0) / two, 1e-6);
  config.is_normalised = false;
  config.gating = Gating::kSoftmaxOfUsed;
  EXPECT_NEAR(Choose(config, logits)[0].weight, std::exp(3.0) / two, 1e-6);
  config.gating = Gating::kSigmoid;
  config.scale = 2.5f;
  EXPECT_NEAR(Choose(config, logits)[0].weight, 2.5 / (1.0 + std::exp(-3.0)), 1e-6);
}

TEST(ChooseExperts, ABiasChoosesButDoesNotWeigh) {
  const ExpertsConfig config{.count = 3, .used = 1, .gating = Gating::kSigmoid};
  const std::vector<float> bias = {0.9f, 0.0f, 0.0f};
  const auto choices = Choose(config, {0.0f, 1.0f, 0.5f}, bias.data());
  EXPECT_EQ(choices[0].expert, 0u);
  EXPECT_NEAR(choices[0].weight, 0.5, 1e-6);
}

TEST(ChooseExperts, OnlyTheBestGroupsAreChosenFrom) {
  // Groups {0, 1}, {2, 3}, {4, 5}: the best single expert is in the group of the smallest sum.
  const ExpertsConfig config{
      .count = 6, .used = 3, .gating = Gating::kSigmoid, .groups = 3, .used_groups = 2};
  EXPECT_EQ(Numbers(Choose(config, {3.0f, -9.0f, 1.0f, 1.1f, 0.9f, 1.2f})),
            (std::vector<std::uint32_t>{5, 3, 2}));
}

TEST(ChooseExperts, ScoresThatAreNotNumbersStillChooseExpertsThatExist) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::uint32_t groups : {1u, 2u}) {
    const ExpertsConfig config{
        .count = 4, .used = 2, .gating = Gating::kSigmoid, .groups = groups, .used_groups = 1};
    for (const ExpertChoice& choice : Choose(config, {nan, 1.0f, nan, nan})) {
      EXPECT_LT(choice.expert, 4u);
    }
  }
}

}  // namespace
}  // namespace ashlar::model
