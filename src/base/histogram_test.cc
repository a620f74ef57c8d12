#include "base/histogram.h"

#include <gtest/gtest.h>

#include <vector>

namespace ashlar {
namespace {

TEST(Histogram, AValueOnABoundIsBelowIt) {
  Histogram histogram(std::vector<double>{1, 2, 4});
  for (const double value : {0.0, 1.0, 1.5, 2.0, 2.5, 4.0, 4.001, 100.0}) histogram.Observe(value);
  EXPECT_EQ(std::vector<std::uint64_t>(histogram.counts().begin(), histogram.counts().end()),
            (std::vector<std::uint64_t>{2, 2, 2, 2}));
  EXPECT_EQ(histogram.count(), 8u);
  EXPECT_DOUBLE_EQ(histogram.sum(), 115.001);
  histogram.Observe(2, 3);
  EXPECT_EQ(histogram.counts()[1], 5u);
  EXPECT_EQ(histogram.count(), 11u);
  EXPECT_DOUBLE_EQ(histogram.sum(), 121.001);
}

TEST(Histogram, HasRoomForTheMostBounds) {
  std::vector<double> bounds;
  bounds.reserve(Histogram::kMaxBounds);
  for (std::size_t i = 0; i < Histogram::kMaxBounds; ++i) bounds.push_back(static_cast<double>(i));
  Histogram histogram(bounds);
  histogram.Observe(1000);
  EXPECT_EQ(histogram.counts().back(), 1u);
  EXPECT_EQ(histogram.bounds().size(), Histogram::kMaxBounds);
}

}  // namespace
}  // namespace ashlar
