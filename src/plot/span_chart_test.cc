#include "plot/span_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar::plot {
namespace {

using testing::HasSubstr;
using testing::Not;

const SpanText kText = {.title = "T", .y_name = "requests", .colours = {"waits", "streams"}};

std::size_t Count(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(SpanChart, PiecesStandAtTheirTimesInTheirRows) {
  const std::vector<SpanRow> rows = {{{0, 5, Colour::kFirst}, {5, 10, Colour::kSecond}},
                                     {{2.5, 10, Colour::kFirst}}};
  const std::string svg = SpanChart(rows, kText);
  EXPECT_THAT(svg, HasSubstr("<rect class=\"first\" x=\"84.0\" y=\"64.00\" width=\"376.00\""));
  EXPECT_THAT(svg, HasSubstr("<rect class=\"second\" x=\"460.0\" y=\"64.00\" width=\"376.00\""));
  EXPECT_THAT(svg, HasSubstr("<rect class=\"first\" x=\"272.0\" y=\"76.00\" width=\"564.00\""));
  EXPECT_THAT(svg, HasSubstr(">streams<"));
}

TEST(SpanChart, ManyRowsAreBoundedInNumberAndHeight) {
  const std::vector<SpanRow> rows(20'000, {{0, 1, Colour::kFirst}});
  const std::string svg = SpanChart(rows, kText);
  EXPECT_EQ(Count(svg, "<rect"), kMaxSpanRows + 2);  // two of the legend
  EXPECT_THAT(svg, HasSubstr("viewBox=\"0 0 860 628\""));
}

TEST(SpanChart, WhatHasNoPlaceIsLeftOut) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<SpanRow> rows = {{{nan, 1, Colour::kFirst},
                                      {0, nan, Colour::kFirst},
                                      {-1, 1, Colour::kFirst},
                                      {3, 2, Colour::kFirst}},
                                     {}};
  const std::string svg = SpanChart(rows, kText);
  EXPECT_EQ(Count(svg, "<rect"), 2U);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(SpanChart({}, kText), HasSubstr(">requests<"));
}

}  // namespace
}  // namespace ashlar::plot
