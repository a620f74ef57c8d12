#include "text/pair_merger.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>
#include <vector>

namespace ashlar::text {
namespace {

using Rules = std::map<std::pair<TokenId, TokenId>, Merge>;

std::vector<Symbol> SymbolsOf(const std::vector<TokenId>& tokens) {
  std::vector<Symbol> symbols;
  symbols.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) symbols.push_back({i, 1, tokens[i], Merge{}});
  return symbols;
}

std::vector<std::pair<std::size_t, TokenId>> Summary(const std::vector<Symbol>& symbols) {
  std::vector<std::pair<std::size_t, TokenId>> summary;
  summary.reserve(symbols.size());
  for (const Symbol& symbol : symbols) summary.emplace_back(symbol.begin, symbol.token);
  return summary;
}

// Byte-pair encoding as its definition says.
std::vector<TokenId> MergeSlowly(std::vector<TokenId> tokens, const Rules& rules) {
  for (;;) {
    std::size_t best = 0;
    Merge best_merge;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const auto rule = rules.find({tokens[i], tokens[i + 1]});
      if (rule == rules.end() || rule->second.rank >= best_merge.rank) continue;
      best = i;
      best_merge = rule->second;
    }
    if (best_merge.rank == Merge::kNever) return tokens;
    tokens[best] = best_merge.result;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(PairMerger, ScanAndHeapFollowTheDefinition) {
  std::mt19937 random(7);
  PairMerger merger;
  for (int round = 0; round < 2000; ++round) {
    Rules rules;
    // Results are drawn from the tokens themselves, so chains and equal ranks of one result occur.
    for (std::uint32_t rank = 0; rank < 12; ++rank) {
      const auto left = static_cast<TokenId>(random() % 6);
      const auto right = static_cast<TokenId>(random() % 6);
      rules.emplace(std::pair(left, right), Merge{rank, static_cast<TokenId>(random() % 8)});
    }
    const auto find = [&](const Symbol& left, const Symbol& right) {
      const auto rule = rules.find({left.token, right.token});
      return rule == rules.end() ? Merge{} : rule->second;
    };
    std::vector<TokenId> tokens(random() % 60);
    for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 6);
    std::vector<Symbol> scanned = SymbolsOf(tokens);
    std::vector<Symbol> heaped = scanned;
    std::vector<Symbol> chosen = scanned;
    PairMerger::Scan(scanned, find);
    merger.RunHeap(heaped, find);
    merger.Run(chosen, find);
    std::vector<TokenId> merged;
    merged.reserve(scanned.size());
    for (const Symbol& symbol : scanned) merged.push_back(symbol.token);
    ASSERT_EQ(merged, MergeSlowly(tokens, rules));
    ASSERT_EQ(Summary(scanned), Summary(heaped));
    ASSERT_EQ(Summary(scanned), Summary(chosen));
  }
}

TEST(PairMerger, NothingToMergeIsLeftAlone) {
  const auto never = [](const Symbol&, const Symbol&) { return Merge{}; };
  PairMerger merger;
  for (const std::size_t count : {0U, 1U, 2U, 33U, 100U}) {
    std::vector<Symbol> symbols = SymbolsOf(std::vector<TokenId>(count, 3));
    merger.Run(symbols, never);
    EXPECT_EQ(symbols.size(), count);
  }
}

TEST(PairMerger, JoinedSymbolsCoverTheText) {
  const auto always = [](const Symbol& left, const Symbol& right) {
    return Merge{left.bytes + right.bytes, 1};
  };
  PairMerger merger;
  std::vector<Symbol> symbols = SymbolsOf(std::vector<TokenId>(100, 1));
  merger.Run(symbols, always);
  ASSERT_EQ(symbols.size(), 1U);
  EXPECT_EQ(symbols[0].begin, 0U);
  EXPECT_EQ(symbols[0].bytes, 100U);
}

}  // namespace
}  // namespace ashlar::text
