#include "engine/engine.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "base/byte_size.h"
#include "base/check.h"
#include "base/log.h"
#include "model/kv_layout.h"

namespace ashlar::engine {
namespace {

// Most alternatives a request may ask to see per token.
constexpr std::uint32_t kMaxTopLogprobs = 128;

bool ReportsLogits(const GenerationRequest& request) {
  return request.report_logits != LogitReport::kNone;
}

bool HasPenalties(const model::SamplingParams& params) {
  return params.repetition_penalty != 1.0 || params.presence_penalty != 0.0 ||
         params.frequency_penalty != 0.0;
}

// One engine runs one model, so what names it here need only tell codecs and layouts apart.
kv::Scope ScopeOf(const model::ModelConfig& config, const EngineOptions& options,
                  const kv::KvLayout& layout) {
  return {.model_fingerprint = fmt::format("{}/{}", config.architecture, config.name),
          .codec_spec = fmt::format("{} {}", options.kv_codec.name, layout.Fingerprint()),
          .layout_version = 1};
}

TokenLogprobs LogprobsOf(std::span<const float> logits, TokenId token, std::uint32_t top) {
  const double log_sum = model::LogSumExp(logits);
  const double logit = static_cast<double>(logits[static_cast<std::size_t>(token)]);
  return {.token = token,
          .logprob = static_cast<float>(logit - log_sum),
          .top = model::TopLogprobs(logits, top, log_sum)};
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
  ASHLAR_ASSIGN(
      std::unique_ptr<kv::KvCache> cache,
      kv::KvCache::Create(
          layout, {.memory_bytes = options.kv_memory_bytes, .replacement = options.replacement},
          clock));
  return std::unique_ptr<Engine>(
      new Engine(model, kernels, pool, clock, options, std::move(cache)));
}

Engine::Engine(const model::Model& model, const kernels::KernelSet& kernels, ThreadPool& pool,
               const Clock& clock, const EngineOptions& options, std::unique_ptr<kv::KvCache> cache)
    : clock_(clock),
      prefill_chunk_(options.limits.prefill_chunk),
      reuse_(options.reuse),
      scope_(ScopeOf(model.config(), options, cache->layout())),
      cache_(std::move(cache)),
      forward_(model, cache_->layout(), kernels, pool, options.limits.max_step_tokens),
      sampler_(model.config().vocab),
      scheduler_(options.limits),
      info_{.vocab_size = model.config().vocab,
            .max_context = 0,
            .kv_codec = options.kv_codec.name,
            .block_tokens = options.block_tokens,
            .kv_bytes_per_token = cache_->layout().bytes_per_token(),
            .kv_bytes_reserved = cache_->memory_bytes()} {
  context_ = options.max_context > 0 ? options.max_context : model.config().context;
  // The last token of a sequence is not stored.
  info_.max_context = std::min(context_, cache_->MaxTokens(context_, prefill_chunk_) + 1);
  chunks_.reserve(options.limits.max_running);
  group_blocks_.reserve(options.limits.max_running * cache_->layout().groups().size());
  batch_.reserve(options.limits.max_running);
}

ServiceStats Engine::stats() const {
  return {.running = scheduler_.running(),
          .waiting = scheduler_.waiting(),
          .kv_bytes_used = cache_->live_bytes(),
          .kv_bytes_cached = cache_->idle_bytes(),
          .kv_refused = refused_};
}

// The last generated token's K and V are needed only when its logits are reported too.
std::uint64_t Engine::StoredTokens(const GenerationRequest& request) {
  const std::uint64_t generated = request.max_tokens;
  return request.prompt.size() +
         (ReportsLogits(request) || generated == 0 ? generated : generated - 1);
}

Status Engine::Check(const GenerationRequest& request) const {
  const auto bad = [](std::string message) {
    return Error{ErrorCode::kInvalidArgument, std::move(message)};
  };
  if (request.prompt.empty()) return bad("the prompt has no tokens; give at least one");
  for (const TokenId token : request.prompt) {
    if (token < 0 || static_cast<std::uint64_t>(token) >= info_.vocab_size) {
      return bad(fmt::format("prompt token {} is outside the vocabulary (0 to {})", token,
                             info_.vocab_size - 1));
    }
  }
  ASHLAR_TRY(model::Validate(request.sampling, info_.vocab_size));
  if (request.top_logprobs && *request.top_logprobs > kMaxTopLogprobs) {
    return bad(fmt::format("{} top logprobs asked for; at most {}", *request.top_logprobs,
                           kMaxTopLogprobs));
  }
  if (request.prompt_logprobs && !request.top_logprobs) {
    return bad("prompt logprobs need top_logprobs to be set");
  }
  const std::uint64_t prompt = request.prompt.size();
  if (prompt > context_ || request.max_tokens > context_ - prompt) {
    return bad(
        fmt::format("{} prompt tokens and {} tokens to generate exceed the context of {} tokens; "
                    "shorten the prompt or ask for fewer tokens",
                    prompt, request.max_tokens, context_));
  }
  if (request.cache_salt.size() > kv::kMaxScopeFieldBytes) {
    return bad(fmt::format("a cache salt of {} bytes; at most {}", request.cache_salt.size(),
                           kv::kMaxScopeFieldBytes));
  }
  const kv::AdmitOptions admit = AdmitOptionsOf(request);
  if (!cache_->CouldEverFit(admit)) {
    std::vector<std::uint64_t> blocks;
    cache_->BlocksNeeded(admit, blocks);
    return MakeError(
        ErrorCode::kResourceExhausted,
        "{} tokens need {} bytes of KV memory ({} a token, in blocks of {} tokens{}), in whole "
        "pages of {} bytes, but --kv-memory gives {} bytes in all; shorten the request or raise "
        "--kv-memory",
        admit.max_tokens, cache_->layout().BytesOf(blocks), cache_->layout().bytes_per_token(),
        cache_->layout().block_tokens(),
        cache_->layout().has_encoded() ? ", and an open block for each codec" : "",
        cache_->core().pool.store().page_bytes(), cache_->memory_bytes());
  }
  return {};
}

// Where every position must be computed for its logits, nothing can be served from the cache.
kv::AdmitOptions Engine::AdmitOptionsOf(const GenerationRequest& request) const {
  const bool wants_all = request.report_logits == LogitReport::kAll || request.prompt_logprobs;
  return {.max_tokens = StoredTokens(request),
          .chunk = prefill_chunk_,
          .reuse = reuse_ == kv::Reuse::kOn && wants_all ? kv::Reuse::kStore : reuse_};
}

void Engine::Submit(RequestId id, GenerationRequest request, std::shared_ptr<EventSink> sink,
                    std::int64_t submitted_ns) {
  auto sequence = std::make_unique<Sequence>();
  sequence->id = id;
  sequence->tokens.reserve(request.prompt.size() + request.max_tokens);
  sequence->tokens = request.prompt;
  sequence->request = std::move(request);
  sequence->sink = std::move(sink);
  sequence->submitted_ns = submitted_ns;
  sequence->usage.prompt_tokens = sequence->tokens.size();
  const SequenceId key(id.value());
  sequence->scope = scope_;
  sequence->scope.tenant_salt = sequence->request.cache_salt;
  sequence->digest = kv::DigestOf(sequence->scope);
  scheduler_.Add({.id = key, .tokens = sequence->tokens.size()});
  const bool is_new = sequences_.emplace(key, std::move(sequence)).second;
  ASHLAR_CHECK(is_new, "request {} submitted twice", id.value());
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

bool Engine::Step() {
  const sched::StepPlan& plan = scheduler_.Plan([this](SequenceId id) { return Admit(id); });
  if (plan.items.empty()) return false;
  RunPlan(plan);
  return true;
}

sched::Admission Engine::Admit(SequenceId id) {
  Sequence& sequence = *sequences_.at(id);
  kv::Admission admission = cache_->Admit({.scope = sequence.scope,
                                           .digest = sequence.digest,
                                           .tokens = sequence.request.prompt,
                                           .hashes = &sequence.hashes},
                                          AdmitOptionsOf(sequence.request));
  switch (admission.status) {
    case kv::AdmitStatus::kWait:
      return {.answer = sched::Admission::Answer::kWait};
    case kv::AdmitStatus::kNoMemory:
      return {.answer = sched::Admission::Answer::kNoMemory};
    case kv::AdmitStatus::kAdmitted:
      break;
  }
  sequence.admitted_ns = clock_.NowNs();
  sequence.usage.cached_tokens = admission.sequence->size();
  sequence.cached = std::move(admission.sequence);
  sequence.hashes = {};
  if (HasPenalties(sequence.request.sampling)) sequence.history.emplace(sequence.request.prompt);
  return {.answer = sched::Admission::Answer::kAdmitted,
          .cached_tokens = sequence.usage.cached_tokens};
}

void Engine::RunPlan(const sched::StepPlan& plan) {
  chunks_.clear();
  batch_.clear();
  group_blocks_.clear();
  for (const sched::StepItem& item : plan.items) {
    const bool is_prepared = sequences_.at(item.id)->cached->Prepare(item.tokens);
    ASHLAR_CHECK(is_prepared, "sequence {} was promised more than it got", item.id.value());
  }
  // Addresses last: preparing one sequence may move blocks of another.
  for (const sched::StepItem& item : plan.items) {
    Sequence& sequence = *sequences_.at(item.id);
    const bool wants_all = ReportsLogits(sequence.request) || sequence.request.prompt_logprobs;
    const bool wants_last =
        item.reaches_end && (sequence.request.max_tokens > 0 || sequence.finish.has_value());
    const auto groups = static_cast<std::uint32_t>(cache_->layout().groups().size());
    for (std::uint32_t g = 0; g < groups; ++g) {
      group_blocks_.push_back(
          {.blocks = sequence.cached->addresses(g), .open = sequence.cached->OpenRing(g)});
    }
    chunks_.push_back({.tokens = std::span(sequence.tokens).subspan(item.position, item.tokens),
                       .position = item.position,
                       .groups = std::span(group_blocks_).last(groups),
                       .logits = wants_all    ? model::LogitRows::kAll
                                 : wants_last ? model::LogitRows::kLast
                                              : model::LogitRows::kNone});
    batch_.push_back(&sequence);
  }
  forward_.Run(chunks_, [&](std::size_t chunk, std::size_t token, std::span<const float> logits) {
    if (forward_.IsRefused(chunk)) return;
    OnLogits(*batch_[chunk], chunks_[chunk].position + token, logits);
  });
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    if (!forward_.IsRefused(i)) batch_[i]->cached->Commit(chunks_[i].tokens);
  }
  scheduler_.Commit();
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    if (forward_.IsRefused(i)) {
      if (++refused_ == 1) {
        ASHLAR_LOG_WARNING(
            "keys or values are not finite in KV codec {}: their requests end in an "
            "error",
            info_.kv_codec);
      }
      Finish(plan.items[i].id, FinishReason::kError,
             "the model's keys or values are not finite in the KV cache's format; a wider "
             "--kv-codec (bf16, f32) may hold them");
    } else if (plan.items[i].reaches_end) {
      EndStepOf(*batch_[i], plan.items[i]);
    }
  }
}

// All known tokens of the sequence are computed: it goes on with the token just sampled, or it is
// done.
void Engine::EndStepOf(Sequence& sequence, const sched::StepItem& item) {
  if (sequence.request.max_tokens == 0) {
    ReportFirstToken(sequence);
    Finish(item.id, FinishReason::kLength, "");
    return;
  }
  // When logits are reported the last token is computed too, for its own.
  const bool is_complete =
      !ReportsLogits(sequence.request) || item.position + item.tokens == sequence.tokens.size();
  if (sequence.finish && is_complete) {
    Finish(item.id, *sequence.finish, sequence.error);
  } else {
    scheduler_.Append(item.id);
  }
}

void Engine::OnLogits(Sequence& sequence, std::uint64_t position, std::span<const float> logits) {
  const GenerationRequest& request = sequence.request;
  if (ReportsLogits(request)) sequence.sink->OnLogits(position, logits);
  if (request.prompt_logprobs && position + 1 < request.prompt.size()) {
    sequence.prompt_logprobs.push_back(
        LogprobsOf(logits, request.prompt[position + 1], *request.top_logprobs));
  }
  const bool is_last_known = position + 1 == sequence.tokens.size();
  if (is_last_known && !sequence.finish && request.max_tokens > 0) SampleNext(sequence, logits);
}

void Engine::ReportFirstToken(Sequence& sequence) {
  sequence.first_token_ns = clock_.NowNs();
  if (sequence.request.prompt_logprobs) {
    sequence.sink->OnPromptLogprobs(std::move(sequence.prompt_logprobs));
  }
}

void Engine::SampleNext(Sequence& sequence, std::span<const float> logits) {
  static const model::TokenHistory kNoHistory{{}};
  const GenerationRequest& request = sequence.request;
  const TokenId token =
      sampler_.Sample(logits, request.sampling, sequence.history ? *sequence.history : kNoHistory,
                      sequence.tokens.size());
  if (!std::isfinite(logits[static_cast<std::size_t>(token)])) {
    sequence.finish = FinishReason::kError;
    sequence.error =
        "the model gave no finite logits: its weights are damaged or out of f32's range";
    return;
  }
  if (sequence.generated() == 0) ReportFirstToken(sequence);
  sequence.tokens.push_back(token);
  sequence.last_token_ns = clock_.NowNs();
  if (sequence.history) sequence.history->Add(token);
  if (request.top_logprobs) {
    const TokenLogprobs logprobs = LogprobsOf(logits, token, *request.top_logprobs);
    sequence.sink->OnToken(token, &logprobs);
  } else {
    sequence.sink->OnToken(token, nullptr);
  }
  if (std::find(request.stop_tokens.begin(), request.stop_tokens.end(), token) !=
      request.stop_tokens.end()) {
    sequence.finish = FinishReason::kStop;
  } else if (sequence.generated() == request.max_tokens) {
    sequence.finish = FinishReason::kLength;
  }
}

void Engine::Finish(SequenceId id, FinishReason reason, std::string_view error) {
  auto node = sequences_.extract(id);
  ASHLAR_CHECK(!node.empty(), "sequence {} finished twice", id.value());
  scheduler_.Remove(id);
  Sequence& sequence = *node.mapped();
  Usage& usage = sequence.usage;
  usage.completion_tokens = sequence.generated();
  if (sequence.cached) {
    usage.kv_bytes = sequence.cached->bytes();
    usage.queue_ns = sequence.admitted_ns - sequence.submitted_ns;
  }
  if (sequence.first_token_ns != 0) {
    usage.ttft_ns = sequence.first_token_ns - sequence.submitted_ns;
    usage.prefill_ns = sequence.first_token_ns - sequence.admitted_ns;
    if (sequence.last_token_ns != 0)
      usage.decode_ns = sequence.last_token_ns - sequence.first_token_ns;
  }
  sequence.cached.reset();  // blocks return before anybody hears of the end
  sequence.sink->OnFinish(reason, usage, error);
}

}  // namespace ashlar::engine
