#include "kv/block_key.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace ashlar::kv {
namespace {

using Tokens = std::vector<TokenId>;

ScopeDigest ExampleScope() { return DigestOf({.model_fingerprint = "model"}); }

// python3, hashlib alone:
//   import hashlib, struct
//   def key(parent, tokens):
//       return hashlib.sha256(b'\x4b' + parent + struct.pack('<I', len(tokens))
//                             + struct.pack(f'<{len(tokens)}i', *tokens)).digest()
//   root = bytes(range(32))
//   first = key(root, range(16))
//   second = key(first, [2**31 - 1, -1, 0, 128000] * 4)
//   third = key(second, range(0, 256 * 500, 500))
//   for k in (first, second, third, key(root, [])): print(k.hex())
TEST(BlockKey, IsTheOneOtherProcessesCompute) {
  ScopeDigest scope;
  Tokens first, second, third;
  for (int i = 0; i < 32; ++i) scope.bytes[i] = static_cast<std::uint8_t>(i);
  for (TokenId i = 0; i < 16; ++i) first.push_back(i);
  for (int i = 0; i < 4; ++i) {
    for (const TokenId token : {std::numeric_limits<TokenId>::max(), -1, 0, 128000}) {
      second.push_back(token);
    }
  }
  for (TokenId i = 0; i < 256; ++i) third.push_back(i * 500);

  KeyHasher hasher;
  BlockKey key = hasher.NextKey(RootKey(scope), first);
  EXPECT_EQ(key.ToHex(), "2bcbf8f19269b0971e5de0f82a42618caf5c2a437a689cf682d1192dc157f98f");
  key = hasher.NextKey(key, second);
  EXPECT_EQ(key.ToHex(), "640a0d2fd9c5dfd2cc34342c46ac2d119acb3c4f292588809c1491beaca8549b");
  key = hasher.NextKey(key, third);
  EXPECT_EQ(key.ToHex(), "2e9f2401ef6b41e0bb1832c1a8a8aa8b01d887e0db107d067d9a8d0bbea47d77");
  EXPECT_EQ(hasher.NextKey(RootKey(scope), {}).ToHex(),
            "3bd58042089f2d5518dd5aa81af1fca74eca53ba169de9a64a4ae9ae121f3262");
}

TEST(BlockKey, ABlockIsItsTokensAfterItsPrefixInItsScope) {
  KeyHasher hasher;
  const BlockKey root = RootKey(ExampleScope());
  const BlockKey other_root = RootKey(DigestOf({.model_fingerprint = "other"}));
  const BlockKey key = hasher.NextKey(root, Tokens{1, 2, 3, 4});
  EXPECT_EQ(key, KeyHasher().NextKey(root, Tokens{1, 2, 3, 4}));
  EXPECT_NE(key, hasher.NextKey(root, Tokens{1, 2, 3, 5}));
  EXPECT_NE(key, hasher.NextKey(other_root, Tokens{1, 2, 3, 4}));
  // The same tokens, cut differently or in another place, are other blocks.
  EXPECT_NE(key, hasher.NextKey(hasher.NextKey(root, Tokens{1, 2}), Tokens{3, 4}));
  EXPECT_NE(key, hasher.NextKey(key, Tokens{1, 2, 3, 4}));
}

TEST(BlockKey, KeysAreEqualExactlyWhenChainsAre) {
  std::mt19937 random(1);
  KeyHasher hasher;
  std::map<BlockKey, Tokens> prefixes;
  for (int i = 0; i < 300; ++i) {
    BlockKey key = RootKey(ExampleScope());
    Tokens prefix;
    for (int depth = 0; depth < 8; ++depth) {
      const Tokens block = {static_cast<TokenId>(random() % 2), static_cast<TokenId>(random() % 2)};
      prefix.insert(prefix.end(), block.begin(), block.end());
      key = hasher.NextKey(key, block);
      ASSERT_EQ(prefixes.try_emplace(key, prefix).first->second, prefix);
    }
  }
  EXPECT_GT(prefixes.size(), 500u);
}

TEST(BlockKey, AMovedHasherGoesOn) {
  KeyHasher a;
  const BlockKey key = a.NextKey({}, Tokens{1});
  KeyHasher b = std::move(a);
  EXPECT_EQ(b.NextKey({}, Tokens{1}), key);
}

TEST(BlockKey, PrintsAsLowerCaseHex) {
  BlockKey key;
  key.bytes[0] = 0x0A;
  key.bytes[31] = 0xF5;
  EXPECT_EQ(key.ToHex(), "0a" + std::string(60, '0') + "f5");
}

TEST(PrefixHash, DependsOnEveryTokenItsPlaceAndTheParent) {
  std::mt19937 random(2);
  std::map<std::uint64_t, std::pair<std::uint64_t, Tokens>> seen;
  const auto expect_new = [&](std::uint64_t parent, const Tokens& tokens) {
    const auto [known, is_new] = seen.try_emplace(NextHash(parent, tokens), parent, tokens);
    ASSERT_EQ(known->second, std::pair(parent, tokens));
  };
  for (const std::size_t block_tokens : {1, 15, 16, 64, 256}) {
    Tokens tokens(block_tokens);
    for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 128000);
    for (std::uint64_t parent = 0; parent < 8; ++parent) expect_new(parent, tokens);
    for (std::size_t i = 0; i < block_tokens; ++i) {
      Tokens changed = tokens;
      changed[i] ^= 1;
      expect_new(0, changed);
      std::swap(changed[i], changed[0]);
      expect_new(0, changed);
    }
  }
}

