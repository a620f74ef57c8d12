#include "plan/capacity.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/byte_size.h"
#include "plan/registry.h"

namespace ashlar::plan {
namespace {

kv::KvLayout Layout(const std::string& model, const std::string& codec = "f16") {
  return *LayoutOf(*Registry::BuiltIn().Find(model), *model::ParseKvCodecSpec(codec), 16);
}

TEST(Capacity, AnArenaOfWholeSequencesHoldsThem) {
  // Llama-3-8B: 1 GiB for 8,192 tokens. Pages are 1/64 of the arena or 8 blocks of 2 MiB: 16 MiB,
  // which divide both.
  const kv::KvLayout layout = Layout("llama-3-8b");
  EXPECT_EQ(SequencesThatFit(layout, 16 * kGiB, {.context = 8'192}), 16u);
  EXPECT_EQ(SequencesThatFit(layout, 16 * kGiB - 1, {.context = 8'192}), 15u);
  EXPECT_EQ(SequencesThatFit(layout, kMiB, {.context = 8'192}), 0u);
  EXPECT_EQ(ContextThatFits(layout, 16 * kGiB, {.sequences = 1}, 1u << 20), 131'072u);
  EXPECT_EQ(ContextThatFits(layout, 16 * kGiB, {.sequences = 1}, 100'000), 100'000u);
  EXPECT_EQ(ContextThatFits(layout, 16 * kGiB, {.sequences = 16}, 1u << 20), 8'192u);
  EXPECT_EQ(ContextThatFits(layout, kMiB, {.sequences = 1}, 1u << 20), 0u);
}

// The next longer context, or one more sequence, does not fit.
TEST(Capacity, WhatFitsIsTheMost) {
  for (const char* const model : {"gemma-3-27b", "deepseek-v3", "gpt-oss-20b", "smollm2-135m"}) {
    for (const char* const codec : {"f16", "balanced"}) {
      const kv::KvLayout layout = Layout(model, codec);
      for (const std::uint64_t arena : {3 * kGiB, 10'000'000'000ul}) {
        const std::uint64_t context =
            ContextThatFits(layout, arena, {.sequences = 5}, std::uint64_t{1} << 24);
        ASSERT_GT(context, 0u) << model;
        EXPECT_GE(SequencesThatFit(layout, arena, {.context = context}), 5u) << model;
        EXPECT_LT(SequencesThatFit(layout, arena, {.context = context + 1}), 5u) << model;
      }
    }
  }
}

TEST(Capacity, TheArenaForAWorkloadHoldsItAndIsLittleMore) {
  for (const char* const model : {"llama-3-70b", "gemma-3-27b", "smollm2-135m", "gpt-oss-120b"}) {
    for (const char* const codec : {"f16", "q8", "q4"}) {
      const kv::KvLayout layout = Layout(model, codec);
      for (const std::uint64_t sequences : {1u, 3u, 64u}) {
        const Workload workload = {.context = 30'000, .sequences = sequences};
        const std::uint64_t arena = ArenaFor(layout, workload).value();
        const std::uint64_t need = KvNeedOf(layout, workload)->total_bytes;
        EXPECT_GE(SequencesThatFit(layout, arena, workload), sequences);
        EXPECT_GE(arena, need);
        EXPECT_LT(static_cast<double>(arena), 1.15 * static_cast<double>(need))
            << model << " " << codec << " " << sequences;
        EXPECT_EQ(arena % kMiB, 0u);
      }
    }
  }
  // More blocks than can be numbered: no arena at all, and an answer soon.
  EXPECT_FALSE(ArenaFor(Layout("pythia-14m"), {.context = 1u << 30, .sequences = 1'000}));
}

TEST(Capacity, TheBudgetAddsUp) {
  const kv::KvLayout layout = Layout("llama-3-8b");
  const MemoryBudget budget = BudgetOf(layout, {.memory_bytes = 48 * kGiB,
                                                .margin_bytes = 2 * kGiB,
                                                .weights_bytes = 16 * kGiB,
                                                .workspace_bytes = kGiB});
  EXPECT_EQ(budget.missing_bytes, 0u);
  const std::uint64_t rest = 29 * kGiB;
  EXPECT_LE(budget.arena_bytes + budget.bookkeeping_bytes, rest);
  EXPECT_GT(budget.arena_bytes + budget.bookkeeping_bytes, rest - 2 * kMiB);
  EXPECT_EQ(budget.bookkeeping_bytes, BookkeepingBytes(layout, budget.arena_bytes));
}

TEST(Capacity, WhatTheWeightsDoNotLeaveIsMissing) {
  const MemoryBudget budget =
      BudgetOf(Layout("llama-3-8b"),
               {.memory_bytes = 8 * kGiB, .margin_bytes = kGiB, .weights_bytes = 16 * kGiB});
  EXPECT_EQ(budget.arena_bytes, 0u);
  EXPECT_EQ(budget.missing_bytes, 9 * kGiB);
}

}  // namespace
}  // namespace ashlar::plan
