#include "simulate/virtual_engine.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ashlar::simulate {

Result<std::unique_ptr<VirtualEngine>> VirtualEngine::Create(const kv::KvLayout& layout,
                                                             const VirtualEngineOptions& options,
                                                             const CostModel& cost,
                                                             ManualClock& clock, Results& results) {
  ASHLAR_TRY(sched::Validate(options.limits));
  ASHLAR_ASSIGN(std::unique_ptr<kv::KvCache> cache,
                kv::KvCache::Create(layout,
                                    {.memory_bytes = options.kv_memory_bytes,
                                     .has_bytes = false,
                                     .replacement = options.replacement},
                                    clock));
  return std::unique_ptr<VirtualEngine>(
      new VirtualEngine(options, cost, clock, results, std::move(cache)));
}

VirtualEngine::VirtualEngine(const VirtualEngineOptions& options, const CostModel& cost,
                             ManualClock& clock, Results& results,
                             std::unique_ptr<kv::KvCache> cache)
    : max_context_(options.max_context),
      cost_(cost),
      clock_(clock),
      results_(results),
      cache_(std::move(cache)),
      meter_(cache_->layout()),
      memory_(*cache_, {.headroom_tokens = options.headroom_tokens,
                        .chunk = options.limits.prefill_chunk,
                        .reuse = options.reuse}),
      scheduler_(options.limits) {
  results_.arena_bytes = cache_->memory_bytes();
}

namespace {

// The last generated token's K and V are never needed.
std::uint64_t StoredTokens(std::uint64_t prompt_tokens, std::uint64_t max_tokens) {
  return prompt_tokens + (max_tokens == 0 ? 0 : max_tokens - 1);
}

}  // namespace

bool VirtualEngine::CouldEverRun(std::uint64_t prompt_tokens, std::uint64_t max_tokens) const {
  if (max_context_ > 0 && prompt_tokens + max_tokens > max_context_) return false;
  return cache_->CouldEverFit(memory_.WholeNeed(StoredTokens(prompt_tokens, max_tokens)));
}

void VirtualEngine::Submit(SequenceId id, VirtualRequest request, std::int64_t arrival_ns) {
  const auto [it, is_new] = sequences_.emplace(id, std::make_unique<Sequence>());
  ASHLAR_CHECK(is_new && request.tokens.size() == request.prompt_tokens + request.output_tokens &&
                   request.output_tokens <= request.max_tokens,
               "request {}", id.value());
  Sequence& sequence = *it->second;
  sched::KvText& text = sequence.text;
  text.tokens.reserve(request.tokens.size());
  text.tokens.assign(request.tokens.begin(),
                     request.tokens.begin() + static_cast<std::ptrdiff_t>(request.prompt_tokens));
  text.max_tokens = StoredTokens(request.prompt_tokens, request.max_tokens);
  text.scope = {.model_fingerprint = "simulated",
                .codec_spec = "simulated",
                .layout_version = 1,
                .tenant_salt = request.scope};
  text.digest = kv::DigestOf(text.scope);
  sequence.arrival_ns = arrival_ns;
  sequence.request = std::move(request);
  memory_.Add(id, text);
  scheduler_.Add({.id = id,
                  .tokens = text.tokens.size(),
                  .priority = sequence.request.priority,
                  .tenant = sequence.request.tenant,
                  .weight = sequence.request.tenant_weight});
}

void VirtualEngine::Cancel(SequenceId id) {
  if (sequences_.contains(id)) Finish(id);
}

const sched::StepPlan* VirtualEngine::Step() {
  const sched::StepPlan& plan = scheduler_.Plan(memory_);
  for (const sched::AdmittedSequence& admitted : plan.admitted) OnAdmitted(admitted);
  results_.urgent_preemptions += plan.preempted_for_urgent;
  results_.growth_preemptions += plan.preempted.size() - plan.preempted_for_urgent;
  ASHLAR_CHECK(!plan.stuck, "sequence {} waits for memory that nobody has", plan.stuck->value());
  if (plan.items.empty()) return plan.preempted.empty() ? nullptr : &plan;
  RunPlan(plan);
  results_.timeline.Add(clock_.NowNs(), {.live_bytes = cache_->live_bytes(),
                                         .idle_bytes = cache_->idle_bytes(),
                                         .running = scheduler_.running(),
                                         .waiting = scheduler_.waiting()});
  return &plan;
}

