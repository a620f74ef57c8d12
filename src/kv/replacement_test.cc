// What each policy is for, and the rules that hold for all; replacement_model_test.cc compares
// them with models in every detail.
#include "kv/replacement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "kv/replacement/records.h"

namespace ashlar::kv {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// One queue over blocks 0 .. blocks - 1.
class Bench {
 public:
  Bench(ReplacementKind kind, std::uint32_t blocks)
      : records_(MakeReplacementRecords(blocks)), queue_(MakeReplacementQueue(kind, *records_)) {}

  ReplacementQueue* operator->() { return queue_.get(); }
  ReplacementRecords& records() { return *records_; }

  void Idle(std::initializer_list<std::uint32_t> blocks, std::uint32_t depth_tokens = 0) {
    for (const std::uint32_t block : blocks) {
      queue_->OnIdle(BlockId(block), {.content = block, .depth_tokens = depth_tokens});
    }
    queue_->CheckInvariants();
  }
  void Use(std::initializer_list<std::uint32_t> blocks) {
    for (const std::uint32_t block : blocks) queue_->OnUse(BlockId(block));
    queue_->CheckInvariants();
  }
  // Used and idle again, `times` over.
  void Hit(std::uint32_t block, int times = 1) {
    for (int i = 0; i < times; ++i) {
      Use({block});
      Idle({block});
    }
  }

  std::optional<std::uint32_t> Replace() {
    const std::optional<BlockId> victim = queue_->Victim();
    if (!victim) return std::nullopt;
    queue_->OnDrop(*victim);
    queue_->CheckInvariants();
    return victim->value();
  }
  std::vector<std::uint32_t> ReplaceAll() {
    std::vector<std::uint32_t> order;
    while (const std::optional<std::uint32_t> block = Replace()) order.push_back(*block);
    return order;
  }

 private:
  ReplacementRecordsPtr records_;
  std::unique_ptr<ReplacementQueue> queue_;
};

// A cache of single blocks: a content that is asked for is hit, or replaces a victim.
class FlatCache {
 public:
  FlatCache(ReplacementKind kind, std::uint32_t blocks) : bench_(kind, blocks), free_(blocks) {
    std::iota(free_.rbegin(), free_.rend(), 0);
  }

  void Read(std::uint64_t content) {
    if (Has(content)) {
      bench_->OnUse(BlockId(blocks_.at(content)));
    } else {
      if (free_.empty()) Replace();
      blocks_[content] = free_.back();
      free_.pop_back();
    }
    bench_->OnIdle(BlockId(blocks_.at(content)), {.content = content});
  }
  bool Has(std::uint64_t content) const { return blocks_.contains(content); }

 private:
  void Replace() {
    free_.push_back(*bench_.Replace());
    std::erase_if(blocks_, [&](const auto& entry) { return entry.second == free_.back(); });
  }

