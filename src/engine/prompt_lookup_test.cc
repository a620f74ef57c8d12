#include "engine/prompt_lookup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace ashlar::engine {
namespace {

using Tokens = std::vector<TokenId>;

Tokens LookUp(const Tokens& text, std::size_t count) {
  const std::span<const TokenId> found = LookUpPrompt(text, count);
  return {found.begin(), found.end()};
}

TEST(LookUpPrompt, GoesOnAsTheTextDidThen) {
  EXPECT_EQ(LookUp({1, 2, 3, 4, 5, 9, 1, 2, 3}, 2), (Tokens{4, 5}));
  EXPECT_EQ(LookUp({1, 2, 3, 4, 5, 9, 1, 2, 3}, 100), (Tokens{4, 5, 9, 1, 2, 3}));
}

TEST(LookUpPrompt, FindsNothingInTextsThatDoNotRepeat) {
  EXPECT_TRUE(LookUp({}, 4).empty());
  EXPECT_TRUE(LookUp({7}, 4).empty());
  EXPECT_TRUE(LookUp({7, 7}, 4).empty());
  EXPECT_TRUE(LookUp({1, 2, 3, 9, 3}, 4).empty());  // one token is no match
}

TEST(LookUpPrompt, LongerMatchesGoBeforeLaterOnes) {
  EXPECT_EQ(LookUp({5, 1, 2, 8, 6, 1, 2, 9, 5, 1, 2}, 1), (Tokens{8}));
  EXPECT_EQ(LookUp({4, 1, 2, 8, 6, 1, 2, 9, 5, 1, 2}, 1), (Tokens{9}));
}

TEST(LookUpPrompt, ARunGoesOn) { EXPECT_EQ(LookUp({3, 7, 7, 7}, 4), (Tokens{7})); }

// Against every pair of suffix and earlier place.
TEST(LookUpPrompt, AgreesWithTryingEveryMatch) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    Tokens text(random() % 40);
    for (TokenId& token : text) token = static_cast<TokenId>(random() % 3);
    Tokens want;
    for (std::size_t length = kLongestMatch; length >= kShortestMatch && want.empty(); --length) {
      for (std::size_t end = text.size(); end-- > length;) {
        if (!std::equal(text.end() - static_cast<std::ptrdiff_t>(length), text.end(),
                        text.begin() + static_cast<std::ptrdiff_t>(end - length))) {
          continue;
        }
        const auto from = text.begin() + static_cast<std::ptrdiff_t>(end);
        want.assign(from, from + std::min<std::ptrdiff_t>(5, text.end() - from));
        break;
      }
    }
    ASSERT_EQ(LookUp(text, 5), want) << round;
  }
}

}  // namespace
}  // namespace ashlar::engine
