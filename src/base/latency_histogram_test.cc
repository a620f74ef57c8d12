#include "base/latency_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/rng.h"

namespace ashlar {
namespace {

// The nearest rank of a sorted list.
std::int64_t Naive(const std::vector<std::int64_t>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

TEST(LatencyHistogram, PercentilesAreThoseOfASortedListWithinABucket) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    LatencyHistogram histogram;
    std::vector<std::int64_t> values;
    const std::uint64_t count = 1 + RandomBits(seed, 1, 0) % 3000;
    const int octaves = 1 + static_cast<int>(RandomBits(seed, 2, 0) % 40);
    double sum = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      values.push_back(static_cast<std::int64_t>(std::exp2(octaves * RandomUnit(seed, 0, i))));
      histogram.Add(values.back());
      sum += static_cast<double>(values.back());
    }
    std::ranges::sort(values);
    for (const double share : {0.0, 0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0}) {
      const auto want = static_cast<double>(Naive(values, share));
      EXPECT_NEAR(static_cast<double>(histogram.PercentileNs(share)), want, want / 256)
          << "seed " << seed << " share " << share;
    }
    EXPECT_EQ(histogram.count(), count);
    EXPECT_EQ(histogram.max_ns(), values.back());
    EXPECT_DOUBLE_EQ(histogram.mean_ns(), sum / static_cast<double>(count));
  }
}

TEST(LatencyHistogram, SmallTimesAreExact) {
  LatencyHistogram histogram;
  for (std::int64_t ns = 0; ns < 256; ++ns) histogram.Add(ns);
  for (std::int64_t ns = 0; ns < 256; ++ns) {
    EXPECT_EQ(histogram.PercentileNs(static_cast<double>(ns + 1) / 256), ns);
  }
}

TEST(LatencyHistogram, TheEdgesOfTimeHaveBuckets) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.PercentileNs(0.5), 0);
  EXPECT_EQ(histogram.mean_ns(), 0);
  constexpr std::int64_t kLongest = std::numeric_limits<std::int64_t>::max();
  histogram.Add(-5);
  histogram.Add(kLongest);
  EXPECT_EQ(histogram.PercentileNs(0.5), 0);
  EXPECT_GE(histogram.PercentileNs(1.0), kLongest - kLongest / 256);
  EXPECT_EQ(histogram.max_ns(), kLongest);
}

TEST(LatencyHistogram, OneTimeIsAllPercentiles) {
  LatencyHistogram histogram;
  histogram.Add(123'456'789);
  for (const double share : {0.0, 0.5, 1.0}) EXPECT_EQ(histogram.PercentileNs(share), 123'456'789);
}

TEST(LatencyHistogram, TheDistributionRisesToOne) {
  LatencyHistogram histogram;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    histogram.Add(static_cast<std::int64_t>(RandomBits(3, 0, i) % 1'000'000'000));
  }
  const auto steps = histogram.Distribution();
  for (std::size_t i = 1; i < steps.size(); ++i) {
    EXPECT_LT(steps[i - 1].ns, steps[i].ns);
    EXPECT_LT(steps[i - 1].share, steps[i].share);
  }
  EXPECT_DOUBLE_EQ(steps.back().share, 1);
}

}  // namespace
}  // namespace ashlar
