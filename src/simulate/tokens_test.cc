#include "simulate/tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace ashlar::simulate {
namespace {

std::vector<TokenId> TokensOf(const trace::Request& request, std::uint64_t number = 0,
                              std::uint64_t block_tokens = 8) {
  std::vector<TokenId> tokens;
  MakeTokens(request, number, block_tokens, tokens);
  return tokens;
}

std::size_t Shared(const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

TEST(Tokens, EqualIdsAreEqualTokensAndTheRestIsTheRequestsOwn) {
  const trace::Request a = {.input_tokens = 20, .output_tokens = 5, .hash_ids = {7, 8, 9}};
  trace::Request b = a;
  EXPECT_EQ(TokensOf(a).size(), 25U);
  EXPECT_EQ(TokensOf(a), TokensOf(a));
  EXPECT_EQ(Shared(TokensOf(a, 0), TokensOf(b, 1)), 20U);
  b.hash_ids[1] = 88;
  EXPECT_EQ(Shared(TokensOf(a), TokensOf(b)), 8U);
  b.hash_ids.clear();
  EXPECT_EQ(Shared(TokensOf(a), TokensOf(b)), 0U);
  for (const TokenId token : TokensOf(a)) EXPECT_GE(token, 0);
}

TEST(Tokens, IdsBeyondThePromptNameTheOutput) {
  const trace::Request turn = {.input_tokens = 16, .output_tokens = 8, .hash_ids = {1, 2, 3}};
  const trace::Request next = {.input_tokens = 32, .output_tokens = 8, .hash_ids = {1, 2, 3, 4, 5}};
  EXPECT_EQ(Shared(TokensOf(turn, 0), TokensOf(next, 1)), 24U);
  // The output's last block is only begun: its id names a block that is whole elsewhere.
  const trace::Request short_turn = {.input_tokens = 16, .output_tokens = 3, .hash_ids = {1, 2, 3}};
  EXPECT_EQ(Shared(TokensOf(short_turn, 0), TokensOf(next, 1)), 19U);
}

TEST(Tokens, NamesOfPrefixesAreTokens) {
  const trace::Request request = {.input_tokens = 2, .output_tokens = 1, .prefixes = {5, 6, 7}};
  EXPECT_EQ(TokensOf(request), (std::vector<TokenId>{5, 6, 7}));
}

TEST(Tokens, DifferentIdsAreDifferentTokensWhateverTheyAre) {
  std::set<std::vector<TokenId>> all;
  std::vector<std::uint64_t> ids = {0, 1, 2, 15, 16, 17, ~std::uint64_t{0}};
  for (std::uint32_t bit = 0; bit < 64; ++bit) ids.push_back((std::uint64_t{1} << bit) + 3);
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
  for (const std::uint64_t id : ids) {
    std::vector<TokenId> tokens;
    AppendId(id, tokens);
    EXPECT_EQ(tokens.size(), kIdTokens);
    EXPECT_TRUE(all.insert(tokens).second) << id;
  }
}

TEST(Tokens, BlocksAreNamedByAllBeforeThem) {
  std::vector<std::uint64_t> a;
  std::vector<std::uint64_t> b;
  NameBlocks({1, 2, 3, 4, 5}, 2, a);
  NameBlocks({1, 2, 9, 4, 3, 4}, 2, b);
  ASSERT_EQ(a.size(), 2U);
  ASSERT_EQ(b.size(), 3U);
  EXPECT_EQ(a[0], b[0]);
  EXPECT_NE(a[1], b[1]);
  EXPECT_NE(a[1], b[2]);
}

}  // namespace
}  // namespace ashlar::simulate
