#include "text/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace ashlar::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kNames[] = {"default", "gpt-2",           "llama-bpe", "qwen2",
                                       "smollm",  "starcoder",       "refact",    "command-r",
                                       "olmo",    "deepseek-r1-qwen"};

std::vector<std::string> Cut(std::string_view name, std::string_view text) {
  const auto pre_tokenizer = PreTokenizer::Create(name);
  std::vector<std::string_view> words;
  pre_tokenizer.value().Split(text, words);
  return {words.begin(), words.end()};
}

TEST(PreTokenizer, UnknownNamesAreRefusedWithThoseWeKnow) {
  const auto result = PreTokenizer::Create("no-such-cut");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kUnsupported);
  for (const char* part : {"no-such-cut", "gpt-2", "llama-bpe", "qwen2", "smollm"}) {
    EXPECT_THAT(result.error().message, HasSubstr(part));
  }
}

TEST(PreTokenizer, Gpt2KeepsASpaceWithItsWordAndNumbersWhole) {
  EXPECT_THAT(Cut("gpt-2", "I'll pay 12345 now!  ok\n\n"),
              ElementsAre("I", "'ll", " pay", " 12345", " now", "!", " ", " ok", "\n\n"));
  EXPECT_THAT(Cut("gpt-2", "I'LL"), ElementsAre("I", "'", "LL"));
}

TEST(PreTokenizer, Llama3CutsNumbersInThreesAndLinesApart) {
  EXPECT_THAT(Cut("llama-bpe", "I'LL pay $12345 \n\n  now"),
              ElementsAre("I", "'LL", " pay", " $", "123", "45", " \n\n", " ", " now"));
  EXPECT_THAT(Cut("llama-bpe", "(word) a.\nb"), ElementsAre("(word", ")", " a", ".\n", "b"));
}

TEST(PreTokenizer, Qwen2CutsEveryNumberCharacter) {
  EXPECT_THAT(Cut("qwen2", "a 12½"), ElementsAre("a", " ", "1", "2", "½"));
}

TEST(PreTokenizer, SmolLmCutsDigitsFirstSoThatSpacesBeforeThemStayTogether) {
  EXPECT_THAT(Cut("smollm", "a  12  b"), ElementsAre("a", "  ", "1", "2", " ", " b"));
}

TEST(PreTokenizer, DefaultCutsPunctuationThenNumbersInThrees) {
  EXPECT_THAT(Cut("default", "a, b: 12345"), ElementsAre("a", ",", " b", ":", " ", "123", "45"));
}

TEST(PreTokenizer, SpaceMeansUnicodeWhiteSpaceAndNoMore) {
  EXPECT_THAT(Cut("gpt-2", "a\u00A0\u3000b"), ElementsAre("a", "\u00A0", "\u3000", "b"));
  EXPECT_THAT(Cut("gpt-2", "a\u180Eb"), ElementsAre("a", "\u180E", "b"));  // no white space
  EXPECT_THAT(Cut("gpt-2", " \u180E"), ElementsAre(" \u180E"));            // but a symbol
  EXPECT_THAT(Cut("gpt-2", " \U000323AF"),
              ElementsAre(" \U000323AF"));  // a letter since Unicode 15
}

TEST(PreTokenizer, BytesThatAreNotUtf8AreSymbols) {
  EXPECT_THAT(Cut("gpt-2", "a \xFF\xC3 b"), ElementsAre("a", " \xFF\xC3", " b"));
  EXPECT_THAT(Cut("gpt-2", "\xE2\x82"), ElementsAre("\xE2\x82"));
}

TEST(PreTokenizer, WordsJoinedAreTheText) {
  std::mt19937 random(3);
  const std::vector<std::string> parts = {"a",      "Z",
                                          "é",      "中",
                                          " ",      "  ",
                                          "\n",     "\r\n",
                                          "\t",     "1",
                                          "½",      "'s",
                                          "'",      "!",
                                          "$",      "\xFF",
                                          "\xE2",   "\xF0\x9F",
                                          "😀",     "\u3000",
                                          "\u0301", std::string(1, '\0')};
  for (const std::string_view name : kNames) {
    const auto pre_tokenizer = PreTokenizer::Create(name);
    for (int round = 0; round < 200; ++round) {
      std::string text;
      for (std::size_t i = random() % 30; i > 0; --i) text += parts[random() % parts.size()];
      std::vector<std::string_view> words;
      pre_tokenizer.value().Split(text, words);
      std::size_t position = 0;
      for (const std::string_view word : words) {
        ASSERT_FALSE(word.empty());
        ASSERT_EQ(word.data(), text.data() + position) << name;
        position += word.size();
      }
      ASSERT_EQ(position, text.size()) << name;
    }
  }
}

// Where backtracking over white space could go quadratic: this would take many minutes instead of
// milliseconds (the test's time limit is the judge).
TEST(PreTokenizer, LongRunsAreCutInLinearTime) {
  constexpr std::size_t kBytes = 1 << 18;
  std::string alternating;
  while (alternating.size() < kBytes) alternating += " \t";
  for (const std::string_view name : {"gpt-2", "llama-bpe", "smollm"}) {
    for (const std::string& text :
         {std::string(kBytes, ' '), std::string(kBytes, ' ') + "x", std::string(kBytes, '\n'),
          alternating, std::string(kBytes, '\xFF')}) {
      const std::vector<std::string> words = Cut(name, text);
      EXPECT_LE(words.size(), 3U) << name;
    }
  }
}

}  // namespace
}  // namespace ashlar::text
