// The step loop: joins the scheduler, the cache and the model.
//
//   Submit -> waiting -> admitted (prefix from the cache, the rest promised) -> prefill chunks ->
//   decode, a token a step -> finished (its blocks stay in the cache, idle)
//
// Single-threaded: every call comes from one thread (EngineRunner gives it one of its own). One
// request is one sequence. A step: plan, admit, forward pass over the ragged batch, sample, report.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "engine/service.h"
#include "kernels/kernel_set.h"
#include "kv/cache.h"
#include "model/forward.h"
#include "model/kv_codec_spec.h"
#include "model/model.h"
#include "model/sampler.h"
#include "sched/scheduler.h"

namespace ashlar::engine {

struct EngineOptions {
  model::KvCodecSpec kv_codec = model::KvCodecSpec::Of({});
  std::uint64_t kv_memory_bytes = 0;  // hard cap of the arena
  std::uint32_t block_tokens = 16;
  std::uint64_t max_context = 0;  // 0: what the model was trained for
  kv::Reuse reuse = kv::Reuse::kOn;
  kv::ReplacementKind replacement = kv::ReplacementKind::kLru;
  sched::SchedulerLimits limits;
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

 private:
  struct Sequence {
    RequestId id;
    GenerationRequest request;
    std::shared_ptr<EventSink> sink;
    std::vector<TokenId> tokens;  // prompt and completion
    kv::Scope scope;
    kv::ScopeDigest digest;
    kv::PrefixHashes hashes;  // of the prompt, while it waits
    std::optional<kv::Sequence> cached;
    std::optional<model::TokenHistory> history;  // only when a penalty is asked for
    std::vector<TokenLogprobs> prompt_logprobs;
    std::optional<FinishReason> finish;  // set when the last token is known
    std::string_view error;              // why, when that is kError
    Usage usage;
    std::int64_t submitted_ns = 0;
    std::int64_t admitted_ns = 0;
    std::int64_t first_token_ns = 0;
    std::int64_t last_token_ns = 0;

    std::uint64_t generated() const { return tokens.size() - request.prompt.size(); }
  };

  Engine(const model::Model& model, const kernels::KernelSet& kernels, ThreadPool& pool,
         const Clock& clock, const EngineOptions& options, std::unique_ptr<kv::KvCache> cache);

  // Tokens whose K and V the sequence may come to hold.
  static std::uint64_t StoredTokens(const GenerationRequest& request);
  kv::AdmitOptions AdmitOptionsOf(const GenerationRequest& request) const;
  sched::Admission Admit(SequenceId id);
  void RunPlan(const sched::StepPlan& plan);
  void EndStepOf(Sequence& sequence, const sched::StepItem& item);
  void OnLogits(Sequence& sequence, std::uint64_t position, std::span<const float> logits);
  void SampleNext(Sequence& sequence, std::span<const float> logits);
  void ReportFirstToken(Sequence& sequence);
  void Finish(SequenceId id, FinishReason reason, std::string_view error);

  const Clock& clock_;
  const std::uint32_t prefill_chunk_;
  const kv::Reuse reuse_;
  const kv::Scope scope_;  // without a salt
  std::unique_ptr<kv::KvCache> cache_;
  model::ForwardPass forward_;
  model::Sampler sampler_;
  sched::Scheduler scheduler_;
  std::uint64_t context_ = 0;  // what the model or the flag allows; the KV budget may allow less
  ServiceInfo info_;
  std::unordered_map<SequenceId, std::unique_ptr<Sequence>> sequences_;

  // Of the step being run; kept to reuse their memory.
  std::vector<model::Chunk> chunks_;
  std::vector<model::GroupBlocks> group_blocks_;  // [chunks, lane groups]
  std::vector<Sequence*> batch_;
  std::uint64_t refused_ = 0;  // sequences ended because K or V was not finite
};

}  // namespace ashlar::engine
