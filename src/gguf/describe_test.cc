#include "gguf/describe.h"

#include <gtest/gtest.h>

namespace ashlar::gguf {
namespace {

TEST(Quote, ShowsWhatCannotBePrintedAndCutsWhatIsLong) {
  EXPECT_EQ(Quote("abc"), "'abc'");
  EXPECT_EQ(Quote(std::string_view("a\0\n\xFF", 4)), "'a\\x00\\x0a\\xff'");
  EXPECT_EQ(Quote(std::string(64, 'x')), "'" + std::string(64, 'x') + "'");
  EXPECT_EQ(Quote(std::string(65, 'x')), "'" + std::string(64, 'x') + "...'");
}

TEST(Describe, NamesTypeAndValue) {
  EXPECT_EQ(Describe(Value(std::uint64_t{5})), "the unsigned integer 5");
  EXPECT_EQ(Describe(Value(std::int64_t{-5})), "the integer -5");
  EXPECT_EQ(Describe(Value(0.5)), "the number 0.5");
  EXPECT_EQ(Describe(Value(true)), "the boolean true");
  EXPECT_EQ(Describe(Value(std::string_view("x"))), "the string 'x'");
  EXPECT_EQ(Describe(Value(Array{Array::Integers{1, 2}})), "an array of 2 integers");
  EXPECT_EQ(Describe(Value(Array{Array::Numbers{}})), "an array of 0 numbers");
  EXPECT_EQ(Describe(Value(Array{Array::Strings{"a"}})), "an array of 1 strings");
}

TEST(Describe, ListsDims) {
  EXPECT_EQ(DescribeDims(std::vector<std::uint64_t>{64, 2}), "[64, 2]");
  EXPECT_EQ(DescribeDims({}), "[]");
}

TEST(FaultOfName, AcceptsUtf8UpToTheEdgesOfEachLength) {
  for (const char* name :
       {"a.b_c-1", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
        "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(FaultOfName(name), std::nullopt) << Quote(name);
  }
}

TEST(FaultOfName, RefusesWhatIsNotUtf8) {
  for (const char* name :
       {"\x80", "\xC1\xBF", "\xC2", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xE2\x82", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "a\xE2\x82"}) {
    EXPECT_EQ(FaultOfName(name), "is not UTF-8") << Quote(name);
  }
}

TEST(FaultOfName, RefusesEmptyNamesAndControlCharacters) {
  EXPECT_EQ(FaultOfName(""), "is empty");
  EXPECT_EQ(FaultOfName("a\nb"), "contains a control character");
  EXPECT_EQ(FaultOfName("\x7F"), "contains a control character");
  EXPECT_EQ(FaultOfName(std::string_view("a\0", 2)), "contains a control character");
}

}  // namespace
}  // namespace ashlar::gguf
