#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "engine/prompt_lookup.h"
#include "model/kv_layout.h"

namespace ashlar::engine {
namespace {

// Rows of a step that guesses may fill, together with the decodes: while they are few, a step takes
// as long as reading the weights, and more rows cost little.
constexpr std::uint32_t kMaxStepRows = 16;

bool HasPenalties(const model::SamplingParams& params) {
  return params.repetition_penalty != 1.0 || params.presence_penalty != 0.0 ||
         params.frequency_penalty != 0.0;
}

// One engine runs one model, so what names it here need only tell codecs and layouts apart.
kv::Scope ScopeOf(const model::ModelConfig& config, const EngineOptions& options,
                  const kv::KvLayout& layout) {
  return {.model_fingerprint = fmt::format("{}/{}", config.architecture, config.name),
          .codec_spec = fmt::format("{} {}, activations {}", options.kv_codec.name,
                                    layout.Fingerprint(), model::NameOf(options.activations)),
          .layout_version = 1};
}

}  // namespace

std::string_view NameOf(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
    case FinishReason::kDeadline:
      return "deadline";
  }
  ASHLAR_CHECK(false, "unknown FinishReason {}", static_cast<int>(reason));
}

Result<std::unique_ptr<Engine>> Engine::Create(const model::Model& model,
                                               const kernels::KernelSet& kernels, ThreadPool& pool,
                                               const Clock& clock, const EngineOptions& options) {
  ASHLAR_TRY(sched::Validate(options.limits));
  const model::ModelConfig& config = model.config();
  ASHLAR_ASSIGN(const kv::KvLayout layout,
                model::KvLayoutOf(config, options.kv_codec, options.block_tokens));
  ASHLAR_ASSIGN(std::unique_ptr<kv::KvCache> cache,
                kv::KvCache::Create(layout,
                                    {.memory_bytes = options.kv_memory_bytes,
                                     .replacement = options.replacement,
                                     .max_events = options.max_events},
                                    clock));
  return std::unique_ptr<Engine>(
      new Engine(model, kernels, pool, clock, options, std::move(cache)));
}

Engine::Engine(const model::Model& model, const kernels::KernelSet& kernels, ThreadPool& pool,
               const Clock& clock, const EngineOptions& options, std::unique_ptr<kv::KvCache> cache)
    : clock_(clock),
      kernels_(kernels),
      step_cost_(options.step_cost),
      max_guesses_(options.max_guesses),
      max_step_tokens_(options.limits.max_step_tokens),
      scope_(ScopeOf(model.config(), options, cache->layout())),
      cache_(std::move(cache)),
      memory_(*cache_, {.headroom_tokens = options.headroom_tokens,
                        .chunk = options.limits.prefill_chunk,
                        .max_guesses = options.max_guesses,
                        .reuse = options.reuse}),
      forward_(model, cache_->layout(), kernels, pool, options.limits.max_step_tokens,
               options.activations),
      sampler_(model.config().vocab, kernels),
      scheduler_(options.limits),
      info_{.vocab_size = model.config().vocab,
            .max_context = 0,
            .kv_codec = options.kv_codec.name,
            .block_tokens = options.block_tokens,
            .kv_bytes_per_token = cache_->layout().bytes_per_token(),
            .kv_bytes_reserved = cache_->memory_bytes(),
            .has_prefix_cache = options.reuse == kv::Reuse::kOn},
      masked_(model.config().vocab) {
  context_ = options.max_context > 0 ? options.max_context : model.config().context;
  // The last token of a sequence is not stored.
  info_.max_context = std::min(
      context_, cache_->MaxTokens(context_, options.limits.prefill_chunk, max_guesses_) + 1);
  if (step_cost_) scheduler_.SetCost(*step_cost_);
  chunks_.reserve(options.limits.max_running);
  group_blocks_.reserve(options.limits.max_running * cache_->layout().groups().size());
  batch_.reserve(options.limits.max_running);
  group_use_.reserve(cache_->layout().groups().size());
}

