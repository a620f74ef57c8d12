// What an engine tells of its steps and sequences: for traces, histograms and tests.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "engine/service.h"
#include "sched/step_plan.h"

namespace ashlar::engine {

struct StepRecord {
  std::uint64_t number = 0;   // from 1
  std::int64_t start_ns = 0;  // of the engine's clock
  std::int64_t plan_ns = 0;   // parts, one after the other but for what lies between them
  std::int64_t forward_ns = 0;
  std::int64_t sample_ns = 0;  // spread through the forward pass
  std::int64_t total_ns = 0;
  double predicted_ns = 0;    // by the cost known before the step; 0: none
  std::uint32_t running = 0;  // sequences at its end, as those below
  std::uint32_t waiting = 0;
  std::uint32_t decode_tokens = 0;
  std::uint32_t prefill_tokens = 0;
  std::uint32_t admitted = 0;
  std::uint32_t preempted = 0;
  std::uint64_t kv_bytes = 0;  // live ones
};

// A sequence that has ended.
struct SequenceRecord {
  RequestId id;
  std::int64_t submitted_ns = 0;    // of the engine's clock
  std::int64_t admitted_ns = 0;     // first; 0: never
  std::int64_t first_token_ns = 0;  // 0: never
  std::int64_t ended_ns = 0;
  FinishReason reason = FinishReason::kStop;
  Usage usage;
};

// All calls are made on the engine's thread: they must return quickly and not call back.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void OnAdmitted(const AdmissionRecord& admission) { (void)admission; }
  virtual void OnFirstToken(std::int64_t ttft_ns) { (void)ttft_ns; }
  virtual void OnNextToken(std::int64_t itl_ns) { (void)itl_ns; }
  virtual void OnEnd(const SequenceRecord& sequence) { (void)sequence; }
  // After every step that computed something. Both are valid during the call only.
  virtual void OnStep(const StepRecord& record, const sched::StepPlan& plan) = 0;
};

}  // namespace ashlar::engine
