// The tree against a plain list of nodes, with good hashes and with none.
#include "kv/prefix_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/rng.h"
#include "kv/block_key.h"

namespace ashlar::kv {
namespace {

using Tokens = std::vector<TokenId>;

constexpr std::uint32_t kBlockTokens = 16;

Tokens RandomTokens(std::uint64_t seed, std::uint64_t i, std::size_t count) {
  Tokens tokens(count);
  for (std::size_t t = 0; t < count; ++t) {
    // Long common beginnings: the last few differ.
    tokens[t] = t < 12 ? 1 : static_cast<TokenId>(RandomBits(seed, i, t) % 2);
  }
  if (RandomBits(seed, i, 99) % 4 == 0) tokens[RandomBits(seed, i, 98) % count] = 2;
  return tokens;
}

TEST(PrefixIndex, FindsANodeByParentAndTokensNotByHash) {
  PrefixIndex index({.max_nodes = 8});
  const NodeId root = *index.InsertRoot(1);
  const NodeId other = *index.InsertRoot(1);
  const Tokens a(16, 1);
  const Tokens b(16, 2);
  const NodeId node = *index.Insert(root, 42, a);
  EXPECT_EQ(index.Find(root, 42, a), node);
  EXPECT_EQ(index.Find(root, 42, b), kNoNode);
  EXPECT_EQ(index.Find(other, 42, a), kNoNode);
  EXPECT_EQ(index.Find(node, 42, a), kNoNode);
  EXPECT_EQ(index.depth(node), 0u);
  EXPECT_EQ(index.depth(*index.Insert(node, 42, a)), 1u);
}

TEST(PrefixIndex, RefusesMoreNodesThanItHasAndUsesTheirPlacesAgain) {
  PrefixIndex index({.max_nodes = 3});
  const NodeId root = *index.InsertRoot(1);
  const NodeId a = *index.Insert(root, 5, Tokens(16, 1));
  ASSERT_TRUE(index.Insert(root, 6, Tokens(16, 2)));
  EXPECT_FALSE(index.Insert(root, 7, Tokens(16, 3)));
  EXPECT_FALSE(index.InsertRoot(2));
  index.Remove(a);
  EXPECT_EQ(index.Find(root, 5, Tokens(16, 1)), kNoNode);
  EXPECT_TRUE(index.Insert(root, 7, Tokens(16, 3)));
  index.CheckInvariants();
}

TEST(PrefixIndex, NodeIsUnneededOnlyWithoutBlockChildPromiseAndReference) {
  PrefixIndex index({.max_nodes = 4});
  const NodeId root = *index.InsertRoot(1);
  const NodeId node = *index.Insert(root, 5, Tokens(16, 1));
  EXPECT_TRUE(index.is_unneeded(node));
  EXPECT_FALSE(index.is_unneeded(root));
  index.SetBlock(node, 0, BlockId(3));
  EXPECT_FALSE(index.is_unneeded(node));
  index.ClearBlock(node, 0);
  index.AddPromise(node);
  EXPECT_FALSE(index.is_unneeded(node));
  index.DropPromise(node);
  index.AddReference(node);
  EXPECT_FALSE(index.is_unneeded(node));
  index.DropReference(node);
  EXPECT_TRUE(index.is_unneeded(node));
}

TEST(PrefixIndex, OnlyNodesWithABlockInEveryGroupMatchInPart) {
  PrefixIndex index({.max_nodes = 4, .groups = 2});
  const NodeId root = *index.InsertRoot(1);
  const NodeId node = *index.Insert(root, 5, Tokens(10, 1));
  const Tokens wanted(4, 1);
  EXPECT_FALSE(index.FindPartial(root, wanted));
  index.SetBlock(node, 1, BlockId(0));
  EXPECT_FALSE(index.FindPartial(root, wanted));
  index.SetBlock(node, 0, BlockId(1));
  EXPECT_EQ(index.FindPartial(root, wanted)->tokens, 4u);
  index.ClearBlock(node, 1);
  EXPECT_FALSE(index.FindPartial(root, wanted));
}

TEST(PrefixIndex, TailBeforeALongerTextIsFoundAndItsEqualIsNot) {
  PrefixIndex index({.max_nodes = 4});
  const NodeId root = *index.InsertRoot(1);
  const NodeId tail = *index.Insert(root, 5, Tokens(10, 1));
  index.SetBlock(tail, 0, BlockId(0));
  EXPECT_EQ(index.FindTailBefore(root, Tokens(11, 1)), tail);
  EXPECT_FALSE(index.FindTailBefore(root, Tokens(10, 1)));
  EXPECT_FALSE(index.FindTailBefore(root, Tokens(9, 1)));
  EXPECT_FALSE(index.FindTailBefore(root, Tokens(11, 2)));
}

// --- Against a plain list ---

struct Listed {
  NodeId node;
  NodeId parent;
  std::uint64_t hash = 0;
  Tokens tokens;
  bool has_block = false;
  std::uint64_t age = 0;  // when it was given its block
  std::uint32_t children = 0;
};

class ListedIndex {
 public:
  ListedIndex(std::uint64_t seed, PrefixHasher hasher)
      : seed_(seed), hasher_(hasher), index_({.max_nodes = 100}) {
    roots_ = {*index_.InsertRoot(1), *index_.InsertRoot(2)};
  }

