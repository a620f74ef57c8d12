// One brain: the engine with a model makes the plans that the scheduler makes over the cache alone,
// in virtual time. A simulator that drives the latter therefore says what the former would do.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "engine/testing/engine_target.h"
#include "engine/testing/tiny_engine.h"
#include "sched/testing/plan_checker.h"
#include "sched/testing/scenario.h"
#include "sched/testing/scheduler_target.h"

namespace ashlar::engine {
namespace {

using sched::testing::PlanChecker;
using sched::testing::Scenario;

// The least memory that the scenario's blocks fit into.
std::uint64_t MemoryFor(const Scenario& scenario, const kv::KvLayout& layout) {
  std::uint64_t bytes = 0;
  for (const kv::StoreGroup& group : layout.store_groups()) {
    bytes += group.block_bytes * (scenario.blocks + 1);
  }
  return bytes;
}

EngineOptions OptionsFor(const Scenario& scenario, const std::string& codec) {
  EngineOptions options = TinyEngine::DefaultOptions();
  options.kv_codec = *model::ParseKvCodecSpec(codec);
  options.limits = scenario.limits;
  options.headroom_tokens = scenario.headroom_tokens;
  options.step_cost = scenario.cost;
  return options;
}

class Plans : public testing::TestWithParam<const char*> {};

TEST_P(Plans, AreThoseOfTheSchedulerOverTheCacheAlone) {
  std::uint64_t preemptions = 0;
  std::uint64_t recomputed = 0;
  TinyEngine shape(OptionsFor({}, GetParam()));  // for its layout
  const kv::KvLayout& layout = shape->cache().layout();
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Scenario scenario =
        sched::testing::MakeScenario(seed, {.requests = 16, .prompt_tokens = 90, .generate = 60});
    EngineOptions options = OptionsFor(scenario, GetParam());
    options.kv_memory_bytes = MemoryFor(scenario, layout);
    ManualClock clock;
    TinyEngine engine(options, /*threads=*/1, &clock);
    EngineTarget target(*engine);
    PlanChecker real(scenario);
    Play(scenario, target, clock, real);
    ASSERT_TRUE(real.is_over());
    ASSERT_EQ(engine->cache().live_bytes(), 0u);

    ManualClock virtual_clock;
    const auto cache = *kv::KvCache::Create(
        layout, {.memory_bytes = options.kv_memory_bytes, .has_bytes = false}, virtual_clock);
    sched::testing::KvTarget simulated(scenario, *cache);
    for (const auto& [id, sink] : target.sinks) simulated.SetGenerated(id, sink->tokens);
    PlanChecker without_model(scenario);
    Play(scenario, simulated, virtual_clock, without_model);
    ASSERT_EQ(real.plans, without_model.plans);
    ASSERT_EQ(clock.NowNs(), virtual_clock.NowNs());
    preemptions += real.preemptions;
    recomputed += real.recomputed;

    std::uint64_t told = 0;
    for (const auto& [id, sink] : target.sinks) told += sink->usage.recomputed_tokens;
    EXPECT_EQ(told, simulated.recomputed_tokens());
    EXPECT_EQ(told, engine->stats().recomputed_tokens);
    EXPECT_EQ(engine->stats().preemptions, real.preemptions);
  }
  EXPECT_GT(preemptions, 30u);
  EXPECT_GT(recomputed, 30u);
}

INSTANTIATE_TEST_SUITE_P(Codecs, Plans, testing::Values("f16", "k=hq8,v=hq4,edge=1@hq8"),
                         [](const auto& param_info) {
                           return "codec_" + std::to_string(param_info.index);
                         });

}  // namespace
}  // namespace ashlar::engine
