#include "eval/divergence.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"

namespace ashlar::eval {
namespace {

std::vector<float> RandomLogits(std::size_t count, std::uint64_t seed) {
  std::vector<float> logits(count);
  for (std::size_t i = 0; i < count; ++i) {
    logits[i] = static_cast<float>(20 * RandomUnit(seed, 0, i) - 10);
  }
  return logits;
}

TEST(Divergence, EqualLogitsAreAtDistanceZeroExactly) {
  const std::vector<float> logits = RandomLogits(1001, 1);
  const TokenScore score = Compare(logits, logits, 7);
  EXPECT_EQ(score.kl_nats, 0.0);
  EXPECT_EQ(score.nll_nats, score.reference_nll_nats);
  EXPECT_TRUE(score.has_same_top);
}

// (1/2, 1/2) against (1/4, 3/4): KL = 1/2 log 2 + 1/2 log 2/3 one way, other the other way.
TEST(Divergence, AgreesWithTheClosedFormAndHasADirection) {
  const std::array<float, 2> even = {0.0f, 0.0f};
  const std::array<float, 2> odd = {0.0f, std::log(3.0f)};
  EXPECT_NEAR(Compare(even, odd, 0).kl_nats, 0.5 * std::log(2.0) + 0.5 * std::log(2.0 / 3.0), 1e-8);
  EXPECT_NEAR(Compare(odd, even, 0).kl_nats, 0.25 * std::log(0.5) + 0.75 * std::log(1.5), 1e-8);
}

TEST(Divergence, LikelihoodsAreThoseOfTheNextToken) {
  const std::array<float, 2> even = {5.0f, 5.0f};
  const std::array<float, 2> odd = {1.0f, 1.0f + std::log(3.0f)};
  EXPECT_NEAR(Compare(even, odd, 0).reference_nll_nats, std::log(2.0), 1e-12);
  EXPECT_NEAR(Compare(even, odd, 0).nll_nats, std::log(4.0), 1e-7);
  EXPECT_NEAR(Compare(even, odd, 1).nll_nats, std::log(4.0 / 3.0), 1e-7);
}

// One logit of n equal ones moved by d: KL = log(1 + (e^d - 1) / n) - d / n.
TEST(Divergence, AgreesWithTheClosedFormOverAWholeVocabulary) {
  constexpr std::size_t kCount = 49'152;
  constexpr double kMove = 0.25;
  std::vector<float> moved(kCount, 0.0f);
  const std::vector<float> flat = moved;
  moved[17] = static_cast<float>(kMove);
  const double expected = std::log1p(std::expm1(kMove) / kCount) - kMove / kCount;
  EXPECT_NEAR(Compare(flat, moved, 0).kl_nats, expected, 1e-11);  // expected: 7e-7
}

TEST(Divergence, AddingAConstantToAllLogitsChangesNothing) {
  const std::vector<float> logits = RandomLogits(100, 2);
  std::vector<float> halves = logits;  // exact in f32, moved or not
  for (float& logit : halves) logit = std::round(logit * 2) / 2;
  std::vector<float> moved = halves;
  for (float& logit : moved) logit += 64;
  const TokenScore score = Compare(halves, moved, 3);
  EXPECT_EQ(score.kl_nats, 0.0);
  EXPECT_EQ(score.nll_nats, score.reference_nll_nats);
}

TEST(Divergence, IsNeverNegativeAndGrowsWithTheNoise) {
  const std::vector<float> logits = RandomLogits(500, 3);
  double last = 0;
  for (const float size : {1e-6f, 1e-4f, 1e-2f, 1.0f}) {
    std::vector<float> noisy = logits;
    for (std::size_t i = 0; i < noisy.size(); ++i) {
      noisy[i] += size * static_cast<float>(RandomUnit(4, 0, i) - 0.5);
    }
    const double kl = Compare(logits, noisy, 0).kl_nats;
    EXPECT_GE(kl, last);
    last = kl;
  }
  EXPECT_GT(last, 0.01);
}

TEST(Divergence, TopTokensAreComparedWithTiesToTheLowestId) {
  const std::array<float, 3> tied = {1.0f, 1.0f, 0.0f};
  const std::array<float, 3> first = {2.0f, 1.0f, 0.0f};
  const std::array<float, 3> second = {1.0f, 2.0f, 0.0f};
  EXPECT_TRUE(Compare(tied, first, 0).has_same_top);
  EXPECT_FALSE(Compare(tied, second, 0).has_same_top);
}

TEST(Divergence, LogitsThatAreNoNumbersAreSeen) {
  const std::vector<float> logits = RandomLogits(20, 5);
  EXPECT_TRUE(Compare(logits, logits, 0).IsFinite());
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (const std::size_t at : {0, 9, 19}) {
      std::vector<float> broken = logits;
      broken[at] = bad;
      EXPECT_FALSE(Compare(logits, broken, 0).IsFinite()) << bad << " at " << at;
      EXPECT_FALSE(Compare(broken, logits, 0).IsFinite()) << bad << " at " << at;
    }
  }
}

}  // namespace
}  // namespace ashlar::eval
