#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ashlar {
namespace {

TEST(Half, EveryF16SurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = F16ToF32(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(F16ToF32(F32ToF16(value))));
      continue;
    }
    ASSERT_EQ(F32ToF16(value), half) << bits;
  }
}

// The definition, independently: the nearest f16 by value, ties to the even bit pattern.
TEST(Half, RoundsToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x7BFF; ++bits) {
    const float low = F16ToF32(static_cast<std::uint16_t>(bits));
    const float high = F16ToF32(static_cast<std::uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;  // exact in f32
    const auto even = static_cast<std::uint16_t>(bits + (bits & 1));
    ASSERT_EQ(F32ToF16(middle), even) << bits;
    ASSERT_EQ(F32ToF16(std::nextafter(middle, low)), bits);
    ASSERT_EQ(F32ToF16(std::nextafter(middle, high)), bits + 1);
  }
}

TEST(Half, F16ExtremesAndSigns) {
  EXPECT_EQ(F32ToF16(65504.0f), 0x7BFF);
  EXPECT_EQ(F32ToF16(65519.0f), 0x7BFF);
  EXPECT_EQ(F32ToF16(65520.0f), 0x7C00);
  EXPECT_EQ(F32ToF16(std::numeric_limits<float>::infinity()), 0x7C00);
  EXPECT_EQ(F32ToF16(-0.0f), 0x8000);
  EXPECT_EQ(F32ToF16(-1.0f), 0xBC00);
  EXPECT_EQ(F16ToF32(0x0001), std::ldexp(1.0f, -24));
}

TEST(Half, Bf16RoundsToNearestEven) {
  EXPECT_EQ(F32ToBf16(1.0f), 0x3F80);
  EXPECT_EQ(F32ToBf16(std::bit_cast<float>(0x3F808000u)), 0x3F80);  // tie: even stays
  EXPECT_EQ(F32ToBf16(std::bit_cast<float>(0x3F818000u)), 0x3F82);  // tie: odd goes up
  EXPECT_EQ(F32ToBf16(std::bit_cast<float>(0x3F808001u)), 0x3F81);
  EXPECT_TRUE(std::isnan(Bf16ToF32(F32ToBf16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(Bf16ToF32(F32ToBf16(std::bit_cast<float>(0x7F800001u)))));
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const float value = Bf16ToF32(static_cast<std::uint16_t>(bits));
    if (!std::isnan(value)) {
      ASSERT_EQ(F32ToBf16(value), bits);
    }
  }
}

}  // namespace
}  // namespace ashlar
