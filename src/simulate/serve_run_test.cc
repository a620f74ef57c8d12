#include "simulate/serve_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "simulate/synthetic.h"

namespace ashlar::simulate {
namespace {

constexpr std::int64_t kMs = 1'000'000;

class ListSource final : public trace::Source {
 public:
  explicit ListSource(std::vector<trace::Request> trace) : trace_(std::move(trace)) {}
  Result<bool> Next(trace::Request& request) override {
    if (next_ == trace_.size()) return false;
    request = trace_[next_++];
    return true;
  }

 private:
  const std::vector<trace::Request> trace_;
  std::size_t next_ = 0;
};

kv::KvLayout Layout() {
  kv::LaneGroupSpec group;
  group.lanes = {{}};
  group.key_dim = 8;
  return *kv::KvLayout::Create({.block_tokens = 16, .groups = {group}});
}

ServeRunOptions Options() {
  return {.engine = {.kv_memory_bytes = 1 << 20,
                     .limits = {.max_step_tokens = 64, .prefill_chunk = 32, .max_running = 8}},
          .hash_block_tokens = 16};
}

trace::Request Ask(double ms, std::uint64_t input, std::uint64_t output,
                   std::vector<std::uint64_t> ids = {}) {
  return {.timestamp_ms = ms,
          .input_tokens = input,
          .output_tokens = output,
          .max_tokens = output,
          .hash_ids = std::move(ids)};
}

Results Simulated(const std::vector<trace::Request>& trace, const ServeRunOptions& options,
                  const CostModel& cost) {
  Results results;
  const Status status = RunServe(
      [&]() -> std::unique_ptr<trace::Source> { return std::make_unique<ListSource>(trace); },
      Layout(), options, cost, [](std::uint64_t) {}, results);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return results;
}

// Two chunks of 32 tokens, then a token a step: every step lasts 10 ms.
TEST(ServeRun, TimesAreThoseOfTheStepsByHand) {
  const CostModel cost = CostModel::Of(CostModel::Measured{.step_ns = 10.0 * kMs}, 2.0 * kMs);
  const Results results = Simulated({Ask(1000, 64, 3), Ask(1015, 32, 1)}, Options(), cost);
  // The first reaches the engine 2 ms after it arrived: steps end at 12, 22, 32, 42 ms; the second
  // joins the one that begins at 22.
  EXPECT_EQ(results.requests, 2U);
  EXPECT_EQ(results.steps, 4U);
  EXPECT_EQ(results.ttft.max_ns(), 22 * kMs);
  EXPECT_NEAR(results.ttft.mean_ns(), (22 + 17) * kMs / 2.0, 1);
  EXPECT_NEAR(results.e2e.mean_ns(), (42 + 17) * kMs / 2.0, 1);
  EXPECT_NEAR(results.queue.mean_ns(), (2 + 7) * kMs / 2.0, 1);
  EXPECT_NEAR(results.itl.mean_ns(), 10 * kMs, 1);
  EXPECT_EQ(results.itl.count(), 2U);
  EXPECT_EQ(results.duration_ns, 42 * kMs);
  EXPECT_EQ(results.busy_ns, 40 * kMs);
  EXPECT_EQ(results.output_tokens, 4U);
}

TEST(ServeRun, WhatWasSeenIsHitAndWhatWasGeneratedToo) {
  const CostModel cost = CostModel::Of(CostModel::Measured{.step_ns = 1.0 * kMs});
  const Results results =
      Simulated({Ask(0, 64, 32, {1, 2, 3, 4, 5, 6}), Ask(1000, 112, 1, {1, 2, 3, 4, 5, 6, 7}),
                 Ask(2000, 64, 1, {1, 2, 3, 4})},
                Options(), cost);
  // The last generated token is never stored: 95 of 96, then all but the last of 64.
  EXPECT_EQ(results.hit_tokens, 95U + 63U);
  EXPECT_EQ(results.blocks_hit, 5U + 3U);
  EXPECT_EQ(results.blocks_total, 4U + 7U + 4U);
}

TEST(ServeRun, AClosedLoopHasSoManyAtATime) {
  const CostModel cost = CostModel::Of(CostModel::Measured{.step_ns = 1.0 * kMs});
  ServeRunOptions options = Options();
  options.concurrency = 1;
  // Two steps each, one after the other.
  const std::vector<trace::Request> trace(10, Ask(0, 20, 2));
  EXPECT_EQ(Simulated(trace, options, cost).duration_ns, 20 * kMs);
  options.concurrency = 2;
  EXPECT_EQ(Simulated(trace, options, cost).duration_ns, 10 * kMs);
  EXPECT_EQ(Simulated(trace, options, cost).ttft.max_ns(), 1 * kMs);
}

TEST(ServeRun, WhatCannotFitAndWhatFindsTheQueueFullIsCounted) {
  const CostModel cost = CostModel::Of(CostModel::Measured{.step_ns = 1.0 * kMs});
  ServeRunOptions options = Options();
  options.engine.kv_memory_bytes = 64 * 256;
  options.engine.limits.max_running = 1;
  options.max_waiting = 2;
  std::vector<trace::Request> trace(5, Ask(0, 20, 2));
  trace.push_back(Ask(0, 64 * 16, 2));
  const Results results = Simulated(trace, options, cost);
  EXPECT_EQ(results.too_long, 1U);
  EXPECT_EQ(results.refused, 3U);
  EXPECT_EQ(results.requests, 2U);
}

TEST(ServeRun, TimeDoesNotRunOver) {
  const CostModel cost = CostModel::Of(CostModel::Measured{.step_ns = 1e15});
  Results results;
  const std::vector<trace::Request> trace(2, Ask(0, 32, 6000));
  const Status status = RunServe(
      [&]() -> std::unique_ptr<trace::Source> { return std::make_unique<ListSource>(trace); },
      Layout(), Options(), cost, [](std::uint64_t) {}, results);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, testing::HasSubstr("126 years"));
  EXPECT_EQ(Simulated({Ask(0, 32, 1), Ask(1e12, 32, 1)}, Options(), cost).requests, 2U);
}

TEST(ServeRun, GoodputCountsWhatIsWithinTheTargets) {
  const CostModel cost = CostModel::Of(CostModel::Measured{.step_ns = 10.0 * kMs});
  Results results;
  results.targets = {.ttft_ns = 15 * kMs, .itl_ns = 0};
  const std::vector<trace::Request> trace = {Ask(0, 32, 2), Ask(1000, 64, 2)};
  ASSERT_TRUE(
      RunServe(
          [&]() -> std::unique_ptr<trace::Source> { return std::make_unique<ListSource>(trace); },
          Layout(), Options(), cost, [](std::uint64_t) {}, results)
          .ok());
  EXPECT_EQ(results.good_requests, 1U);
  EXPECT_EQ(results.good_tokens, 2U);
}

TEST(ServeRun, ALittleMemoryPreemptsAndEverythingEnds) {
  SyntheticOptions synthetic = *SyntheticPreset("agent");
  synthetic.requests = 200;
  synthetic.prefix_tokens = 128;
  synthetic.turn_tokens = {16, 64};
  synthetic.output_tokens = {100, 400};
  synthetic.turns = {1, 3};
  synthetic.conversations_per_s = 20;
  const OpenSource open = [&]() -> std::unique_ptr<trace::Source> {
    return MakeSynthetic(synthetic);
  };
  const CostModel cost =
      CostModel::Of(CostModel::Measured{.step_ns = 1.0 * kMs, .rows_ns = {{1, 1e5}, {64, 6e6}}});
  ServeRunOptions options = Options();
  options.engine.kv_memory_bytes = 300 * 256;
  options.max_waiting = 1000;
  Results a;
  Results b;
  ASSERT_TRUE(RunServe(open, Layout(), options, cost, [](std::uint64_t) {}, a).ok());
  ASSERT_TRUE(RunServe(open, Layout(), options, cost, [](std::uint64_t) {}, b).ok());
  EXPECT_EQ(a.requests + a.too_long, 200U);
  EXPECT_GT(a.preemptions(), 0U);
  EXPECT_GT(a.hit_tokens, 0U);
  EXPECT_LE(a.peak_live_bytes, a.arena_bytes);
  EXPECT_EQ(a.duration_ns, b.duration_ns);
  EXPECT_EQ(a.hit_tokens, b.hit_tokens);
  EXPECT_EQ(a.misses, b.misses);
}

}  // namespace
}  // namespace ashlar::simulate
