#include "load/text_maker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace ashlar::load {
namespace {

std::size_t Spaces(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count(text, ' '));
}

TEST(TextMaker, TheWordsAreDistinctAndLowerCase) {
  const auto words = CommonWords();
  EXPECT_EQ(words.size(), 256U);
  EXPECT_EQ(std::set<std::string_view>(words.begin(), words.end()).size(), 256U);
  for (const std::string_view word : words) {
    EXPECT_TRUE(std::ranges::all_of(word, [](char c) { return c >= 'a' && c <= 'z'; })) << word;
  }
}

TEST(TextMaker, OfWordsHasAWordForEachToken) {
  const TextMaker maker = TextMaker::OfWords({CommonWords().begin(), CommonWords().end()});
  EXPECT_TRUE(maker.is_exact());
  for (const std::uint64_t tokens : {0, 1, 2, 100, 4096}) {
    const std::string text = maker.Text(5, tokens);
    EXPECT_EQ(Spaces(text), tokens);
    EXPECT_TRUE(text.empty() || text.front() == ' ');
  }
}

TEST(TextMaker, OfCharactersHasTheMeasuredLength) {
  EXPECT_EQ(TextMaker::OfCharacters(1).Text(5, 100).size(), 100U);
  EXPECT_EQ(TextMaker::OfCharacters(0.25).Text(5, 100).size(), 400U);
  EXPECT_EQ(TextMaker::OfCharacters(3).Text(5, 1).size(), 1U);  // no empty prompt
}

TEST(TextMaker, ASeedIsATextAndShorterOnesBeginLongerOnes) {
  for (const TextMaker& maker : {TextMaker::OfWords({CommonWords().begin(), CommonWords().end()}),
                                 TextMaker::OfCharacters(0.2)}) {
    const std::string text = maker.Text(5, 200);
    EXPECT_EQ(maker.Text(5, 200), text);
    EXPECT_TRUE(text.starts_with(maker.Text(5, 77)));
    std::set<std::string> beginnings;
    for (std::uint64_t seed = 0; seed < 500; ++seed) beginnings.insert(maker.Text(seed, 16));
    EXPECT_EQ(beginnings.size(), 500U);
  }
}

}  // namespace
}  // namespace ashlar::load
