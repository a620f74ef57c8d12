#include "base/json_text.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace ashlar {
namespace {

std::string Quoted(std::string_view text) {
  std::string out;
  AppendJsonString(text, out);
  return out;
}

TEST(JsonText, EscapesWhatJsonDoesNotTake) {
  EXPECT_EQ(Quoted("plain"), "\"plain\"");
  EXPECT_EQ(Quoted("a\"b\\c\nd"), R"("a\"b\\c\nd")");
  EXPECT_EQ(Quoted(std::string_view("\0\x1f\x7f", 3)), R"("\u0000\u001f\u007f")");
  EXPECT_EQ(Quoted("\t\r"), R"("\u0009\u000d")");
}

TEST(JsonText, KeepsUtf8AndReplacesAllElse) {
  const std::string valid = "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xED\x9F\xBF\xF4\x8F\xBF\xBF";
  EXPECT_EQ(Quoted(valid), "\"" + valid + "\"");
  constexpr std::string_view kBad = "\xEF\xBF\xBD";
  const auto replaced = [&](std::size_t times) {
    std::string out = "\"";
    for (std::size_t i = 0; i < times; ++i) out += kBad;
    return out + "\"";
  };
  EXPECT_EQ(Quoted("\xFF"), replaced(1));
  EXPECT_EQ(Quoted("\xC0\xAF"), replaced(2));          // too long for its value
  EXPECT_EQ(Quoted("\xE0\x9F\xBF"), replaced(3));      // too long, three bytes
  EXPECT_EQ(Quoted("\xED\xA0\x80"), replaced(3));      // a surrogate
  EXPECT_EQ(Quoted("\xF4\x90\x80\x80"), replaced(4));  // beyond U+10FFFF
  EXPECT_EQ(Quoted("\xE2\x82"), replaced(2));          // cut
}

}  // namespace
}  // namespace ashlar
