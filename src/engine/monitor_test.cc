#include "engine/monitor.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace ashlar::engine {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

// A step a second.
Monitor Filled(std::uint64_t steps) {
  Monitor monitor;
  sched::StepPlan plan;
  plan.tokens = 3;
  for (std::uint64_t i = 1; i <= steps; ++i) {
    monitor.OnStep(
        {.number = i, .start_ns = static_cast<std::int64_t>(i) * kSecond, .total_ns = 7'000'000},
        plan);
    monitor.OnEnd({.id = RequestId(i), .ended_ns = static_cast<std::int64_t>(i) * kSecond});
  }
  return monitor;
}

TEST(Monitor, RemembersTheLastOnesInOrder) {
  const std::uint64_t steps = Monitor::kSteps + 10;
  const Monitor monitor = Filled(steps);
  const auto end = static_cast<std::int64_t>(steps) * kSecond;
  const EngineTrace all = monitor.Read({.max_steps = 2 * Monitor::kSteps}, end);
  ASSERT_EQ(all.steps.size(), Monitor::kSteps);
  EXPECT_EQ(all.steps.front().number, 11u);
  EXPECT_EQ(all.steps.back().number, steps);
  EXPECT_EQ(all.sequences.size(), Monitor::kSequences);
  EXPECT_EQ(all.sequences.back().id, RequestId(steps));
  EXPECT_TRUE(monitor.Read({.max_steps = 0}, end).steps.empty());
}

TEST(Monitor, ReadsBackSoManyStepsOrSoMuchTime) {
  const Monitor monitor = Filled(100);
  const EngineTrace steps = monitor.Read({.max_steps = 5}, 100 * kSecond);
  ASSERT_EQ(steps.steps.size(), 5u);
  EXPECT_EQ(steps.steps.front().number, 96u);
  ASSERT_EQ(steps.sequences.size(), 5u);
  EXPECT_EQ(steps.sequences.front().id, RequestId(96));
  // On the bound and after it.
  const EngineTrace time =
      monitor.Read({.max_steps = 50, .within_ns = 10 * kSecond}, 100 * kSecond);
  ASSERT_EQ(time.steps.size(), 11u);
  EXPECT_EQ(time.steps.front().number, 90u);
}

TEST(Monitor, CountsByReason) {
  Monitor monitor = Filled(4);
  monitor.OnAdmitted(
      {.lookup = {.prompt_tokens = 10, .hit_tokens = 4, .reason = kv::MissReason::kReplaced},
       .queue_ns = kSecond});
  monitor.OnAdmitted(
      {.lookup = {.prompt_tokens = 10, .hit_tokens = 9, .reason = kv::MissReason::kReplaced},
       .is_resumed = true});
  monitor.OnFirstToken(kSecond / 2);
  monitor.OnNextToken(kSecond / 100);
  EngineReport report;
  monitor.AddTo(report);
  const auto replaced = static_cast<std::size_t>(kv::MissReason::kReplaced);
  EXPECT_EQ(report.misses[replaced], 2u);
  EXPECT_EQ(report.missed_tokens[replaced], 7u);
  EXPECT_EQ(report.histograms.queue.count(), 1u);  // waiting again is not queueing
  EXPECT_DOUBLE_EQ(report.histograms.ttft.sum(), 0.5);
  EXPECT_DOUBLE_EQ(report.histograms.itl.sum(), 0.01);
  EXPECT_EQ(report.histograms.itl.counts()[0], 1u);
  EXPECT_EQ(report.histograms.step_tokens.sum(), 12.0);
  EXPECT_EQ(report.histograms.step.count(), 4u);
}

}  // namespace
}  // namespace ashlar::engine
