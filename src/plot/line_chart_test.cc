#include "plot/line_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace ashlar::plot {
namespace {

using testing::HasSubstr;
using testing::Not;

const ChartText kText = {.title = "T", .x_name = "ms", .y_name = "share"};

// "x,y x,y ..." of the last line drawn.
std::string PlacesOf(const std::string& svg) {
  const std::size_t from = svg.rfind("points=\"") + 8;
  return svg.substr(from, svg.find('"', from) - from);
}

TEST(LineChart, ALogarithmicAxisPutsEqualRatiosAtEqualDistances) {
  const std::vector<Line> lines = {{.name = "a", .points = {{1, 0}, {10, 0.5}, {100, 1}}}};
  // From 84 to 836, and from 276 up to 64.
  EXPECT_EQ(PlacesOf(LineChart(lines, kText, {.x = Scale::kLogarithmic})),
            "84.0,276.0 460.0,170.0 836.0,64.0");
}

TEST(LineChart, ALinearAxisBeginsAtZero) {
  const std::vector<Line> lines = {{.name = "a", .points = {{5, 1}, {10, 2}}}};
  EXPECT_EQ(PlacesOf(LineChart(lines, kText, {})), "460.0,170.0 836.0,64.0");
}

TEST(LineChart, DoublingsAreAtEqualDistancesAndNamedInThousands) {
  const std::vector<Line> lines = {
      {.name = "a", .points = {{1024, 0.1}, {2048, 1}, {4096, 10}, {8192, 0}}}};
  const std::string svg =
      LineChart(lines, kText, {.x = Scale::kDoubling, .y = Scale::kLogarithmic});
  // 8192 has no place: its y of 0 is on no logarithmic scale.
  EXPECT_EQ(PlacesOf(svg), "84.0,276.0 460.0,170.0 836.0,64.0");
  for (const char* const name : {">1k<", ">2k<", ">4k<", ">0.1<", ">1<", ">10<"}) {
    EXPECT_THAT(svg, HasSubstr(name));
  }
  EXPECT_THAT(svg, Not(HasSubstr(">8k<")));
}

TEST(LineChart, WhatHasNoPlaceIsLeftOut) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<Line> lines = {
      {.name = "a", .points = {{nan, 1}, {0, 1}, {1, inf}, {1, -1}, {10, 1}}}};
  const std::string svg = LineChart(lines, kText, {.x = Scale::kLogarithmic});
  EXPECT_EQ(PlacesOf(svg), "84.0,64.0");
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(LineChart, NothingStillMakesAChart) {
  for (const Scale scale : {Scale::kLinear, Scale::kLogarithmic, Scale::kDoubling}) {
    EXPECT_THAT(LineChart({}, kText, {.x = scale, .y = scale}), HasSubstr(">share<"));
    const std::vector<Line> empty = {{.name = "nothing <yet>", .points = {}}};
    EXPECT_THAT(LineChart(empty, kText, {.x = scale, .y = scale}),
                HasSubstr(">nothing &lt;yet&gt;<"));
  }
}

TEST(LineChart, AMillionPointsAreThinnedAndTheLastIsKept) {
  Line line = {.name = "a", .points = {}};
  for (int i = 0; i < 1'000'001; ++i) line.points.push_back({static_cast<double>(i), 1});
  const std::string svg = LineChart(std::vector<Line>{line}, kText, {});
  EXPECT_LT(svg.size(), 30'000U);
  EXPECT_THAT(PlacesOf(svg), testing::EndsWith("836.0,64.0"));
}

}  // namespace
}  // namespace ashlar::plot