ServiceStats Engine::stats() const {
  ServiceStats stats = stats_;
  stats.running = scheduler_.running();
  stats.waiting = scheduler_.waiting();
  stats.kv_bytes_used = cache_->live_bytes();
  stats.kv_bytes_cached = cache_->idle_bytes();
  return stats;
}

void Engine::Submit(RequestId id, GenerationRequest request, std::shared_ptr<EventSink> sink,
                    std::int64_t submitted_ns) {
  const SequenceId key(id.value());
  const auto [it, is_new] = sequences_.emplace(key, std::make_unique<Sequence>());
  ASHLAR_CHECK(is_new, "request {} submitted twice", id.value());
  Sequence& sequence = *it->second;
  sched::KvText& text = sequence.text;
  text.tokens.reserve(std::min(std::max(request.prompt.size(), ContextOf(request)),
                               request.prompt.size() + request.max_tokens));
  text.tokens = request.prompt;
  text.max_tokens = StoredTokens(request);
  text.scope = scope_;
  text.scope.tenant_salt = request.cache_salt;
  text.digest = kv::DigestOf(text.scope);
  if (request.report_logits == LogitReport::kAll || request.prompt_logprobs) text.compute_from = 0;
  sequence.request = std::move(request);
  sequence.sink = std::move(sink);
  sequence.submitted_ns = submitted_ns;
  sequence.usage.prompt_tokens = text.tokens.size();
  sequence.guess_length = max_guesses_;
  if (text.tokens.size() > text.max_tokens) CutContext(sequence);
  if (sequence.request.deadline_ns != 0) {
    next_deadline_ns_ = std::min(next_deadline_ns_, sequence.request.deadline_ns);
  }
  memory_.Add(key, text);
  scheduler_.Add({.id = key,
                  .tokens = text.tokens.size(),
                  .priority = sequence.request.priority,
                  .tenant = sequence.request.tenant,
                  .weight = sequence.request.tenant_weight});
}

bool Engine::Cancel(RequestId id) {
  const SequenceId key(id.value());
  if (!sequences_.contains(key)) return false;
  Finish(key, FinishReason::kCancelled, "");
  return true;
}

void Engine::CancelAll() {
  while (!sequences_.empty()) Finish(sequences_.begin()->first, FinishReason::kCancelled, "");
}

// --- A step ---

bool Engine::Step() {
  record_ = {.start_ns = clock_.NowNs()};
  const bool is_any_expired = EndExpired();
  const sched::StepPlan& plan = scheduler_.Plan(memory_);
  for (const sched::AdmittedSequence& admitted : plan.admitted) OnAdmitted(admitted);
  stats_.preemptions += plan.preempted.size();
  stats_.urgent_preemptions += plan.preempted_for_urgent;
  if (plan.stuck) {
    Finish(*plan.stuck, FinishReason::kError,
           "the KV memory that the request needs is held by something that is not a request, and "
           "does not come back: a pinned prefix, or a smaller cap");
  }
  if (!plan.items.empty()) {
    RunPlan(plan);
    EndStep(plan);
    return true;
  }
  return is_any_expired || plan.stuck || !plan.preempted.empty();
}

// Whether any deadline had passed. O(1) until one has.
bool Engine::EndExpired() {
  const std::int64_t now_ns = record_.start_ns;
  if (now_ns < next_deadline_ns_) return false;
  next_deadline_ns_ = kNoDeadline;
  std::vector<SequenceId> expired;
  for (const auto& [id, sequence] : sequences_) {
    const std::int64_t deadline_ns = sequence->request.deadline_ns;
    if (deadline_ns == 0) continue;
    if (deadline_ns <= now_ns) {
      expired.push_back(id);
    } else {
      next_deadline_ns_ = std::min(next_deadline_ns_, deadline_ns);
    }
  }
  std::ranges::sort(expired);
  for (const SequenceId id : expired) {
    Finish(id, FinishReason::kDeadline, "the request's deadline passed before it was complete");
  }
  return !expired.empty();
}

