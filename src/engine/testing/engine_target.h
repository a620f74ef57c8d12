// An engine, driven by scenarios of sched/testing.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "base/check.h"
#include "engine/testing/tiny_engine.h"
#include "sched/testing/scenario.h"

namespace ashlar::engine {

class EngineTarget final : public sched::testing::Target, public StepObserver {
 public:
  explicit EngineTarget(Engine& engine) : engine_(engine) { engine.Observe(this); }

  void Submit(const sched::testing::ScenarioRequest& request) override {
    GenerationRequest generation = RequestFor(request);
    ASHLAR_CHECK(engine_.Check(generation).ok(), "request {}", request.id.value());
    sinks[request.id] = std::make_shared<RecordingSink>();
    engine_.Submit(RequestId(request.id.value()), std::move(generation), sinks[request.id], 0);
  }
  void Cancel(SequenceId id) override { engine_.Cancel(RequestId(id.value())); }
  const sched::StepPlan* Step() override {
    plan_ = {};
    return engine_.Step() ? &plan_ : nullptr;
  }
  bool has_work() const override { return engine_.has_work(); }

  void OnStep(const StepRecord& record, const sched::StepPlan& plan) override {
    plan_ = plan;
    ++steps_;
    ASHLAR_CHECK(record.decode_tokens + record.prefill_tokens == plan.tokens &&
                     record.number == steps_ && record.preempted == plan.preempted.size(),
                 "record {} after {} steps", record.number, steps_);
    engine_.cache().CheckInvariants();
  }

  static GenerationRequest RequestFor(const sched::testing::ScenarioRequest& request) {
    return {.prompt = request.prompt,
            .sampling = {.temperature = 0.8, .seed = request.id.value()},
            .max_tokens = request.generate,
            .priority = request.priority,
            .tenant = request.tenant,
            .tenant_weight = request.weight};
  }

  std::map<SequenceId, std::shared_ptr<RecordingSink>> sinks;

 private:
  Engine& engine_;
  sched::StepPlan plan_;
  std::uint64_t steps_ = 0;
};

}  // namespace ashlar::engine
