#include "plot/frontier_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar::plot {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const PlotText kText = {.title = "T",
                        .x_name = "bytes",
                        .y_name = "loss",
                        .first_series = "round",
                        .second_series = "square"};

std::size_t Count(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// The number after `name="` in the first element that holds `element`.
double Number(std::string_view svg, std::string_view element, std::string_view name) {
  const std::size_t from = svg.find(element);
  EXPECT_NE(from, svg.npos) << element;
  const std::size_t at = svg.find(std::string(name) + "=\"", from);
  return std::stod(std::string(svg.substr(at + name.size() + 2, 20)));
}

// Every element is closed, in order.
bool IsBalanced(std::string_view svg) {
  std::vector<std::string> open;
  for (std::size_t at = svg.find('<'); at != svg.npos; at = svg.find('<', at + 1)) {
    const std::size_t end = svg.find('>', at);
    if (end == svg.npos) return false;
    const std::string_view tag = svg.substr(at + 1, end - at - 1);
    if (tag.ends_with('/')) continue;
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else {
      open.emplace_back(tag.substr(0, tag.find(' ')));
    }
  }
  return open.empty();
}

TEST(FrontierPlot, EveryPointHasAMarkOfItsSeriesAndALabel) {
  const std::vector<PlotPoint> points = {
      {.label = "f16", .x = 200, .y = 1e-6},
      {.label = "q8", .x = 100, .y = 1e-4},
      {.label = "mixed", .x = 80, .y = 1e-3, .series = PlotSeries::kSecond}};
  const std::string svg = FrontierPlot(points, kText);
  // One more of each: the legend.
  EXPECT_EQ(Count(svg, "<circle class=\"first\""), 3u);
  EXPECT_EQ(Count(svg, "<path class=\"second\""), 2u);
  for (const PlotPoint& point : points) EXPECT_THAT(svg, HasSubstr(">" + point.label + "<"));
  for (const char* name : {">T<", ">bytes<", ">loss<", ">round<", ">square<"}) {
    EXPECT_THAT(svg, HasSubstr(name));
  }
  EXPECT_TRUE(IsBalanced(svg));
  EXPECT_THAT(svg, Not(HasSubstr("not on this scale")));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
}

TEST(FrontierPlot, TheVerticalAxisIsLogarithmicAndGrowsUpwards) {
  // Equal ratios are equal distances.
  std::vector<double> places;
  for (const double y : {1e-6, 1e-4, 1e-2}) {
    const std::vector<PlotPoint> points = {{.label = "a", .x = 1, .y = y},
                                           {.label = "b", .x = 2, .y = 1e-6},
                                           {.label = "c", .x = 3, .y = 1e-2}};
    const std::string svg = FrontierPlot(points, kText);
    const std::string marks =
        svg.substr(svg.find("<polyline class=\"frontier\" points=\"", svg.find(">frontier<")));
    places.push_back(Number(marks, "<circle", "cy"));
  }
  EXPECT_GT(places[0], places[1]);
  EXPECT_NEAR(places[0] - places[1], places[1] - places[2], 0.2);  // places are in tenths
}

TEST(FrontierPlot, TheFrontierIsWhatNoOtherPointBeats) {
  const std::vector<PlotPoint> points = {
      {.label = "dear and close", .x = 9, .y = 1},   {.label = "cheap and far", .x = 1, .y = 9},
      {.label = "beaten in both", .x = 6, .y = 6},   {.label = "between", .x = 5, .y = 5},
      {.label = "as dear, farther", .x = 9, .y = 2}, {.label = "equal to between", .x = 5, .y = 5},
      {.label = "no place", .x = 0, .y = 0}};
  EXPECT_THAT(FrontierOf(points), ElementsAre(1, 3, 0));
  EXPECT_THAT(FrontierOf({}), IsEmpty());
}

TEST(FrontierPlot, PointsWithoutAPlaceOnTheScaleAreNamedBelow) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<PlotPoint> points = {{.label = "exact", .x = 5, .y = 0},
                                         {.label = "broken", .x = 5, .y = nan},
                                         {.label = "fine", .x = 5, .y = 1}};
  const std::string svg = FrontierPlot(points, kText);
  EXPECT_THAT(svg, HasSubstr("not on this scale: exact (0), broken (nan)"));
  EXPECT_EQ(Count(svg, "<circle"), 2u);
  EXPECT_EQ(Count(svg, "nan"), 1u);
}

TEST(FrontierPlot, NoPointsOneAndManyAtOnePlaceStillMakeAPlot) {
  for (const std::size_t count : {0, 1, 30}) {
    const std::vector<PlotPoint> points(count, {.label = "p", .x = 0, .y = 1});
    const std::string svg = FrontierPlot(points, kText);
    EXPECT_TRUE(IsBalanced(svg));
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
    EXPECT_EQ(Count(svg, ">p<"), count);
  }
}

TEST(FrontierPlot, ExtremeValuesStayWithinTheFrame) {
  const std::vector<PlotPoint> points = {{.label = "a", .x = 1e-9, .y = 1e-300},
                                         {.label = "b", .x = 1e12, .y = 1e300}};
  const std::string svg = FrontierPlot(points, kText);
  EXPECT_LT(svg.size(), 20'000u);  // not 600 lines of a grid
  EXPECT_TRUE(IsBalanced(svg));
}

TEST(FrontierPlot, TextIsNoMarkup) {
  const std::vector<PlotPoint> points = {{.label = "k<v>&\x01", .x = 1, .y = 1}};
  const std::string svg = FrontierPlot(points, kText);
  EXPECT_THAT(svg, HasSubstr(">k&lt;v&gt;&amp; <"));
}

TEST(FrontierPlot, LabelsOfNeighboursDoNotCoverEachOther) {
  const std::vector<PlotPoint> points = {{.label = "first", .x = 1, .y = 1e-5},
                                         {.label = "second", .x = 1, .y = 1.1e-5},
                                         {.label = "far", .x = 9, .y = 1e-1}};
  const std::string svg = FrontierPlot(points, kText);
  const auto place = [&](const std::string& label) {
    const std::size_t from = svg.rfind("<text", svg.find(">" + label + "<"));
    const std::string_view rest = std::string_view(svg).substr(from);
    return std::pair(Number(rest, "<text", "x"), Number(rest, "<text", " y"));
  };
  const auto [x1, y1] = place("first");
  const auto [x2, y2] = place("second");
  EXPECT_TRUE(std::abs(y1 - y2) >= 13 || std::abs(x1 - x2) > 34) << y1 << " " << y2;
}

}  // namespace
}  // namespace ashlar::plot