void VirtualEngine::OnAdmitted(const sched::AdmittedSequence& admitted) {
  Sequence& sequence = *sequences_.at(admitted.id);
  const kv::LookupReport& lookup = sequence.text.lookup;
  const auto reason = static_cast<std::size_t>(lookup.reason);
  ++results_.misses[reason];
  results_.missed_tokens[reason] += lookup.prompt_tokens - lookup.hit_tokens;
  if (std::exchange(sequence.was_admitted, true)) return;
  const std::uint64_t block_tokens = cache_->layout().block_tokens();
  const std::uint64_t prompt = sequence.request.prompt_tokens;
  results_.queue.Add(clock_.NowNs() - sequence.arrival_ns);
  results_.prompt_tokens += prompt;
  results_.hit_tokens += admitted.cached_tokens;
  results_.blocks_total += (prompt + block_tokens - 1) / block_tokens;
  results_.blocks_hit += admitted.cached_tokens / block_tokens;
}

// As Engine::RunPlan: the tokens that a step samples are known at its end.
void VirtualEngine::RunPlan(const sched::StepPlan& plan) {
  const std::int64_t step_ns = cost_.StepNs(meter_.WorkOf(plan));
  results_.peak_live_bytes = std::max(results_.peak_live_bytes, cache_->live_bytes());
  clock_.AdvanceNs(step_ns);
  ++results_.steps;
  results_.busy_ns += step_ns;
  results_.decode_tokens += plan.decode_tokens;
  results_.prefill_tokens += plan.tokens - plan.decode_tokens;
  for (const sched::StepItem& item : plan.items) {
    sched::KvText& text = sequences_.at(item.id)->text;
    sched::KvMemory::Commit(text, std::span(text.tokens).subspan(item.position, item.tokens));
  }
  scheduler_.Commit();
  for (const sched::StepItem& item : plan.items) {
    if (item.reaches_end) EndStepOf(item.id);
  }
  if (has_step_cost_) return;
  estimator_.Observe(plan.tokens, plan.attended_pairs, step_ns);
  scheduler_.SetCost(estimator_.cost());
}

void VirtualEngine::EndStepOf(SequenceId id) {
  Sequence& sequence = *sequences_.at(id);
  if (sequence.request.output_tokens > 0) Generate(sequence);
  if (sequence.generated == sequence.request.output_tokens) {
    Count(sequence);
    Finish(id);
  } else {
    scheduler_.Append(id);
  }
}

void VirtualEngine::Generate(Sequence& sequence) {
  const std::int64_t now_ns = clock_.NowNs();
  if (sequence.generated == 0) {
    sequence.first_token_ns = now_ns;
    results_.ttft.Add(now_ns - sequence.arrival_ns);
  } else {
    results_.itl.Add(now_ns - sequence.last_token_ns);
  }
  sequence.last_token_ns = now_ns;
  sequence.text.tokens.push_back(
      sequence.request.tokens[sequence.request.prompt_tokens + sequence.generated]);
  ++sequence.generated;
}

void VirtualEngine::Count(const Sequence& sequence) {
  const std::int64_t now_ns = clock_.NowNs();
  const std::uint64_t output = sequence.generated;
  ++results_.requests;
  results_.output_tokens += output;
  results_.e2e.Add(now_ns - sequence.arrival_ns);
  std::int64_t gap_ns = 0;
  if (output > 1) {
    gap_ns =
        (sequence.last_token_ns - sequence.first_token_ns) / static_cast<std::int64_t>(output - 1);
    results_.tpot.Add(gap_ns);
  }
  const LatencyTargets& targets = results_.targets;
  const std::int64_t ttft_ns =
      (output > 0 ? sequence.first_token_ns : now_ns) - sequence.arrival_ns;
  const bool is_good = (targets.ttft_ns == 0 || ttft_ns <= targets.ttft_ns) &&
                       (targets.itl_ns == 0 || gap_ns <= targets.itl_ns);
  if (!is_good) return;
  ++results_.good_requests;
  results_.good_tokens += output;
}

void VirtualEngine::Finish(SequenceId id) {
  const auto node = sequences_.extract(id);
  scheduler_.Remove(id);
  results_.recomputed_tokens += node.mapped()->text.recomputed_tokens;
  memory_.Remove(id);
}

}  // namespace ashlar::simulate
