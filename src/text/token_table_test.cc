#include "text/token_table.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace ashlar::text {
namespace {

TEST(TokenTable, FindsWhatWasInsertedAndNothingElse) {
  std::vector<std::string> texts;
  texts.reserve(1000);
  for (int i = 0; i < 1000; ++i)
    texts.push_back(std::string(static_cast<std::size_t>(i % 20), 'x') + std::to_string(i));
  TokenTable table(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    ASSERT_EQ(table.Insert(texts[i], static_cast<TokenId>(i)), TokenTable::Inserted::kYes);
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(table.Find(texts[i]), static_cast<TokenId>(i));
    EXPECT_EQ(table.Find(texts[i] + "?"), std::nullopt);
  }
  EXPECT_EQ(table.Find(""), std::nullopt);
}

TEST(TokenTable, KeepsTheFirstOfTwoEqualTexts) {
  TokenTable table(2);
  EXPECT_EQ(table.Insert("a", 7), TokenTable::Inserted::kYes);
  EXPECT_EQ(table.Insert("a", 8), TokenTable::Inserted::kAlreadyThere);
  EXPECT_EQ(table.Find("a"), 7);
}

TEST(TokenTable, AnEmptyTableFindsNothing) { EXPECT_EQ(TokenTable().Find("a"), std::nullopt); }

TEST(TokenTable, RefusesTextsMadeToCollide) {
  // Texts whose hashes agree in the bits that choose the slot.
  constexpr std::size_t kKeys = 700;
  constexpr std::uint64_t kMask = 2047;  // of the 2048 slots such a table has
  std::vector<std::string> texts;
  for (std::uint64_t i = 0; texts.size() <= kMaxTableProbes; ++i) {
    std::string text(sizeof(i), '\0');
    std::memcpy(text.data(), &i, sizeof(i));
    if ((HashText(text) & kMask) == 0) texts.push_back(text);
  }
  TokenTable table(kKeys);
  for (std::size_t i = 0; i < kMaxTableProbes; ++i) {
    ASSERT_EQ(table.Insert(texts[i], 1), TokenTable::Inserted::kYes);
  }
  EXPECT_EQ(table.Insert(texts[kMaxTableProbes], 1), TokenTable::Inserted::kTooManyCollisions);
}

TEST(MergeTable, FindsMergesByOrderedPair) {
  MergeTable table(3);
  EXPECT_EQ(table.Insert(1, 2, {5, 12}), TokenTable::Inserted::kYes);
  EXPECT_EQ(table.Insert(2, 1, {6, 21}), TokenTable::Inserted::kYes);
  EXPECT_EQ(table.Insert(1, 2, {7, 99}), TokenTable::Inserted::kAlreadyThere);
  EXPECT_EQ(table.Find(1, 2).result, 12);
  EXPECT_EQ(table.Find(2, 1).rank, 6U);
  EXPECT_EQ(table.Find(2, 2).rank, Merge::kNever);
}

TEST(MergeTable, MissingTokensMergeWithNothing) {
  MergeTable table(1);
  ASSERT_EQ(table.Insert(0, 0, {0, 1}), TokenTable::Inserted::kYes);
  EXPECT_EQ(table.Find(-1, -1).rank, Merge::kNever);
  EXPECT_EQ(table.Find(-1, 0).rank, Merge::kNever);
  EXPECT_EQ(table.Find(0, -1).rank, Merge::kNever);
}

}  // namespace
}  // namespace ashlar::text
