#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "ashlar/error.h"

namespace ashlar::cache {
namespace {

TEST(ExpectedTest, HoldsAValueOrAnError) {
  const Expected<int> value = 7;
  const Expected<int> error = Error{ErrorCode::kNoMemory, "later"};
  EXPECT_TRUE(value.ok());
  EXPECT_EQ(*value, 7);
  EXPECT_FALSE(error);
  EXPECT_EQ(error.error().code, ErrorCode::kNoMemory);
  EXPECT_EQ(error.error().message, "later");
}

TEST(ExpectedTest, WorksForMoveOnlyTypesAndForNothing) {
  Expected<std::unique_ptr<std::string>> made = std::make_unique<std::string>("x");
  EXPECT_EQ((*made)->size(), 1u);
  const std::unique_ptr<std::string> taken = std::move(made).value();
  EXPECT_EQ(*taken, "x");
  const Expected<void> done;
  EXPECT_TRUE(done.ok());
  const Expected<void> refused = Error{ErrorCode::kLimit, "too much"};
  EXPECT_FALSE(refused.ok());
}

TEST(ExpectedTest, AnErrorItselfCanBeTheReasonOnly) {
  static_assert(!std::is_default_constructible_v<Expected<int>>);
  static_assert(std::is_default_constructible_v<Expected<void>>);
}

TEST(ExpectedDeathTest, ReadingWhatIsNotThereStopsWithTheMessage) {
  const Expected<int> error = Error{ErrorCode::kLimit, "the reason"};
  EXPECT_DEATH((void)error.value(), "the reason");
  const Expected<int> value = 1;
  EXPECT_DEATH((void)value.error(), "is ok");
  const Expected<void> done;
  EXPECT_DEATH((void)done.error(), "is ok");
}

TEST(ErrorCodeTest, EveryCodeHasAName) {
  EXPECT_EQ(NameOf(ErrorCode::kInvalidArgument), "invalid argument");
  EXPECT_EQ(NameOf(ErrorCode::kNotFound), "not found");
  EXPECT_EQ(NameOf(ErrorCode::kUnsupported), "unsupported");
  EXPECT_EQ(NameOf(ErrorCode::kNoMemory), "no memory now");
  EXPECT_EQ(NameOf(ErrorCode::kLimit), "limit");
  EXPECT_EQ(NameOf(static_cast<ErrorCode>(99)), "unknown");
}

}  // namespace
}  // namespace ashlar::cache
