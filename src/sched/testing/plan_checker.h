// Holds plans against what the scheduler promises (scheduler.h), knowing only the plans and the
// traffic. CHECKs, so that it can stand behind any target.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sched/testing/scenario.h"

namespace ashlar::sched::testing {

class PlanChecker final : public PlanSink {
 public:
  explicit PlanChecker(const Scenario& scenario) : scenario_(scenario) {}

  void OnSubmit(const ScenarioRequest& request) override;
  void OnCancel(SequenceId id) override { sequences_.erase(id); }
  void OnPlan(const StepPlan& plan) override;

  // All that were not cancelled have ended.
  bool is_over() const { return sequences_.empty(); }

  std::vector<StepPlan> plans;  // in order
  std::uint64_t preemptions = 0;
  std::uint64_t recomputed = 0;  // tokens
  std::uint64_t bounded = 0;     // steps in which an ITL target held prefills back

 private:
  struct Sequence {
    const ScenarioRequest* request = nullptr;
    Order order;
    std::uint64_t known = 0;
    std::uint64_t computed = 0;
    std::uint64_t computed_once = 0;
    std::uint64_t known_at_resume = 0;
    bool is_running = false;
    bool is_decoding = false;
    bool was_preempted = false;
  };

  // `first_before`: the first that ran before the step, or null.
  void CheckPreempted(const StepPlan& plan, const Sequence* first_before);
  void CheckAdmitted(const StepPlan& plan);
  void CheckItems(const StepPlan& plan);
  void CheckDelay(const StepPlan& plan);
  void EndStep(const StepPlan& plan);
  const Sequence* FirstRunning() const;

  const Scenario& scenario_;
  std::map<SequenceId, Sequence> sequences_;
  std::uint64_t arrivals_ = 0;
};

}  // namespace ashlar::sched::testing