void Engine::OnAdmitted(const sched::AdmittedSequence& admitted) {
  Sequence& sequence = *sequences_.at(admitted.id);
  const std::int64_t now_ns = clock_.NowNs();
  const AdmissionRecord record{.id = RequestId(admitted.id.value()),
                               .lookup = sequence.text.lookup,
                               .is_resumed = admitted.is_resumed,
                               .queue_ns = now_ns - sequence.submitted_ns};
  if (observer_ != nullptr) observer_->OnAdmitted(record);
  sequence.sink->OnAdmitted(record);
  if (admitted.is_resumed) return;
  sequence.admitted_ns = now_ns;
  sequence.usage.cached_tokens = admitted.cached_tokens;
  if (sequence.request.report_logits == LogitReport::kComputed) {
    sequence.text.compute_from = std::min(sequence.text.compute_from, admitted.cached_tokens);
  }
  if (HasPenalties(sequence.request.sampling)) sequence.history.emplace(sequence.request.prompt);
  ++stats_.admissions;
  stats_.prompt_tokens += sequence.request.prompt.size();
  stats_.cached_tokens += admitted.cached_tokens;
}

void Engine::RunPlan(const sched::StepPlan& plan) {
  GatherChunks(plan);
  const auto running = static_cast<std::uint32_t>(scheduler_.running());
  const std::uint32_t rows = std::min(kMaxStepRows, max_step_tokens_);
  guess_room_ = rows - std::min(rows, running);
  const std::int64_t forward_start_ns = clock_.NowNs();
  record_.plan_ns = forward_start_ns - record_.start_ns;
  forward_.Run(chunks_, [&](std::size_t chunk, std::size_t token, std::span<const float> logits) {
    if (forward_.IsRefused(chunk)) return;
    const std::int64_t start_ns = clock_.NowNs();
    OnLogits(*batch_[chunk], chunks_[chunk].position + token, logits);
    record_.sample_ns += clock_.NowNs() - start_ns;
  });
  record_.forward_ns = clock_.NowNs() - forward_start_ns - record_.sample_ns;
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    if (forward_.IsRefused(i)) continue;
    const std::size_t unconfirmed = batch_[i]->rejected + batch_[i]->text.guesses;
    sched::KvMemory::Commit(batch_[i]->text,
                            chunks_[i].tokens.first(chunks_[i].tokens.size() - unconfirmed));
  }
  scheduler_.Commit();
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    if (forward_.IsRefused(i)) {
      Refuse(plan.items[i].id);
    } else if (plan.items[i].reaches_end) {
      EndStepOf(i, plan.items[i]);
    }
  }
}

// Room for all of them was made when the step was planned: since then nothing has moved.
void Engine::GatherChunks(const sched::StepPlan& plan) {
  chunks_.clear();
  batch_.clear();
  group_blocks_.clear();
  const auto groups = static_cast<std::uint32_t>(cache_->layout().groups().size());
  for (const sched::StepItem& item : plan.items) {
    Sequence& sequence = *sequences_.at(item.id);
    const sched::KvText& text = sequence.text;
    const bool wants_all = item.position + item.tokens > text.compute_from || text.guesses > 0;
    sequence.tested = text.guesses;
    sequence.rejected = 0;
    const bool wants_last =
        item.reaches_end && (sequence.request.max_tokens > 0 || sequence.finish.has_value());
    for (std::uint32_t g = 0; g < groups; ++g) {
      group_blocks_.push_back({.blocks = text.held->addresses(g), .open = text.held->OpenRing(g)});
    }
    chunks_.push_back({.tokens = std::span(text.tokens).subspan(item.position, item.tokens),
                       .position = item.position,
                       .groups = std::span(group_blocks_).last(groups),
                       .logits = wants_all    ? model::LogitRows::kAll
                                 : wants_last ? model::LogitRows::kLast
                                              : model::LogitRows::kNone});
    batch_.push_back(&sequence);
  }
}

