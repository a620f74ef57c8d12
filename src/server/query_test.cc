#include "server/query.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace ashlar::server {
namespace {

Query Parsed(std::string_view text) { return Query::Parse(text, {"a", "b", "long name"}).value(); }

TEST(Query, FindsDecodedValuesByName) {
  const Query query = Parsed("a=x%2Fy&&long%20name=&b");
  EXPECT_EQ(query.Text("a"), "x/y");
  EXPECT_EQ(query.Text("long name"), "");
  EXPECT_EQ(query.Text("b"), "");
  EXPECT_EQ(Parsed("").Text("a"), std::nullopt);
}

TEST(Query, FlagsAreTrueOrFalse) {
  for (const std::string_view yes : {"a", "a=", "a=1", "a=true"})
    EXPECT_TRUE(*Parsed(yes).Flag("a"));
  for (const std::string_view no : {"", "b", "a=0", "a=false"}) EXPECT_FALSE(*Parsed(no).Flag("a"));
  const auto wrong = Parsed("a=ja").Flag("a");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().message, "'a' is 'ja'; use true or false");
  EXPECT_EQ(wrong.error().param, "a");
}

TEST(Query, NumbersAreWholeAndWithinTheirRange) {
  EXPECT_EQ(*Parsed("a=3").Number("a", 3, 5), 3u);
  EXPECT_EQ(*Parsed("a=5").Number("a", 3, 5), 5u);
  EXPECT_EQ(*Parsed("").Number("a", 3, 5), std::nullopt);
  for (const std::string_view wrong :
       {"a=2", "a=6", "a=", "a=-3", "a=3.5", "a=3x", "a= 3", "a=99999999999999999999"}) {
    const auto number = Parsed(wrong).Number("a", 3, 5);
    ASSERT_FALSE(number.ok()) << wrong;
    EXPECT_NE(number.error().message.find("from 3 to 5"), std::string::npos);
  }
}

TEST(Query, WhatIsUnknownTwiceOrTooMuchIsNamed) {
  const auto unknown = Query::Parse("a=1&forse=1", {"a", "force"});
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().message, "unknown query parameter 'forse'; use a, force");
  EXPECT_EQ(unknown.error().param, "forse");
  EXPECT_EQ(Query::Parse("x", {}).error().message,
            "unknown query parameter 'x'; there are none here");
  const auto twice = Query::Parse("a=1&a=2", {"a"});
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(twice.error().message, "the query parameter 'a' is given twice");
  EXPECT_FALSE(Query::Parse(std::string(100'000, 'x'), {"a"}).ok());
}

}  // namespace
}  // namespace ashlar::server
