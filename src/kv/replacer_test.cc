// The order over owners: stale, level, age; ends of levels; and whose blocks may be lost.
#include "kv/replacer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "base/rng.h"

namespace ashlar::kv {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

constexpr auto kAnyone = [](AccountId) { return true; };

IdleBlock Idle(std::uint8_t level, std::int64_t deadline_ns = 0) {
  return {.level = level, .deadline_ns = deadline_ns};
}

std::vector<std::uint32_t> ReplaceAll(Replacer& replacer) {
  std::vector<std::uint32_t> order;
  while (const auto victim = replacer.FindVictim(std::nullopt, kAnyone)) {
    order.push_back(victim->block.value());
    replacer.OnDrop(victim->block);
    replacer.CheckInvariants();
  }
  return order;
}

TEST(Replacer, LowestLevelLeavesFirstAndThenTheLongestIdle) {
  Replacer replacer(ReplacementKind::kLru, 8, 1);
  for (const auto& [block, level] : {std::pair{0, 3}, {1, 7}, {2, 0}, {3, 3}, {4, 0}}) {
    replacer.OnIdle(BlockId(static_cast<std::uint32_t>(block)),
                    Idle(static_cast<std::uint8_t>(level)));
  }
  EXPECT_EQ(ReplaceAll(replacer), (std::vector<std::uint32_t>{2, 4, 0, 3, 1}));
}

TEST(Replacer, AgeDecidesBetweenAccountsAndGroups) {
  Replacer replacer(ReplacementKind::kLru, 8, 3);
  for (std::uint32_t i = 0; i < 8; ++i) {
    replacer.OnIdle(BlockId(i),
                    {.account = AccountId(static_cast<std::uint16_t>(i % 2)), .group = i % 3});
  }
  EXPECT_EQ(ReplaceAll(replacer), (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Replacer, OnlyTheGroupAskedForAndTheAccountsThatMayLose) {
  Replacer replacer(ReplacementKind::kLru, 8, 2);
  replacer.OnIdle(BlockId(0), {.account = AccountId(1), .group = 0});
  replacer.OnIdle(BlockId(1), {.account = AccountId(2), .group = 1});
  replacer.OnIdle(BlockId(2), {.account = AccountId(2), .group = 0});
  const auto second = [](AccountId account) { return account == AccountId(2); };
  EXPECT_EQ(replacer.FindVictim(std::nullopt, second)->block, BlockId(1));
  EXPECT_EQ(replacer.FindVictim(0, second)->block, BlockId(2));
  EXPECT_EQ(replacer.FindVictim(1, kAnyone)->group, 1u);
  EXPECT_FALSE(replacer.FindVictim(1, [](AccountId id) { return id == AccountId(1); }));
}

TEST(Replacer, StaleBlocksLeaveFirstAlsoOfAccountsThatMayNotLose) {
  Replacer replacer(ReplacementKind::kLru, 8, 1);
  replacer.OnIdle(BlockId(0), Idle(7));
  replacer.OnIdle(BlockId(1), Idle(0));
  replacer.MarkAllStale();
  replacer.OnIdle(BlockId(2), Idle(0));
  const auto nobody = [](AccountId) { return false; };
  EXPECT_EQ(replacer.FindVictim(std::nullopt, nobody)->block, BlockId(1));
  EXPECT_EQ(ReplaceAll(replacer), (std::vector<std::uint32_t>{1, 0, 2}));
}

TEST(Replacer, BlockInUseIsNoVictim) {
  Replacer replacer(ReplacementKind::kLru, 4, 1);
  replacer.OnIdle(BlockId(0), Idle(3));
  replacer.OnIdle(BlockId(1), Idle(3));
  replacer.OnUse(BlockId(0));
  EXPECT_EQ(replacer.idle_blocks(), 1u);
  EXPECT_EQ(replacer.FindVictim(std::nullopt, kAnyone)->block, BlockId(1));
  replacer.OnUse(BlockId(1));
  EXPECT_FALSE(replacer.FindVictim(std::nullopt, kAnyone));
}

TEST(Replacer, HeadIsNoVictimWhateverItsLevelUntilItsChildHasGone) {
  Replacer replacer(ReplacementKind::kLru, 4, 1);
  replacer.OnIdle(BlockId(0), Idle(0));
  replacer.OnFirstChild(BlockId(0));
  replacer.OnIdle(BlockId(1), Idle(7));
  EXPECT_EQ(replacer.FindVictim(std::nullopt, kAnyone)->block, BlockId(1));
  replacer.OnDrop(BlockId(1));
  replacer.OnLastChildGone(BlockId(0));
  EXPECT_EQ(replacer.FindVictim(std::nullopt, kAnyone)->block, BlockId(0));
}

TEST(Replacer, LevelsEndAtTheirDeadlineHoweverFarAwayAndHoweverTimeJumps) {
  // The wheel turns once in 102.4 s.
  for (const std::int64_t deadline : {kSecond / 100, kSecond, 102 * kSecond, 5000 * kSecond}) {
    for (const std::int64_t step : {kSecond / 10, 7 * kSecond, 10'000 * kSecond}) {
      if (deadline / step > 100'000) continue;
      Replacer replacer(ReplacementKind::kLru, 4, 1);
      replacer.OnIdle(BlockId(0), Idle(7, deadline));
      std::int64_t now = 0;
      bool has_ended = false;
      for (std::uint32_t other = 1; now < deadline + step; now += step) {
        replacer.Advance(now);
        replacer.OnIdle(BlockId(other), Idle(3));
        const bool is_first = replacer.FindVictim(std::nullopt, kAnyone)->block == BlockId(0);
        EXPECT_TRUE(!is_first || now >= deadline) << now << " of " << deadline;
        has_ended = has_ended || is_first;
        replacer.OnDrop(BlockId(other));
        replacer.CheckInvariants();
      }
      replacer.Advance(deadline + kSecond / 10);  // at most one tick late
      replacer.OnIdle(BlockId(1), Idle(3));
      EXPECT_EQ(replacer.FindVictim(std::nullopt, kAnyone)->block, BlockId(0));
    }
  }
}

TEST(Replacer, UsedBlockTakesItsNextDeadlineOnly) {
  Replacer replacer(ReplacementKind::kLru, 4, 1);
  replacer.OnIdle(BlockId(0), Idle(7, kSecond));
  replacer.OnUse(BlockId(0));
  replacer.OnIdle(BlockId(0), Idle(7, 10 * kSecond));
  replacer.Advance(5 * kSecond);
  replacer.OnIdle(BlockId(1), Idle(3));
  EXPECT_EQ(replacer.FindVictim(std::nullopt, kAnyone)->block, BlockId(1));
  replacer.Advance(11 * kSecond);
  replacer.OnIdle(BlockId(2), Idle(3));
  EXPECT_EQ(ReplaceAll(replacer), (std::vector<std::uint32_t>{1, 0, 2}));
}

// Under lru the whole order is (stale first, level, idle since), which a map can keep.
TEST(Replacer, AgreesWithASortedListOfAll) {
  constexpr std::uint32_t kBlocks = 24;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    Replacer replacer(ReplacementKind::kLru, kBlocks, 2);
    struct Known {
      bool is_idle = false;
      std::tuple<bool, std::uint8_t, std::uint64_t> rank;
      std::uint32_t group = 0;
      AccountId account;
    };
    std::map<std::uint32_t, Known> known;
    for (std::uint64_t i = 0; i < 2000; ++i) {
      const auto id = static_cast<std::uint32_t>(RandomBits(seed, 1, i) % kBlocks);
      const std::uint64_t kind = RandomBits(seed, 2, i) % 200;
      const auto found = known.find(id);
      if (found != known.end() && kind < 60) {
        replacer.OnDrop(BlockId(id));
        known.erase(found);
      } else if (found != known.end() && found->second.is_idle) {
        replacer.OnUse(BlockId(id));
        found->second.is_idle = false;
      } else {
        const auto level = static_cast<std::uint8_t>(RandomBits(seed, 3, i) % kRetentionLevels);
        Known& block = known[id];
        block = {.is_idle = true,
                 .rank = {true, level, i},
                 .group = id % 2,
                 .account = AccountId(static_cast<std::uint16_t>(id % 3))};
        replacer.OnIdle(BlockId(id),
                        {.account = block.account, .group = block.group, .level = level});
      }
      if (kind == 199) {
        replacer.MarkAllStale();
        for (auto& [block, one] : known) std::get<0>(one.rank) = false;
      }
      const AccountId spared(static_cast<std::uint16_t>(RandomBits(seed, 4, i) % 4));
      const auto group = static_cast<std::uint32_t>(RandomBits(seed, 5, i) % 3);
      const Known* best = nullptr;
      std::uint32_t best_id = 0;
      for (const auto& [block, one] : known) {
        const bool is_stale = !std::get<0>(one.rank);
        if (!one.is_idle || (group < 2 && one.group != group)) continue;
        if (!is_stale && one.account == spared) continue;
        if (best != nullptr && best->rank < one.rank) continue;
        best = &one;
        best_id = block;
      }
      const auto victim =
          replacer.FindVictim(group < 2 ? std::optional(group) : std::nullopt,
                              [spared](AccountId account) { return account != spared; });
      ASSERT_EQ(victim.has_value(), best != nullptr) << "step " << i;
      ASSERT_EQ(victim ? victim->block.value() : best_id, best_id) << "step " << i;
      if (i % 50 == 0) replacer.CheckInvariants();
    }
  }
}

}  // namespace
}  // namespace ashlar::kv