// All known tokens of the sequence are computed: it goes on with the token just sampled, or it is
// done.
void Engine::EndStepOf(std::size_t chunk, const sched::StepItem& item) {
  Sequence& sequence = *batch_[chunk];
  if (sequence.request.max_tokens == 0) {
    ReportFirstToken(sequence);
    Finish(item.id, FinishReason::kLength, "");
    return;
  }
  // When logits are reported the last token is computed too, for its own.
  const bool is_complete =
      !sequence.reports_logits() || item.position + item.tokens == sequence.text.tokens.size();
  if (sequence.finish && is_complete) {
    Finish(item.id, *sequence.finish, sequence.error);
    return;
  }
  if (sequence.request.stream && sequence.text.tokens.size() > sequence.text.max_tokens) {
    CutContext(sequence);
    scheduler_.Restart(item.id, sequence.text.tokens.size());
    return;
  }
  if (sequence.rejected > 0) scheduler_.Forget(item.id, sequence.rejected);
  scheduler_.Append(item.id, Guess(sequence));
}

// Appends what the text itself says may come next. How many: twice as many as last time when all
// were right, half as many when none was.
std::uint32_t Engine::Guess(Sequence& sequence) {
  if (max_guesses_ == 0 || sequence.reports_logits()) return 0;
  std::uint32_t& length = sequence.guess_length;
  if (sequence.tested > 0 && sequence.rejected == 0) length = std::min(2 * length, max_guesses_);
  if (sequence.tested > 0 && sequence.rejected == sequence.tested) length = (length + 1) / 2;
  sched::KvText& text = sequence.text;
  const std::uint64_t room = std::min<std::uint64_t>(
      {sequence.request.max_tokens - sequence.generated - 1, text.max_tokens - text.tokens.size(),
       guess_room_, sequence.guess_length});
  if (room == 0) return 0;
  const std::span<const TokenId> guesses = LookUpPrompt(text.tokens, room);
  if (guesses.empty()) return 0;
  const std::size_t from = static_cast<std::size_t>(guesses.data() - text.tokens.data());
  const std::size_t known = text.tokens.size();
  text.guesses = static_cast<std::uint32_t>(guesses.size());
  text.tokens.resize(known + text.guesses);
  std::copy_n(text.tokens.begin() + static_cast<std::ptrdiff_t>(from), text.guesses,
              text.tokens.begin() + static_cast<std::ptrdiff_t>(known));
  guess_room_ -= text.guesses;
  sequence.usage.guessed_tokens += text.guesses;
  return text.guesses;
}

// --- Texts longer than the context ---

std::uint64_t Engine::ContextOf(const GenerationRequest& request) const {
  return request.stream ? info_.max_context : context_;
}

std::uint64_t Engine::WindowOf(const ContextStream& stream) const {
  return stream.window > 0 ? stream.window : info_.max_context / 2;
}

void Engine::CutContext(Sequence& sequence) {
  ++stats_.context_cuts;
  const ContextStream& stream = *sequence.request.stream;
  std::vector<TokenId>& tokens = sequence.text.tokens;
  const std::uint64_t kept = stream.sinks + WindowOf(stream);
  ASHLAR_CHECK(kept < tokens.size(), "a text of {} tokens cannot be cut to {}", tokens.size(),
               kept);
  const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(stream.sinks);
  sequence.usage.dropped_tokens += tokens.size() - kept;
  tokens.erase(begin, begin + static_cast<std::ptrdiff_t>(tokens.size() - kept));
  sched::KvMemory::Restart(sequence.text);
}

