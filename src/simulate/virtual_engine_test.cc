// One brain: an engine with a model and the simulator make the same plans of the same requests.
#include "simulate/virtual_engine.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/testing/engine_target.h"
#include "sched/testing/plan_checker.h"
#include "sched/testing/scenario.h"

namespace ashlar::simulate {
namespace {

using sched::testing::PlanChecker;
using sched::testing::Scenario;
using sched::testing::ScenarioRequest;

class VirtualTarget final : public sched::testing::Target {
 public:
  VirtualTarget(VirtualEngine& engine, const engine::EngineTarget& real)
      : engine_(engine), real_(real) {}

  void Submit(const ScenarioRequest& request) override {
    std::vector<TokenId> tokens = request.prompt;
    std::vector<TokenId> generated = real_.sinks.at(request.id)->tokens;
    generated.resize(request.generate);  // what a cancelled one did not come to
    tokens.insert(tokens.end(), generated.begin(), generated.end());
    ASHLAR_CHECK(engine_.CouldEverRun(request.prompt.size(), request.generate), "too long");
    engine_.Submit(request.id,
                   {.tokens = std::move(tokens),
                    .prompt_tokens = request.prompt.size(),
                    .output_tokens = request.generate,
                    .max_tokens = request.generate,
                    .tenant = request.tenant,
                    .tenant_weight = request.weight,
                    .priority = request.priority},
                   0);
  }
  void Cancel(SequenceId id) override { engine_.Cancel(id); }
  const sched::StepPlan* Step() override {
    const sched::StepPlan* const plan = engine_.Step();
    engine_.cache().CheckInvariants();
    return plan;
  }
  bool has_work() const override { return engine_.has_work(); }

 private:
  VirtualEngine& engine_;
  const engine::EngineTarget& real_;
};

std::uint64_t MemoryFor(const Scenario& scenario, const kv::KvLayout& layout) {
  std::uint64_t bytes = 0;
  for (const kv::StoreGroup& group : layout.store_groups()) {
    bytes += group.block_bytes * (scenario.blocks + 1);
  }
  return bytes;
}

class Plans : public testing::TestWithParam<const char*> {};

TEST_P(Plans, AreThoseOfAnEngineWithAModel) {
  std::uint64_t preemptions = 0;
  std::uint64_t hits = 0;
  engine::EngineOptions options = engine::TinyEngine::DefaultOptions();
  options.kv_codec = *model::ParseKvCodecSpec(GetParam());
  engine::TinyEngine shape(options);
  const kv::KvLayout& layout = shape->cache().layout();
  for (std::uint64_t seed = 1000; seed < 1030; ++seed) {
    SCOPED_TRACE(seed);
    const Scenario scenario =
        sched::testing::MakeScenario(seed, {.requests = 16, .prompt_tokens = 90, .generate = 60});
    options.kv_memory_bytes = MemoryFor(scenario, layout);
    options.limits = scenario.limits;
    options.headroom_tokens = scenario.headroom_tokens;
    options.step_cost = scenario.cost;
    ManualClock clock;
    engine::TinyEngine engine(options, /*threads=*/1, &clock);
    engine::EngineTarget real(*engine);
    PlanChecker real_plans(scenario);
    Play(scenario, real, clock, real_plans);

    ManualClock virtual_clock;
    const CostModel no_time = CostModel::Of(CostModel::Measured{});
    Results results;
    const auto simulated = *VirtualEngine::Create(layout,
                                                  {.kv_memory_bytes = options.kv_memory_bytes,
                                                   .limits = options.limits,
                                                   .headroom_tokens = options.headroom_tokens},
                                                  no_time, virtual_clock, results);
    simulated->SetStepCost(scenario.cost);
    VirtualTarget target(*simulated, real);
    PlanChecker virtual_plans(scenario);
    Play(scenario, target, virtual_clock, virtual_plans);
    ASSERT_EQ(real_plans.plans, virtual_plans.plans);

    const engine::ServiceStats stats = engine->stats();
    EXPECT_EQ(results.hit_tokens, stats.cached_tokens);
    EXPECT_EQ(results.prompt_tokens, stats.prompt_tokens);
    EXPECT_EQ(results.preemptions(), stats.preemptions);
    EXPECT_EQ(results.urgent_preemptions, stats.urgent_preemptions);
    EXPECT_EQ(results.recomputed_tokens, stats.recomputed_tokens);
    EXPECT_EQ(results.steps, stats.steps);
    EXPECT_EQ(results.prefill_tokens, stats.prefill_tokens);
    EXPECT_EQ(results.decode_tokens, stats.decode_tokens);
    preemptions += stats.preemptions;
    hits += stats.cached_tokens;
  }
  EXPECT_GT(preemptions, 15u);
  EXPECT_GT(hits, 100u);
}

INSTANTIATE_TEST_SUITE_P(Codecs, Plans, testing::Values("f16", "k=hq8,v=hq4,edge=1@hq8"),
                         [](const auto& param_info) {
                           return "codec_" + std::to_string(param_info.index);
                         });

}  // namespace
}  // namespace ashlar::simulate
