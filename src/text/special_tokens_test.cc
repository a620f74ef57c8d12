#include "text/special_tokens.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

namespace ashlar::text {
namespace {

// What SpecialTokens must find, by looking at everything.
std::optional<SpecialTokens::Found> FindSlowly(const std::vector<std::string>& texts,
                                               std::string_view text, std::size_t from) {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    std::optional<SpecialTokens::Found> best;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (!text.substr(begin).starts_with(texts[i]) || (best && best->bytes >= texts[i].size()))
        continue;
      best = SpecialTokens::Found{begin, texts[i].size(), static_cast<TokenId>(i)};
    }
    if (best) return best;
  }
  return std::nullopt;
}

TEST(SpecialTokens, FindsNothingWithoutEntries) {
  EXPECT_FALSE(SpecialTokens().FindFrom("anything", 0).has_value());
}

TEST(SpecialTokens, TheLeftmostWinsThenTheLongest) {
  const SpecialTokens tokens(
      std::vector<SpecialTokens::Entry>{{"ab", 0}, {"abcd", 1}, {"bcdefg", 2}});
  const auto longest = tokens.FindFrom("xabcdefg", 0);
  ASSERT_TRUE(longest.has_value());
  EXPECT_EQ(longest->begin, 1U);
  EXPECT_EQ(longest->token, 1);
  const auto shorter = tokens.FindFrom("xabce", 0);
  ASSERT_TRUE(shorter.has_value());
  EXPECT_EQ(shorter->token, 0);
  EXPECT_FALSE(tokens.FindFrom("xabcde", 3).has_value());
}

TEST(SpecialTokens, AgreesWithExhaustiveSearch) {
  std::mt19937 random(1);
  const auto draw = [&](std::size_t max_bytes) {
    std::string text(1 + random() % max_bytes, '\0');
    for (char& c : text) c = "ab\xFF"[random() % 3];
    return text;
  };
  for (int round = 0; round < 300; ++round) {
    std::set<std::string> unique;
    for (std::size_t i = 0; i < 1 + random() % 12; ++i) unique.insert(draw(6));
    const std::vector<std::string> texts(unique.begin(), unique.end());
    std::vector<SpecialTokens::Entry> entries;
    entries.reserve(texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i)
      entries.push_back({texts[i], static_cast<TokenId>(i)});
    std::shuffle(entries.begin(), entries.end(), random);
    const SpecialTokens tokens(entries);
    const std::string text = draw(40);
    for (std::size_t from = 0; from <= text.size(); ++from) {
      const auto found = tokens.FindFrom(text, from);
      const auto wanted = FindSlowly(texts, text, from);
      ASSERT_EQ(found.has_value(), wanted.has_value());
      if (!found) continue;
      ASSERT_EQ(found->begin, wanted->begin);
      ASSERT_EQ(found->token, wanted->token);
      ASSERT_EQ(found->bytes, wanted->bytes);
    }
  }
}

}  // namespace
}  // namespace ashlar::text
