#include "plot/svg.h"

#include <gtest/gtest.h>

namespace ashlar::plot {
namespace {

TEST(Svg, StepsAreRoundAndMakeAboutFiveOfARange) {
  for (double range = 1e-6; range < 1e9; range *= 1.7) {
    const double steps = range / RoundStep(range);
    EXPECT_GE(steps, 2) << range;
    EXPECT_LE(steps, 5.001) << range;
  }
  EXPECT_DOUBLE_EQ(RoundStep(10), 2);
  EXPECT_DOUBLE_EQ(RoundStep(0.04), 0.01);
}

TEST(Svg, TextIsNoMarkup) {
  EXPECT_EQ(Escape("a<b>&\x01\n"), "a&lt;b&gt;&amp;  ");
  EXPECT_EQ(Text(1, 2, Anchor::kEnd, "<"),
            "<text x=\"1.0\" y=\"2.0\" text-anchor=\"end\">&lt;</text>\n");
}

TEST(Svg, PowersHaveSuperscripts) { EXPECT_EQ(PowerOfTen(-12), "10⁻¹²"); }

}  // namespace
}  // namespace ashlar::plot