void Engine::Refuse(SequenceId id) {
  if (++stats_.kv_refused == 1) {
    ASHLAR_LOG_WARNING(
        "keys or values are not finite in KV codec {}: their requests end in an error",
        info_.kv_codec);
  }
  Finish(id, FinishReason::kError,
         "the model's keys or values are not finite in the KV cache's format; a wider "
         "--kv-codec (bf16, f32) may hold them");
}

void Engine::EndStep(const sched::StepPlan& plan) {
  record_.number = ++stats_.steps;
  record_.total_ns = clock_.NowNs() - record_.start_ns;
  record_.predicted_ns = scheduler_.cost().PredictNs(plan.tokens, plan.attended_pairs);
  stats_.plan_ns += record_.plan_ns;
  stats_.forward_ns += record_.forward_ns;
  stats_.sample_ns += record_.sample_ns;
  stats_.decode_tokens += plan.decode_tokens;
  stats_.prefill_tokens += plan.tokens - plan.decode_tokens;
  if (!step_cost_) {
    estimator_.Observe(plan.tokens, plan.attended_pairs, record_.total_ns);
    scheduler_.SetCost(estimator_.cost());
  }
  if (observer_ == nullptr) return;
  record_.running = static_cast<std::uint32_t>(scheduler_.running());
  record_.waiting = static_cast<std::uint32_t>(scheduler_.waiting());
  record_.decode_tokens = plan.decode_tokens;
  record_.prefill_tokens = plan.tokens - plan.decode_tokens;
  record_.admitted = static_cast<std::uint32_t>(plan.admitted.size());
  record_.preempted = static_cast<std::uint32_t>(plan.preempted.size());
  record_.kv_bytes = cache_->live_bytes();
  observer_->OnStep(record_, plan);
}

void Engine::Finish(SequenceId id, FinishReason reason, std::string_view error) {
  auto node = sequences_.extract(id);
  ASHLAR_CHECK(!node.empty(), "sequence {} finished twice", id.value());
  scheduler_.Remove(id);
  Sequence& sequence = *node.mapped();
  Usage& usage = sequence.usage;
  usage.completion_tokens = sequence.generated;
  usage.preemptions = sequence.text.preemptions;
  usage.recomputed_tokens = sequence.text.recomputed_tokens;
  group_use_.clear();
  if (const auto& held = sequence.text.held) {
    usage.kv_bytes = held->bytes();
    for (std::uint32_t g = 0; g < cache_->layout().groups().size(); ++g) {
      const kv::Sequence::GroupBytes group = held->group_bytes(g);
      group_use_.push_back({.bytes = group.held, .peak_bytes = group.most});
    }
  }
  if (sequence.admitted_ns != 0) usage.queue_ns = sequence.admitted_ns - sequence.submitted_ns;
  if (sequence.first_token_ns != 0) {
    usage.ttft_ns = sequence.first_token_ns - sequence.submitted_ns;
    usage.prefill_ns = sequence.first_token_ns - sequence.admitted_ns;
    if (sequence.last_token_ns != 0)
      usage.decode_ns = sequence.last_token_ns - sequence.first_token_ns;
  }
  stats_.recomputed_tokens += usage.recomputed_tokens;
  stats_.guessed_tokens += usage.guessed_tokens;
  stats_.accepted_tokens += usage.accepted_tokens;
  ++stats_.finished[static_cast<std::size_t>(reason)];
  memory_.Remove(id);  // blocks return before anybody hears of the end
  if (observer_ != nullptr) {
    observer_->OnEnd({.id = RequestId(id.value()),
                      .submitted_ns = sequence.submitted_ns,
                      .admitted_ns = sequence.admitted_ns,
                      .first_token_ns = sequence.first_token_ns,
                      .ended_ns = clock_.NowNs(),
                      .reason = reason,
                      .usage = usage});
  }
  if (!group_use_.empty()) sequence.sink->OnMemory(group_use_);
  sequence.sink->OnFinish(reason, usage, error);
}

}  // namespace ashlar::engine