  Bench bench_;
  std::vector<std::uint32_t> free_;
  std::map<std::uint64_t, std::uint32_t> blocks_;
};

TEST(ReplacementKind, NamesParseAndPrint) {
  for (const ReplacementKind kind : kReplacementKinds) {
    EXPECT_EQ(*ParseReplacementKind(NameOf(kind)), kind);
  }
}

TEST(ReplacementKind, AnUnknownNameIsAnsweredWithAllNames) {
  const auto kind = ParseReplacementKind("LRU");
  ASSERT_FALSE(kind.ok());
  EXPECT_EQ(kind.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(kind.error().message, HasSubstr("'LRU'"));
  for (const ReplacementKind known : kReplacementKinds) {
    EXPECT_THAT(kind.error().message, HasSubstr(std::string(NameOf(known))));
  }
}

class Replacement : public testing::TestWithParam<ReplacementKind> {};

std::string TestNameOf(const testing::TestParamInfo<ReplacementKind>& kind) {
  std::string name(NameOf(kind.param));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(, Replacement, testing::ValuesIn(kReplacementKinds), TestNameOf);

TEST_P(Replacement, OnlyAnIdleBlockIsAVictim) {
  Bench bench(GetParam(), 3);
  EXPECT_EQ(bench->Victim(), std::nullopt);
  bench.Idle({0, 1, 2});
  bench.Use({0, 1, 2});
  EXPECT_EQ(bench->Victim(), std::nullopt);
  EXPECT_EQ(bench->idle_blocks(), 0u);
  bench.Idle({1});
  EXPECT_EQ(bench->Victim(), BlockId(1));
  EXPECT_EQ(bench->idle_blocks(), 1u);
}

TEST_P(Replacement, TheVictimStaysInTheQueueAndTheSame) {
  Bench bench(GetParam(), 4);
  bench.Idle({0, 1, 2, 3});
  bench.Hit(0, 3);
  const auto victim = bench->Victim();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(bench->Victim(), victim);
  EXPECT_EQ(bench->idle_blocks(), 4u);
}

TEST_P(Replacement, ABlockWithChildrenIsNextOnceTheyHaveGone) {
  Bench bench(GetParam(), 4);
  bench->OnFirstChild(BlockId(0));
  bench.Idle({0, 1, 2, 3});
  EXPECT_EQ(bench.Replace(), 1u);  // 0 is set aside
  EXPECT_EQ(bench->idle_blocks(), 3u);
  bench->OnLastChildGone(BlockId(0));
  EXPECT_EQ(bench.Replace(), 0u);
  EXPECT_EQ(bench.Replace(), 2u);
}

TEST_P(Replacement, BlocksThatAreDueLeaveInTheOrderTheyBecameDue) {
  Bench bench(GetParam(), 4);
  for (const std::uint32_t block : {0, 1, 2}) bench->OnFirstChild(BlockId(block));
  bench.Idle({0, 1, 2, 3});
  EXPECT_EQ(bench->Victim(), BlockId(3));  // the others are set aside
  for (const std::uint32_t block : {2, 0, 1}) bench->OnLastChildGone(BlockId(block));
  EXPECT_THAT(bench.ReplaceAll(), ElementsAre(2, 0, 1, 3));
}

TEST_P(Replacement, ADueBlockThatGetsAChildWaitsAgain) {
  Bench bench(GetParam(), 2);
  bench->OnFirstChild(BlockId(0));
  bench.Idle({0});
  EXPECT_EQ(bench->Victim(), std::nullopt);
  bench->OnLastChildGone(BlockId(0));
  EXPECT_EQ(bench->Victim(), BlockId(0));
  bench->OnFirstChild(BlockId(0));
  EXPECT_EQ(bench->Victim(), std::nullopt);
  bench->OnLastChildGone(BlockId(0));
  EXPECT_EQ(bench->Victim(), BlockId(0));
}

TEST_P(Replacement, TheRecordOfChildrenOutlivesTheDrop) {
  Bench bench(GetParam(), 2);
  bench.Idle({0});
  bench->OnFirstChild(BlockId(0));
  bench->OnDrop(BlockId(0));
  bench.Idle({0});
  EXPECT_EQ(bench->Victim(), std::nullopt);
  bench->OnLastChildGone(BlockId(0));
  EXPECT_EQ(bench->Victim(), BlockId(0));
}

TEST_P(Replacement, BlocksMoveBetweenQueuesOfTheSameRecords) {
  const auto records = MakeReplacementRecords(2);
  const auto a = MakeReplacementQueue(GetParam(), *records);
  const auto b = MakeReplacementQueue(GetParam(), *records);
  a->OnIdle(BlockId(0), {});
  a->OnIdle(BlockId(1), {});
  a->OnDrop(BlockId(0));
  b->OnIdle(BlockId(0), {});
  EXPECT_EQ(a->Victim(), BlockId(1));
  EXPECT_EQ(b->Victim(), BlockId(0));
  a->CheckInvariants();
  b->CheckInvariants();
}

// Sequences acquire random paths of a random tree and release them tail first.
TEST_P(Replacement, TailsLeaveBeforeHeads) {
  constexpr std::uint32_t kBlocks = 300;
  std::mt19937 random(1);
  Bench bench(GetParam(), kBlocks);
  std::vector<std::uint32_t> parents(kBlocks, kBlocks);
  std::vector<int> children(kBlocks, 0);
  const auto path_of = [&](std::uint32_t block) {  // tail first
    std::vector<std::uint32_t> path;
    for (; block != kBlocks; block = parents[block]) path.push_back(block);
    return path;
  };
  const auto idle = [&](std::uint32_t i) {
    const auto depth = static_cast<std::uint32_t>(path_of(i).size() - 1);
    bench->OnIdle(BlockId(i), {.content = i, .depth_tokens = depth * 1024});
  };
  for (std::uint32_t i = 0; i < kBlocks; ++i) {
    if (i % 10 != 0) parents[i] = i - 1 - random() % std::min(i, 3u);
    if (parents[i] != kBlocks && children[parents[i]]++ == 0) {
      bench->OnFirstChild(BlockId(parents[i]));
    }
    for (const std::uint32_t block : path_of(i)) {
      if (block != i) bench->OnUse(BlockId(block));
    }
    for (const std::uint32_t block : path_of(i)) idle(block);
  }
  std::vector<bool> is_gone(kBlocks, false);
  for (std::uint32_t left = kBlocks; left > 0; --left) {
    const std::uint32_t read = random() % kBlocks;
    if (!is_gone[read]) {
      const std::vector<std::uint32_t> path = path_of(read);
      for (const std::uint32_t block : path) bench->OnUse(BlockId(block));
      if (const auto victim = bench->Victim()) {
        EXPECT_EQ(std::count(path.begin(), path.end(), victim->value()), 0);
      }
      for (const std::uint32_t block : path) idle(block);
    }
    const std::optional<std::uint32_t> victim = bench.Replace();
    ASSERT_TRUE(victim.has_value());
    ASSERT_EQ(children[*victim], 0) << *victim << " leaves before its children";
    is_gone[*victim] = true;
    const std::uint32_t parent = parents[*victim];
    if (parent != kBlocks && --children[parent] == 0) bench->OnLastChildGone(BlockId(parent));
  }
  EXPECT_EQ(bench->idle_blocks(), 0u);
  EXPECT_EQ(bench->Victim(), std::nullopt);
}

TEST_P(Replacement, ASearchDoesNotRepeatTheWorkOfTheLast) {
  constexpr std::uint32_t kBlocks = 3000;
  Bench bench(GetParam(), kBlocks);
  for (std::uint32_t i = 0; i < kBlocks; ++i) {
    bench->OnIdle(BlockId(i), {.content = i, .depth_tokens = i});
    if (i % 3 == 0) bench->OnUse(BlockId(i));
    if (i % 3 == 1) bench->OnFirstChild(BlockId(i));
  }
  for (std::uint32_t i = 2; i < kBlocks; i += 3) bench->OnDrop(BlockId(i));
  EXPECT_EQ(bench->Victim(), std::nullopt);
  const std::uint64_t steps = bench.records().steps();
  EXPECT_LE(steps, 3u * kBlocks);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(bench->Victim(), std::nullopt);
  EXPECT_EQ(bench.records().steps(), steps);
}

TEST_P(Replacement, AMillionOperationsTakeAFewStepsEach) {
  constexpr std::uint32_t kBlocks = 4096;
  constexpr std::uint32_t kOperations = 1'000'000;
  Bench bench(GetParam(), kBlocks);
  std::mt19937 random(1);
  enum class State : std::uint8_t { kUnknown, kIdle, kUsed };
  std::vector<State> states(kBlocks, State::kUnknown);
  std::vector<bool> has_children(kBlocks, false);
  for (std::uint32_t n = 0; n < kOperations; ++n) {
    const std::uint32_t dice = random();
    const std::uint32_t i = dice % kBlocks;
    if (const std::uint32_t what = dice >> 28; what == 0) {
      has_children[i] ? bench->OnLastChildGone(BlockId(i)) : bench->OnFirstChild(BlockId(i));
      has_children[i] = !has_children[i];
    } else if (what < 5) {
      const std::optional<BlockId> victim = bench->Victim();
      if (!victim) continue;
      bench->OnDrop(*victim);
      states[victim->value()] = State::kUnknown;
    } else if (states[i] == State::kIdle) {
      bench->OnUse(BlockId(i));
      states[i] = State::kUsed;
    } else {
      bench->OnIdle(BlockId(i), {.content = dice % 9000, .depth_tokens = i * 64});
      states[i] = State::kIdle;
    }
  }
  EXPECT_LE(bench.records().steps(), 2u * kOperations);
  bench->CheckInvariants();
}

TEST(ReplacementDeathTest, StopsOnMisuse) {
  const auto records = MakeReplacementRecords(2);
  const auto queue = MakeReplacementQueue(ReplacementKind::kLru, *records);
  const auto other = MakeReplacementQueue(ReplacementKind::kFifo, *records);
  EXPECT_DEATH(queue->OnIdle(BlockId(2), {}), "block 2 of 2");
  EXPECT_DEATH(queue->OnUse(BlockId(0)), "not in this queue");
  EXPECT_DEATH(queue->OnDrop(BlockId(0)), "not in this queue");
  EXPECT_DEATH(queue->OnLastChildGone(BlockId(0)), "has no children");
  queue->OnIdle(BlockId(0), {});
  EXPECT_DEATH(queue->OnIdle(BlockId(0), {}), "idle already");
  EXPECT_DEATH(other->OnIdle(BlockId(0), {}), "another queue");
  queue->OnUse(BlockId(0));
  EXPECT_DEATH(queue->OnUse(BlockId(0)), "in use already");
}

TEST(LruReplacement, ReplacesTheLongestIdleFirst) {
  Bench bench(ReplacementKind::kLru, 4);
  bench.Idle({2, 0, 3, 1});
  bench.Hit(0);
  EXPECT_THAT(bench.ReplaceAll(), ElementsAre(2, 3, 1, 0));
}

TEST(FifoReplacement, ReplacesTheFirstIdleFirstHoweverOftenItWasUsed) {
  Bench bench(ReplacementKind::kFifo, 4);
  bench.Idle({2, 0, 3, 1});
  bench.Hit(2, 5);
  bench.Hit(0);
  EXPECT_THAT(bench.ReplaceAll(), ElementsAre(2, 0, 3, 1));
}

TEST(FifoReplacement, ABlockUsedWhenItsTurnComesIsDueAsSoonAsItIsIdle) {
  Bench bench(ReplacementKind::kFifo, 4);
  bench.Idle({0, 1, 2, 3});
  bench.Use({0});
  EXPECT_EQ(bench.Replace(), 1u);
  bench.Idle({0});
  EXPECT_THAT(bench.ReplaceAll(), ElementsAre(0, 2, 3));
}

TEST(LfuReplacement, ReplacesTheLeastUsedThenTheLongestIdle) {
  Bench bench(ReplacementKind::kLfu, 5);
  bench.Idle({0, 1, 2, 3, 4});
  bench.Hit(0, 2);
  bench.Hit(2, 1);
  bench.Hit(1, 1);
  EXPECT_THAT(bench.ReplaceAll(), ElementsAre(3, 4, 2, 1, 0));
}

TEST(LfuReplacement, UsesBeyondThirtyOneMakeNoDifference) {
  Bench bench(ReplacementKind::kLfu, 3);
  bench.Idle({0, 1, 2});
  bench.Hit(0, 100);
  bench.Hit(1, 31);
  bench.Hit(2, 30);
  EXPECT_THAT(bench.ReplaceAll(), ElementsAre(2, 0, 1));
}

TEST(SlruReplacement, BlocksUsedAgainOutliveThoseThatNeverWere) {
  Bench bench(ReplacementKind::kSlru, 5);
  bench.Idle({0, 1});
  bench.Hit(0);
  bench.Idle({2, 3, 4});
  EXPECT_THAT(bench.ReplaceAll(), ElementsAre(1, 2, 3, 4, 0));
}

TEST(SlruReplacement, ProtectsFourInFiveAndDemotesTheLongestIdle) {
  Bench bench(ReplacementKind::kSlru, 10);
  bench.Idle({0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  for (const std::uint32_t block : {0, 1, 2, 3, 4, 5, 6, 7}) bench.Hit(block);
  EXPECT_EQ(bench->Victim(), BlockId(8));
  bench.Hit(8);  // the ninth of ten: 0 goes to probation, behind 9
  EXPECT_THAT(bench.ReplaceAll(), ElementsAre(9, 0, 1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(S3FifoReplacement, TwoHitsPromoteAndOneDoesNot) {
  Bench bench(ReplacementKind::kS3Fifo, 4);
  bench.Idle({0, 1, 2, 3});
  bench.Hit(0, 2);
  bench.Hit(1, 1);
  EXPECT_THAT(bench.ReplaceAll(), ElementsAre(1, 2, 3, 0));
}

TEST(S3FifoReplacement, AHitInTheMainListBuysAnotherRound) {
  Bench bench(ReplacementKind::kS3Fifo, 4);
  bench.Idle({0, 1, 2, 3});
  for (const std::uint32_t block : {0, 1, 2, 3}) bench.Hit(block, 2);
  EXPECT_EQ(bench->Victim(), BlockId(0));  // all are in the main list
  bench.Hit(0, 2);
  bench.Hit(1, 1);
  EXPECT_THAT(bench.ReplaceAll(), ElementsAre(2, 3, 1, 0));
}

TEST(S3FifoReplacement, WhatTheGhostRemembersEntersTheMainList) {
  Bench bench(ReplacementKind::kS3Fifo, 4);
  bench.Idle({0});
  EXPECT_EQ(bench.Replace(), 0u);
  bench.Idle({0, 1, 2, 3});
  EXPECT_THAT(bench.ReplaceAll(), ElementsAre(1, 2, 3, 0));
}

TEST(S3FifoReplacement, WhatWasDroppedUnaskedIsNotRemembered) {
  Bench bench(ReplacementKind::kS3Fifo, 4);
  bench.Idle({0});
  bench->OnDrop(BlockId(0));
  bench.Idle({0, 1});
  EXPECT_THAT(bench.ReplaceAll(), ElementsAre(0, 1));
}

TEST(SieveReplacement, TheHandSparesVisitedBlocksAndGoesOnWhereItStood) {
  Bench bench(ReplacementKind::kSieve, 5);
  bench.Idle({0, 1, 2, 3});
  bench.Hit(0);
  EXPECT_EQ(bench.Replace(), 1u);  // 0 was visited: passed, and its mark is gone
  bench.Idle({4});
  EXPECT_THAT(bench.ReplaceAll(), ElementsAre(2, 3, 4, 0));
}

TEST(SieveReplacement, ABlockMetInUseReentersBehindTheHand) {
  Bench bench(ReplacementKind::kSieve, 5);
  bench.Idle({0, 1, 2, 3});
  bench.Use({1});
  EXPECT_EQ(bench.Replace(), 0u);
  EXPECT_EQ(bench.Replace(), 2u);  // past 1
  bench.Idle({1, 4});
  EXPECT_THAT(bench.ReplaceAll(), ElementsAre(3, 4, 1));
}

TEST(CostAwareReplacement, KeepsTheDeepAmongEquallyOld) {
  Bench bench(ReplacementKind::kCostAware, 6);
  bench.Idle({0}, 65536);
  bench.Idle({1}, 0);
  bench.Idle({2}, 8192);
  bench.Idle({3}, 0);
  bench.Idle({4}, 8192);
  bench.Idle({5}, 1'000'000);
  EXPECT_THAT(bench.ReplaceAll(), ElementsAre(1, 3, 2, 4, 0, 5));
}

TEST(CostAwareReplacement, IsLruAmongEqualCosts) {
  Bench bench(ReplacementKind::kCostAware, 4);
  bench.Idle({2, 0, 3, 1});
  bench.Hit(0);
  EXPECT_THAT(bench.ReplaceAll(), ElementsAre(2, 3, 1, 0));
}

TEST(CostAwareReplacement, ADeepBlockThatStaysIdleLeavesInTheEnd) {
  Bench bench(ReplacementKind::kCostAware, 2);
  bench.Idle({0}, 8192);  // costs 3, a block at depth 0 costs 1
  int replaced = 0;
  do {
    bench.Idle({1});
    ++replaced;
  } while (bench.Replace() == 1u);
  EXPECT_EQ(replaced, 3);
}

// Ten times as many cold blocks as the cache has, each read once, after the hot ones.
TEST_P(Replacement, AHotSetSurvivesAScanWhereThePolicyResistsScans) {
  constexpr std::uint32_t kBlocks = 100;
  FlatCache cache(GetParam(), kBlocks);
  for (std::uint64_t round = 0; round < 3; ++round) {
    for (std::uint64_t hot = 0; hot < 20; ++hot) cache.Read(hot);
  }
  for (std::uint64_t cold = 1000; cold < 2000; ++cold) cache.Read(cold);
  std::size_t kept = 0;
  for (std::uint64_t hot = 0; hot < 20; ++hot) kept += cache.Has(hot) ? 1 : 0;
  const ReplacementKind kind = GetParam();
  const bool resists = kind == ReplacementKind::kSlru || kind == ReplacementKind::kS3Fifo ||
                       kind == ReplacementKind::kSieve || kind == ReplacementKind::kLfu;
  EXPECT_EQ(kept, resists ? 20u : 0u);
}

}  // namespace
}  // namespace ashlar::kv
