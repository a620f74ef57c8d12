// An engine without a model: the production scheduler over the production cache, which holds no
// bytes, called in the order in which engine::Engine calls them. A step lasts what a CostModel says
// and what is generated is known beforehand; all else is the real thing, so the same requests get
// the same plans (virtual_engine_test.cc).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "engine/step_cost_estimator.h"
#include "kv/cache.h"
#include "sched/kv_memory.h"
#include "sched/scheduler.h"
#include "simulate/cost_model.h"
#include "simulate/results.h"

namespace ashlar::simulate {

// As engine::EngineOptions, without what needs a model.
struct VirtualEngineOptions {
  std::uint64_t kv_memory_bytes = 0;
  std::uint64_t max_context = 0;  // prompt and output of a request; 0: what fits
  kv::Reuse reuse = kv::Reuse::kOn;
  kv::ReplacementKind replacement = kv::ReplacementKind::kLru;
  sched::SchedulerLimits limits;
  std::uint64_t headroom_tokens = 64;
};

struct VirtualRequest {
  std::vector<TokenId> tokens;  // of prompt and output
  std::uint64_t prompt_tokens = 0;
  std::uint64_t output_tokens = 0;
  std::uint64_t max_tokens = 0;  // asked for
  std::string scope;
  std::string tenant;
  std::uint32_t tenant_weight = 1;
  std::int32_t priority = 0;
};

class VirtualEngine {
 public:
  // All must outlive the engine; steps move the clock on. Errors: as engine::Engine::Create.
  static Result<std::unique_ptr<VirtualEngine>> Create(const kv::KvLayout& layout,
                                                       const VirtualEngineOptions& options,
                                                       const CostModel& cost, ManualClock& clock,
                                                       Results& results);

  // Whether the request could ever run.
  bool CouldEverRun(std::uint64_t prompt_tokens, std::uint64_t max_tokens) const;
  // Precondition: it could.
  void Submit(SequenceId id, VirtualRequest request, std::int64_t arrival_ns);
  void Cancel(SequenceId id);
  // Runs one step; null when there was nothing to do. The plan is valid until the next call.
  const sched::StepPlan* Step();

  bool has_work() const { return !sequences_.empty(); }
  std::size_t in_flight() const { return sequences_.size(); }
  std::size_t waiting() const { return scheduler_.waiting(); }
  const kv::KvCache& cache() const { return *cache_; }
  // What steps last, where the scheduler should know it rather than learn it.
  void SetStepCost(const sched::StepCost& cost) {
    scheduler_.SetCost(cost);
    has_step_cost_ = true;
  }

 private:
  struct Sequence {
    sched::KvText text;
    VirtualRequest request;
    std::uint64_t generated = 0;
    std::int64_t arrival_ns = 0;
    std::int64_t first_token_ns = 0;
    std::int64_t last_token_ns = 0;
    bool was_admitted = false;
  };

  VirtualEngine(const VirtualEngineOptions& options, const CostModel& cost, ManualClock& clock,
                Results& results, std::unique_ptr<kv::KvCache> cache);

  void OnAdmitted(const sched::AdmittedSequence& admitted);
  void RunPlan(const sched::StepPlan& plan);
  void EndStepOf(SequenceId id);
  void Generate(Sequence& sequence);
  void Finish(SequenceId id);
  void Count(const Sequence& sequence);

  const std::uint64_t max_context_;
  const CostModel& cost_;
  ManualClock& clock_;
  Results& results_;
  std::unique_ptr<kv::KvCache> cache_;
  StepMeter meter_;
  sched::KvMemory memory_;
  sched::Scheduler scheduler_;
  engine::StepCostEstimator estimator_;
  bool has_step_cost_ = false;
  std::unordered_map<SequenceId, std::unique_ptr<Sequence>> sequences_;
};

}  // namespace ashlar::simulate
