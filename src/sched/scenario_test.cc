// Random traffic, as testing/scenario.h makes it: whatever comes, the promises of scheduler.h hold
// in every step (testing/plan_checker.h), and everything ends.
#include <gtest/gtest.h>

#include <memory>

#include "sched/testing/plan_checker.h"
#include "sched/testing/scenario.h"
#include "sched/testing/scheduler_target.h"

namespace ashlar::sched::testing {
namespace {

constexpr std::uint64_t kNaive = 100'000;
constexpr std::uint64_t kShards = 10;
constexpr std::uint64_t kCached = 1'500;

struct Totals {
  std::uint64_t preemptions = 0;
  std::uint64_t recomputed = 0;
  std::uint64_t resumed_from_cache = 0;  // tokens
  std::uint64_t bounded = 0;
};

class NaiveScenarios : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(NaiveScenarios, HoldEveryPromise) {
  Totals totals;
  for (std::uint64_t seed = GetParam(); seed < kNaive; seed += kShards) {
    SCOPED_TRACE(seed);
    const Scenario scenario =
        MakeScenario(seed, {.requests = seed % 100 == 0 ? 40u : 6u, .block_tokens = 4});
    NaiveTarget target(scenario, seed);
    PlanChecker checker(scenario);
    ManualClock clock;
    Play(scenario, target, clock, checker);
    ASSERT_TRUE(checker.is_over());
    ASSERT_EQ(target.naive().live(), 0u);
    totals.preemptions += checker.preemptions;
    totals.recomputed += checker.recomputed;
    totals.bounded += checker.bounded;
  }
  // They do reach what they are to show.
  EXPECT_GT(totals.preemptions, 1000u);
  EXPECT_GT(totals.recomputed, 1000u);
  EXPECT_GT(totals.bounded, 1000u);
}

INSTANTIATE_TEST_SUITE_P(Shards, NaiveScenarios, ::testing::Range(std::uint64_t{0}, kShards));

kv::KvLayoutSpec OneGroup() {
  return {.block_tokens = 16,
          .groups = {{.lanes = kv::LanesOfAllLayers(1, 1), .key_dim = 8, .value_dim = 8}}};
}

TEST(CacheScenarios, HoldEveryPromiseOverTheRealCache) {
  const kv::KvLayout layout = *kv::KvLayout::Create(OneGroup());
  const std::uint64_t block_bytes = layout.group(0).block_bytes();
  Totals totals;
  for (std::uint64_t seed = 0; seed < kCached; ++seed) {
    SCOPED_TRACE(seed);
    const Scenario scenario = MakeScenario(
        seed, {.requests = seed % 20 == 0 ? 40u : 8u, .prompt_tokens = 120, .generate = 60});
    ManualClock clock;
    const auto cache = *kv::KvCache::Create(layout,
                                            {.memory_bytes = scenario.blocks * block_bytes,
                                             .page_bytes = block_bytes,
                                             .has_bytes = false},
                                            clock);
    PlanChecker checker(scenario);
    KvTarget target(scenario, *cache);
    Play(scenario, target, clock, checker);
    ASSERT_TRUE(checker.is_over());
    ASSERT_EQ(cache->live_bytes(), 0u);
    ASSERT_EQ(cache->core().pool.promised(0), 0u);
    cache->CheckInvariants();
    totals.preemptions += checker.preemptions;
    totals.recomputed += target.recomputed_tokens();
    for (const StepPlan& plan : checker.plans) {
      for (const AdmittedSequence& admitted : plan.admitted) {
        if (admitted.is_resumed) totals.resumed_from_cache += admitted.cached_tokens;
      }
    }
  }
  EXPECT_GT(totals.preemptions, 300u);
  EXPECT_GT(totals.recomputed, 300u);
  EXPECT_GT(totals.resumed_from_cache, totals.recomputed);  // most of it survives
}

TEST(Scenarios, TheSameCallsGiveTheSamePlans) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Scenario scenario = MakeScenario(seed, {.requests = 30, .block_tokens = 4});
    std::vector<std::vector<StepPlan>> runs;
    for (int run = 0; run < 2; ++run) {
      NaiveTarget target(scenario, seed);
      PlanChecker checker(scenario);
      ManualClock clock;
      Play(scenario, target, clock, checker);
      runs.push_back(std::move(checker.plans));
    }
    ASSERT_EQ(runs[0], runs[1]) << seed;
  }
}

}  // namespace
}  // namespace ashlar::sched::testing
