#include "hf/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ashlar::hf {
namespace {

using testing::HasSubstr;

Element ValueOf(const Json& json) { return *hf::FieldOf(json.root(), "a"); }

TEST(JsonTest, NumbersBeyond64BitsAreNumbers) {
  const auto json = Json::Parse(
      R"({"s": "\"12345678901234567890123", "a": 1000000000000000019884624838656, "b": -1})", "x");
  ASSERT_TRUE(json.ok()) << json.error().message;
  EXPECT_EQ(NumberIn(ValueOf(*json)), 1e30);
  EXPECT_EQ(CountIn(ValueOf(*json)), std::nullopt);
  EXPECT_EQ(TextIn(*hf::FieldOf(json->root(), "s")), "\"12345678901234567890123");
  for (const char* const number :
       {"-123456789012345678901", "0.12345678901234567890", "1e-5", "123456789012345678901e5"}) {
    const auto other =
        Json::Parse(std::string(R"({"big": 99999999999999999999999, "a": )") + number + "}", "x");
    ASSERT_TRUE(other.ok()) << number << other.error().message;
    EXPECT_DOUBLE_EQ(*NumberIn(ValueOf(*other)), std::stod(number));
  }
}

TEST(JsonTest, WhatIsNoNumberIsRefused) {
  for (const char* const text : {"{\"a\": 01}", "{\"a\": 1.}", "{\"a\": -}", "{\"a\": 1e}"}) {
    const auto json = Json::Parse(text, "x");
    ASSERT_FALSE(json.ok()) << text;
    EXPECT_THAT(json.error().message, HasSubstr("'x' is no JSON"));
  }
}

TEST(JsonTest, NullIsMissing) {
  const auto json = Json::Parse(R"({"a": null, "b": 1})", "x");
  EXPECT_EQ(hf::FieldOf(json->root(), "a"), std::nullopt);
  EXPECT_TRUE(hf::FieldOf(json->root(), "b").has_value());
}

}  // namespace
}  // namespace ashlar::hf
