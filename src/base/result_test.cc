#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace ashlar {
namespace {

Result<int> Half(int value) {
  if (value % 2 != 0) {
    return MakeError(ErrorCode::kInvalidArgument, "{} is odd; give an even number", value);
  }
  return value / 2;
}

Result<int> Quarter(int value) {
  ASHLAR_ASSIGN(const int half, Half(value));
  ASHLAR_ASSIGN(const int quarter, Half(half));
  return quarter;
}

Status CheckEven(int value) {
  ASHLAR_TRY(Half(value));
  return {};
}

TEST(Result, HoldsAValueOrAnError) {
  EXPECT_EQ(*Half(4), 2);
  const Result<int> failed = Half(3);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(failed.error().message, "3 is odd; give an even number");
}

TEST(Result, MacrosPassTheFirstErrorOn) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).error().message, "3 is odd; give an even number");
  EXPECT_TRUE(CheckEven(2).ok());
  EXPECT_EQ(CheckEven(5).error().message, "5 is odd; give an even number");
}

TEST(Result, CarriesMoveOnlyValues) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  const std::unique_ptr<int> value = *std::move(result);
  EXPECT_EQ(*value, 7);
}

TEST(ResultDeathTest, ValueOfAFailureStopsWithItsReason) {
  EXPECT_DEATH((void)Half(3).value(), "3 is odd; give an even number");
}

}  // namespace
}  // namespace ashlar