TEST(PrefixHash, RootsOfDifferentScopesDiffer) {
  EXPECT_NE(RootHash(DigestOf({.tenant_salt = "a"})), RootHash(DigestOf({.tenant_salt = "b"})));
}

TEST(ChainHashes, HasOneHashPerFullBlock) {
  const Tokens tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<std::uint64_t> hashes = {42};  // replaced
  for (const std::size_t count : {0, 1, 3}) {
    ChainHashes(7, std::span(tokens).first(count), 4, hashes);
    EXPECT_TRUE(hashes.empty()) << count;
  }
  for (const std::size_t count : {4, 5, 7}) {
    ChainHashes(7, std::span(tokens).first(count), 4, hashes);
    EXPECT_EQ(hashes, std::vector{NextHash(7, Tokens{1, 2, 3, 4})}) << count;
  }
  ChainHashes(7, tokens, 4, hashes);
  ASSERT_EQ(hashes.size(), 2u);
  EXPECT_EQ(hashes[1], NextHash(hashes[0], Tokens{5, 6, 7, 8}));
}

TEST(ChainHashes, AgreeAsFarAsThePrefixesDo) {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    Tokens a(1 + random() % 100);
    for (TokenId& token : a) token = static_cast<TokenId>(random() % 1000);
    Tokens b = a;
    const std::size_t changed = random() % b.size();
    b[changed] ^= 1;
    std::vector<std::uint64_t> hashes_a, hashes_b;
    ChainHashes(0, a, 16, hashes_a);
    ChainHashes(0, b, 16, hashes_b);
    ASSERT_EQ(hashes_a.size(), hashes_b.size());
    for (std::size_t block = 0; block < hashes_a.size(); ++block) {
      ASSERT_EQ(hashes_a[block] == hashes_b[block], block < changed / 16);
    }
  }
}

TEST(ChainHashes, CanBeMadeToCollide) {
  const PrefixHasher constant = [](std::uint64_t, std::span<const TokenId>) {
    return std::uint64_t{5};
  };
  std::vector<std::uint64_t> hashes;
  ChainHashes(0, Tokens{1, 2, 3}, 1, hashes, constant);
  EXPECT_EQ(hashes, (std::vector<std::uint64_t>{5, 5, 5}));
}

}  // namespace
}  // namespace ashlar::kv
