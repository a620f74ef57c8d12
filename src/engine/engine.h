// The step loop: joins the scheduler, the cache and the model.
//
//                +------------------ preempted: blocks idle ------------------+
//                v                                                            |
//   Submit -> waiting -> admitted (what is cached is pinned) -> prefill -> decode -> finished
//
// Single-threaded: every call comes from one thread (EngineRunner gives it one of its own). One
// request is one sequence. A step: deadlines, plan (who is admitted or preempted, who computes
// what), forward pass over the ragged batch, sample, report.
//
// A preempted sequence keeps its tokens, counts and times; when it is resumed, what is left of its
// blocks is pinned again and the rest computed again, in silence: what sinks have heard they do not
// hear twice.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "engine/sequence.h"
#include "engine/service.h"
#include "engine/step_cost_estimator.h"
#include "engine/step_observer.h"
#include "kernels/kernel_set.h"
#include "kv/cache.h"
#include "model/forward.h"
#include "model/kv_codec_spec.h"
#include "model/model.h"
#include "model/sampler.h"
#include "sched/kv_memory.h"
#include "sched/scheduler.h"

namespace ashlar::engine {

struct EngineOptions {
  model::KvCodecSpec kv_codec = model::KvCodecSpec::Of({});
  std::uint64_t kv_memory_bytes = 0;  // hard cap of the arena
  std::uint32_t block_tokens = 16;
  std::uint64_t max_context = 0;  // 0: what the model was trained for
  model::Activations activations = model::Activations::kInt8;
  kv::Reuse reuse = kv::Reuse::kOn;
  kv::ReplacementKind replacement = kv::ReplacementKind::kLru;
  std::uint64_t max_events = 0;  // of the cache, kept for readers; 0: none
  sched::SchedulerLimits limits;
  // Promised at admission beyond the known tokens; KvMemory::kWholeLength: all that may come.
  std::uint64_t headroom_tokens = 64;
  // Guess up to so many tokens ahead where the text repeats itself (prompt lookup), and compute
  // them in one step; 0: never. Changes no token: a guess counts only when it is what is sampled.
  std::uint32_t max_guesses = 0;
  // What steps last; unset: measured.
  std::optional<sched::StepCost> step_cost;
};

class Engine {
 public:
  // All references must outlive the engine. Errors: kInvalidArgument (an option, named),
  // kResourceExhausted.
  static Result<std::unique_ptr<Engine>> Create(const model::Model& model,
                                                const kernels::KernelSet& kernels, ThreadPool& pool,
                                                const Clock& clock, const EngineOptions& options);

  const ServiceInfo& info() const { return info_; }
  ServiceStats stats() const;

  // Told of every step from now on; null: nobody. It must outlive the engine.
  void Observe(StepObserver* observer) { observer_ = observer; }

  // Whether the request could ever run; errors as Service::Submit says. Thread-safe: reads only
  // what never changes.
  Status Check(const GenerationRequest& request) const;

  // Queues a request that Check accepts.
  void Submit(RequestId id, GenerationRequest request, std::shared_ptr<EventSink> sink,
              std::int64_t submitted_ns);

  // Ends a request now; OnFinish(kCancelled). False when there is no such request.
  bool Cancel(RequestId id);

  void CancelAll();

  // Runs one step. False when there was nothing to do.
  bool Step();

  bool has_work() const { return !sequences_.empty(); }
  std::uint64_t workspace_bytes() const { return forward_.workspace_bytes(); }
  const kv::KvCache& cache() const { return *cache_; }
  kv::KvCache& cache() { return *cache_; }
  const sched::Scheduler& scheduler() const { return scheduler_; }
  // Of requests without a salt.
  const kv::Scope& scope() const { return scope_; }

 private:
  static constexpr std::int64_t kNoDeadline = std::numeric_limits<std::int64_t>::max();

  Engine(const model::Model& model, const kernels::KernelSet& kernels, ThreadPool& pool,
         const Clock& clock, const EngineOptions& options, std::unique_ptr<kv::KvCache> cache);

  // engine_check.cc
  Status CheckFields(const GenerationRequest& request) const;
  Status CheckStream(const GenerationRequest& request) const;
  // Tokens whose K and V the sequence may come to hold.
  std::uint64_t StoredTokens(const GenerationRequest& request) const;

  // engine.cc
  bool EndExpired();
  void OnAdmitted(const sched::AdmittedSequence& admitted);
  void RunPlan(const sched::StepPlan& plan);
  void GatherChunks(const sched::StepPlan& plan);
  void EndStepOf(std::size_t chunk, const sched::StepItem& item);
  void Refuse(SequenceId id);
  std::uint32_t Guess(Sequence& sequence);
  std::uint64_t ContextOf(const GenerationRequest& request) const;
  std::uint64_t WindowOf(const ContextStream& stream) const;
  void CutContext(Sequence& sequence);
  void EndStep(const sched::StepPlan& plan);
  void Finish(SequenceId id, FinishReason reason, std::string_view error);

  // engine_output.cc
  void OnLogits(Sequence& sequence, std::uint64_t position, std::span<const float> logits);
  void Report(Sequence& sequence, std::uint64_t position, std::span<const float> logits);
  void SampleNext(Sequence& sequence, std::span<const float> logits);
  TokenId Sample(const Sequence& sequence, std::span<const float> logits);
  void ReportFirstToken(Sequence& sequence);

  const Clock& clock_;
  const kernels::KernelSet& kernels_;
  const std::optional<sched::StepCost> step_cost_;
  const std::uint32_t max_guesses_;
  const std::uint32_t max_step_tokens_;
  const kv::Scope scope_;  // without a salt
  std::unique_ptr<kv::KvCache> cache_;
  sched::KvMemory memory_;
  model::ForwardPass forward_;
  model::Sampler sampler_;
  sched::Scheduler scheduler_;
  StepCostEstimator estimator_;
  StepObserver* observer_ = nullptr;
  std::uint64_t context_ = 0;  // what the model or the flag allows; the KV budget may allow less
  ServiceInfo info_;
  ServiceStats stats_;  // counters
  std::unordered_map<SequenceId, std::unique_ptr<Sequence>> sequences_;
  std::int64_t next_deadline_ns_ = kNoDeadline;  // at or before the earliest

  // Of the step being run; kept to reuse their memory.
  StepRecord record_;
  std::vector<model::Chunk> chunks_;
  std::vector<model::GroupBlocks> group_blocks_;  // [chunks, lane groups]
  std::vector<Sequence*> batch_;
  std::uint32_t guess_room_ = 0;       // rows that guesses may still take in the next step
  std::vector<float> masked_;          // [vocab] f32: logits without stop tokens
  std::vector<KvGroupUse> group_use_;  // of the sequence that ends
};

}  // namespace ashlar::engine