  void Step(std::uint64_t i) {
    const std::uint64_t dice = RandomBits(seed_, 1, i) % 10;
    if (dice < 5) {
      Insert(i);
    } else if (!list_.empty()) {
      Listed& one = list_[RandomBits(seed_, 2, i) % list_.size()];
      if (dice < 8) {
        one.has_block ? index_.ClearBlock(one.node, 0)
                      : index_.SetBlock(one.node, 0, BlockId(one.node.value()));
        one.has_block = !one.has_block;
        one.age = i;
      } else {
        Remove(one);
      }
    }
    Look(i);
    index_.CheckInvariants();
  }

 private:
  NodeId AnyParent(std::uint64_t i) const {
    const std::uint64_t chosen = RandomBits(seed_, 3, i) % (list_.size() / 4 + 2);
    if (chosen < 2) return roots_[chosen];
    const Listed& one = list_[chosen - 2];
    return one.tokens.size() == kBlockTokens ? one.node : roots_[0];
  }
  Tokens AnyTokens(std::uint64_t i) const {
    const bool is_whole = RandomBits(seed_, 4, i) % 2 == 0;
    return RandomTokens(seed_, i, is_whole ? kBlockTokens : 1 + RandomBits(seed_, 5, i) % 15);
  }
  Listed* Find(NodeId node) {
    const auto found = std::ranges::find(list_, node, &Listed::node);
    return found == list_.end() ? nullptr : &*found;
  }
  bool Has(NodeId parent, const Tokens& tokens) const {
    return std::ranges::any_of(
        list_, [&](const Listed& one) { return one.parent == parent && one.tokens == tokens; });
  }

  void Insert(std::uint64_t i) {
    const NodeId parent = AnyParent(i);
    const Tokens tokens = AnyTokens(i);
    if (Has(parent, tokens)) return;
    const std::uint64_t hash = hasher_(index_.hash(parent), tokens);
    const std::optional<NodeId> node = index_.Insert(parent, hash, tokens);
    ASSERT_EQ(node.has_value(), list_.size() + roots_.size() < 100);
    if (!node) return;
    if (Listed* const above = Find(parent)) ++above->children;
    list_.push_back({.node = *node, .parent = parent, .hash = hash, .tokens = tokens});
  }
  void Remove(const Listed& one) {
    ASSERT_EQ(index_.is_unneeded(one.node), !one.has_block && one.children == 0);
    if (one.has_block || one.children > 0) return;
    index_.Remove(one.node);
    if (Listed* const above = Find(one.parent)) --above->children;
    list_.erase(list_.begin() + (&one - list_.data()));
  }

  void Look(std::uint64_t i) {
    const NodeId parent = AnyParent(i + 1'000'000);
    const Tokens tokens = AnyTokens(i / 2);
    NodeId same = kNoNode;
    std::size_t longest = 0;
    std::size_t tail = 0;  // tokens
    NodeId eldest = kNoNode;
    std::uint64_t age = 0;
    for (const Listed& one : list_) {
      if (one.parent != parent) continue;
      if (one.tokens == tokens && tokens.size() == kBlockTokens) same = one.node;
      if (!one.has_block) continue;
      const auto [a, b] = std::ranges::mismatch(one.tokens, tokens);
      const auto common = static_cast<std::size_t>(b - tokens.begin());
      if (common > longest || (common == longest && one.age < age)) {
        longest = common;
        eldest = one.node;
        age = one.age;
      }
      if (a == one.tokens.end() && b != tokens.end()) tail = std::max(tail, common);
    }
    ASSERT_EQ(index_.Find(parent, hasher_(index_.hash(parent), tokens), tokens), same);
    const std::optional<PartialMatch> part = index_.FindPartial(parent, tokens);
    ASSERT_EQ(part ? part->tokens : 0, longest);
    if (part) {
      ASSERT_EQ(part->node, eldest);
    }
    const std::optional<NodeId> found = index_.FindTailBefore(parent, tokens);
    ASSERT_EQ(found.has_value(), tail > 0);
    if (found) {
      const Listed& one = *Find(*found);
      ASSERT_TRUE(one.has_block && one.parent == parent);
      ASSERT_EQ(one.tokens,
                Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(tail)));
    }
  }

  std::uint64_t seed_;
  PrefixHasher hasher_;
  PrefixIndex index_;
  std::vector<NodeId> roots_;
  std::vector<Listed> list_;
};

TEST(PrefixIndex, AgreesWithAPlainListOfNodes) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    ListedIndex index(seed, NextHash);
    for (std::uint64_t i = 0; i < 1000; ++i) ASSERT_NO_FATAL_FAILURE(index.Step(i));
  }
}

TEST(PrefixIndex, AgreesWithAPlainListWhereAllHashesCollide) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    ListedIndex index(seed,
                      [](std::uint64_t, std::span<const TokenId>) -> std::uint64_t { return 42; });
    for (std::uint64_t i = 0; i < 1000; ++i) ASSERT_NO_FATAL_FAILURE(index.Step(i));
  }
}

}  // namespace
}  // namespace ashlar::kv
