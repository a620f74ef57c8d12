#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ashlar::model {
namespace {

// The angle of a pair, from its cosine and sine at position 1.
double Frequency(const Rope& rope, std::size_t pair) {
  std::vector<float> cosine(rope.pairs()), sine(rope.pairs());
  rope.Angles(1, cosine.data(), sine.data());
  return std::atan2(sine[pair], cosine[pair]);
}

TEST(Rope, FrequenciesFallGeometrically) {
  const Rope rope({}, 8, {});
  ASSERT_EQ(rope.pairs(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(Frequency(rope, i), std::pow(10.0, -static_cast<double>(i)), 1e-7);
  }
}

TEST(Rope, PositionZeroDoesNotRotateAndFarPositionsStayExact) {
  const Rope rope({}, 8, {});
  std::vector<float> cosine(4), sine(4);
  rope.Angles(0, cosine.data(), sine.data());
  EXPECT_EQ(cosine, std::vector<float>(4, 1.0f));
  EXPECT_EQ(sine, std::vector<float>(4, 0.0f));
  rope.Angles(131071, cosine.data(), sine.data());
  EXPECT_FLOAT_EQ(cosine[0], static_cast<float>(std::cos(131071.0)));
}

TEST(Rope, LinearScalingStretchesPositions) {
  const Rope rope({.base = 10000.0, .scaling = {.kind = RopeScaling::Kind::kLinear, .factor = 4.0}},
                  8, {});
  EXPECT_NEAR(Frequency(rope, 0), 0.25, 1e-7);
  EXPECT_NEAR(Frequency(rope, 1), 0.025, 1e-8);
}

TEST(Rope, DivisorsActPerFrequency) {
  const std::vector<float> divisors = {1.0f, 2.0f, 8.0f, 8.0f};
  const Rope rope({}, 8, divisors);
  EXPECT_NEAR(Frequency(rope, 0), 1.0, 1e-7);
  EXPECT_NEAR(Frequency(rope, 1), 0.05, 1e-8);
  EXPECT_NEAR(Frequency(rope, 2), 0.00125, 1e-9);
}

// YaRN's figures for d = 128, base 10000, 4096 trained tokens, betas 32 and 1: the ramp runs from
// pair floor(20.94) = 20 to ceil(45.03) = 46.
TEST(Rope, YarnKeepsFastPairsInterpolatesSlowOnesAndBlendsBetween) {
  const Rope rope({.base = 10000.0,
                   .scaling = {.kind = RopeScaling::Kind::kYarn,
                               .factor = 8.0,
                               .original_context = 4096,
                               .magnitude = 1.25}},
                  128, {});
  const auto plain = [](std::size_t i) {
    return std::pow(10000.0, -2.0 * static_cast<double>(i) / 128);
  };
  EXPECT_NEAR(Frequency(rope, 5) / plain(5), 1.0, 1e-5);
  EXPECT_NEAR(Frequency(rope, 20) / plain(20), 1.0, 1e-5);
  EXPECT_NEAR(Frequency(rope, 33) / plain(33), 0.5 + 0.5 / 8, 1e-5);  // half way up the ramp
  EXPECT_NEAR(Frequency(rope, 46) / plain(46), 1.0 / 8, 1e-5);
  EXPECT_NEAR(Frequency(rope, 60) / plain(60), 1.0 / 8, 1e-5);
  std::vector<float> cosine(64), sine(64);
  rope.Angles(0, cosine.data(), sine.data());
  EXPECT_FLOAT_EQ(cosine[0], 1.25f);
}

}  // namespace
}  // namespace ashlar::model
