#include "text/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace ashlar::text {
namespace {

std::string Encode(char32_t c) {
  std::string bytes;
  if (c < 0x80) {
    bytes += static_cast<char>(c);
  } else if (c < 0x800) {
    bytes += static_cast<char>(0xC0 | c >> 6);
    bytes += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    bytes += static_cast<char>(0xE0 | c >> 12);
    bytes += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    bytes += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    bytes += static_cast<char>(0xF0 | c >> 18);
    bytes += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    bytes += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    bytes += static_cast<char>(0x80 | (c & 0x3F));
  }
  return bytes;
}

TEST(Utf8, CodePointsAreWholeAndTheirPrefixesAreIncomplete) {
  // From the last one down; of the planes above the first, samples.
  for (char32_t c = 0x10FFFF; c > 0; c -= c > 0x11000 ? 0xFF : 1) {
    if (c == 0xDFFF) c = 0xD7FF;  // surrogates are no code points in UTF-8
    const std::string bytes = Encode(c);
    const Utf8Sequence whole = FirstSequence(bytes);
    ASSERT_EQ(whole.kind, Utf8Kind::kWhole) << std::hex << static_cast<unsigned>(c);
    ASSERT_EQ(whole.bytes, bytes.size());
    for (std::size_t size = 1; size < bytes.size(); ++size) {
      const Utf8Sequence part = FirstSequence(std::string_view(bytes).substr(0, size));
      ASSERT_EQ(part.kind, Utf8Kind::kIncomplete) << std::hex << static_cast<unsigned>(c);
      ASSERT_EQ(part.bytes, size);
    }
  }
}

TEST(Utf8, WhatUnicodeForbidsIsInvalid) {
  for (const char* bytes :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF", "\xED\xA0\x80",
        "\xED\xBF\xBF", "\xF0\x80\x80\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80",
        "\xF5\x80\x80\x80", "\xFE", "\xFF", "\xC3(", "\xE2\x82("}) {
    EXPECT_EQ(FirstSequence(bytes).kind, Utf8Kind::kInvalid) << bytes;
  }
}

TEST(Utf8, WholePrefixStopsBeforeTheFirstBrokenByte) {
  EXPECT_EQ(WholePrefix(""), 0U);
  EXPECT_EQ(WholePrefix("plain text, longer than a word"), 30U);
  EXPECT_EQ(WholePrefix("na\xC3\xAFve, na\xC3\xAFve"), 14U);
  EXPECT_EQ(WholePrefix("12345678\xFF"), 8U);
  EXPECT_EQ(WholePrefix("1234567\xE2\x82"), 7U);
}

// The table of "U+FFFD substitution of maximal subparts" in chapter 3 of the Unicode standard.
TEST(Utf8, ReplacesEveryMaximalSubpartByOneReplacementCharacter) {
  EXPECT_EQ(ReplaceInvalid("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  EXPECT_EQ(ReplaceInvalid("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA");
  EXPECT_EQ(ReplaceInvalid("\xE2\x82"), "\uFFFD");
  EXPECT_EQ(ReplaceInvalid("\xE2\x82\xAC"), "€");
}

}  // namespace
}  // namespace ashlar::text
