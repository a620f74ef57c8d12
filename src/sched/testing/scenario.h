// Random traffic under a virtual clock, for whoever runs a scheduler: over a naive memory, over the
// cache without bytes, in the engine. The same seed is the same traffic for all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "sched/scheduler.h"
#include "sched/step_plan.h"

namespace ashlar::sched::testing {

struct ScenarioRequest {
  SequenceId id;
  std::int64_t arrival_ns = 0;
  std::vector<TokenId> prompt;
  std::uint64_t generate = 1;  // tokens, at least 1
  std::int32_t priority = 0;
  std::string tenant;
  std::uint32_t weight = 1;
  std::optional<std::int64_t> cancel_ns;  // not before it arrives

  std::uint64_t stored_tokens() const { return prompt.size() + generate - 1; }
};

struct Scenario {
  SchedulerLimits limits;
  StepCost cost;
  std::uint64_t headroom_tokens = 0;
  std::uint64_t blocks = 0;  // of memory, block_tokens each: every request fits alone
  std::uint32_t block_tokens = 16;
  std::vector<ScenarioRequest> requests;  // in order of arrival
};

struct ScenarioSize {
  std::uint32_t requests = 6;        // at most
  std::uint32_t prompt_tokens = 40;  // at most
  std::uint32_t generate = 12;       // at most
  std::uint32_t block_tokens = 16;
  std::uint32_t vocab = 250;
};
Scenario MakeScenario(std::uint64_t seed, const ScenarioSize& size);

// What is driven. Calls come in this order: Submit and Cancel, then Step.
class Target {
 public:
  virtual ~Target() = default;
  virtual void Submit(const ScenarioRequest& request) = 0;
  // No effect when it has ended.
  virtual void Cancel(SequenceId id) = 0;
  // One step, done; null when there was nothing to do. Valid until the next call.
  virtual const StepPlan* Step() = 0;
  virtual bool has_work() const = 0;
};

// Sees every plan, before the next call of the target.
class PlanSink {
 public:
  virtual ~PlanSink() = default;
  virtual void OnSubmit(const ScenarioRequest& request) = 0;
  virtual void OnCancel(SequenceId id) = 0;
  virtual void OnPlan(const StepPlan& plan) = 0;
};

// Plays the scenario to its end; time passes as the cost says. CHECKs that it ends.
void Play(const Scenario& scenario, Target& target, ManualClock& clock, PlanSink& sink);

}  // namespace ashlar::sched::testing
