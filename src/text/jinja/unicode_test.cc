#include "text/jinja/unicode.h"

#include <gtest/gtest.h>

namespace ashlar::text::jinja {
namespace {

TEST(Unicode, CodePointsGoForthAndBack) {
  const std::string text = "a\u00e9\u4e2d\U0001f600z";
  std::vector<char32_t> forth;
  for (std::size_t pos = 0; pos < text.size();) {
    forth.push_back(NextChar(text, &pos));
  }
  EXPECT_EQ(forth, (std::vector<char32_t>{'a', 0xE9, 0x4E2D, 0x1F600, 'z'}));
  std::vector<char32_t> back;
  for (std::size_t end = text.size(); end > 0;) {
    back.push_back(PreviousChar(text, end, &end));
  }
  EXPECT_EQ(back, (std::vector<char32_t>(forth.rbegin(), forth.rend())));
  std::string again;
  for (const char32_t c : forth) {
    AppendChar(&again, c);
  }
  EXPECT_EQ(again, text);
  EXPECT_EQ(CountChars(text), 5u);
  EXPECT_EQ(ByteOffset(text, 2), 3u);
  EXPECT_EQ(ByteOffset(text, 99), text.size());
}

TEST(Unicode, OnlyWellFormedUtf8IsValid) {
  for (const char* valid :
       {"", "a", "\u0080", "\u07ff", "\u0800", "\uffff", "\U00010000", "\U0010ffff"}) {
    EXPECT_TRUE(IsValidUtf8(valid)) << valid;
  }
  for (const char* invalid : {"\x80", "\xC3", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80",
                              "\xF4\x90\x80\x80", "\xFF", "a\xE4\xB8"}) {
    EXPECT_FALSE(IsValidUtf8(invalid));
  }
}

TEST(Unicode, LinesEndAsInPython) {
  EXPECT_EQ(SplitLines("a\r\nb\rc\n\nd\x0b"
                       "e",
                       LineEnds::kDropped),
            (std::vector<std::string_view>{"a", "b", "c", "", "d", "e"}));
  EXPECT_EQ(SplitLines("a\r\nb\n", LineEnds::kKept),
            (std::vector<std::string_view>{"a\r\n", "b\n"}));
  EXPECT_TRUE(SplitLines("", LineEnds::kKept).empty());
}

TEST(Unicode, LettersExpandAndTheFinalSigmaDiffers) {
  EXPECT_EQ(ToUpper("straße ﬁ ŉ"), "STRASSE FI ʼN");
  EXPECT_EQ(ToLower("ΟΔΥΣΣΕΥΣ ΑΣ."), "οδυσσευς ας.");
  EXPECT_EQ(Capitalize("ǆ ÉA"), "ǅ éa");
  EXPECT_EQ(ToTitle("they're ß"), "They'Re Ss");
}

}  // namespace
}  // namespace ashlar::text::jinja
