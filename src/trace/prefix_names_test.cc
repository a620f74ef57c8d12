#include "trace/prefix_names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

namespace ashlar::trace {
namespace {

// Appendix A of the paper.
TEST(SipHash, IsThePapers) {
  const NamingKey key = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
  std::string bytes(15, 0);
  std::iota(bytes.begin(), bytes.end(), 0);
  EXPECT_EQ(SipHash(key, bytes), 0xa129ca6149be45e5U);
  EXPECT_EQ(SipHash(key, ""), 0x726fdb47dd0e0e31U);
  EXPECT_EQ(SipHash(key, bytes.substr(0, 8)), 0x93f5f5799a932462U);
}

std::vector<std::uint32_t> NamesOf(const NamingKey& key, const std::vector<TokenId>& tokens) {
  PrefixNamer namer(key);
  namer.Add(tokens);
  return namer.names();
}

TEST(PrefixNames, AreEqualAsFarAsPrefixesAre) {
  const NamingKey key = {1, 2};
  const auto a = NamesOf(key, {5, 6, 7, 8, 9});
  const auto b = NamesOf(key, {5, 6, 9, 8, 9});
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 2, b.begin()));
  for (std::size_t i = 2; i < a.size(); ++i) EXPECT_NE(a[i], b[i]);
  const auto other_key = NamesOf({1, 3}, {5, 6, 7, 8, 9});
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NE(a[i], other_key[i]);
  EXPECT_EQ(NamesOf(key, {5, 6}), std::vector(a.begin(), a.begin() + 2));
}

TEST(PrefixNames, AreTheSameTokenByToken) {
  PrefixNamer namer({1, 2});
  for (const TokenId token : {5, 6, 7}) namer.Add(token);
  EXPECT_EQ(namer.names(), NamesOf({1, 2}, {5, 6, 7}));
}

TEST(PrefixNames, AsTextAndBack) {
  const std::vector<std::uint32_t> names = {0, 1, 0xFFFFFF, 0xABCDEF};
  EXPECT_EQ(EncodeNames(names), "AAAAAAAB////q83v");
  EXPECT_EQ(DecodeNames("AAAAAAAB////q83v"), names);
  EXPECT_EQ(DecodeNames(""), std::vector<std::uint32_t>());
  for (const char* const bad : {"A", "AAAAA", "AAA=", "AAA ", "AAA\xFF"}) {
    EXPECT_EQ(DecodeNames(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace ashlar::trace
