#include "engine/engine.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/byte_size.h"
#include "base/check.h"

namespace ashlar::engine {
namespace {

// Most alternatives a request may ask to see per token.
constexpr std::uint32_t kMaxTopLogprobs = 128;

std::string_view CodecName(DType codec) {
  switch (codec) {
    case DType::kF32:
      return "f32";
    case DType::kF16:
      return "f16";
    case DType::kBF16:
      return "bf16";
    default:
      return NameOf(codec);
  }
}

bool HasPenalties(const model::SamplingParams& params) {
  return params.repetition_penalty != 1.0 || params.presence_penalty != 0.0 ||
         params.frequency_penalty != 0.0;
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
                kv::KvLayout::Create({.layers = config.layers,
                                      .kv_heads = config.kv_heads,
                                      .head_dim = config.head_dim,
                                      .codec = options.kv_codec,
                                      .block_tokens = options.block_tokens}));
  ASHLAR_ASSIGN(kv::BlockPool blocks, kv::BlockPool::Create(layout, options.kv_memory_bytes));
  return std::unique_ptr<Engine>(
      new Engine(model, kernels, pool, clock, options, std::move(blocks)));
}

Engine::Engine(const model::Model& model, const kernels::KernelSet& kernels, ThreadPool& pool,
               const Clock& clock, const EngineOptions& options, kv::BlockPool blocks)
    : clock_(clock),
      blocks_(std::move(blocks)),
      forward_(model, blocks_.layout(), kernels, pool, options.limits.max_step_tokens),
      sampler_(model.config().vocab),
      scheduler_(options.limits),
      info_{.vocab_size = model.config().vocab,
            .max_context = 0,
            .kv_codec = std::string(CodecName(options.kv_codec)),
            .block_tokens = options.block_tokens,
            .kv_bytes_per_token = blocks_.layout().bytes_per_token(),
            .kv_bytes_reserved = blocks_.bytes_reserved()} {
  context_ = options.max_context > 0 ? options.max_context : model.config().context;
  // The last token of a sequence is not stored.
  info_.max_context = std::min(context_, blocks_.capacity() * options.block_tokens + 1);
  chunks_.reserve(options.limits.max_running);
  batch_.reserve(options.limits.max_running);
}

ServiceStats Engine::stats() const {
  return {.running = scheduler_.running(),
          .waiting = scheduler_.waiting(),
          .kv_bytes_used = blocks_.bytes_used()};
}

// The last generated token's K and V are needed only when its logits are reported too.
std::uint64_t Engine::StoredTokens(const GenerationRequest& request) {
  const std::uint64_t generated = request.max_tokens;
  return request.prompt.size() +
         (request.report_logits || generated == 0 ? generated : generated - 1);
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
        fmt::format("{} prompt tokens + {} tokens to generate = {} exceed the context of {} "
                    "tokens; shorten the prompt or ask for fewer tokens",
                    prompt, request.max_tokens, prompt + request.max_tokens, context_));
  }
  const kv::KvLayout& layout = blocks_.layout();
  const std::uint64_t stored = StoredTokens(request);
  const std::uint64_t needed = layout.BlocksNeeded(stored);
  if (needed > blocks_.capacity()) {
    return MakeError(
        ErrorCode::kResourceExhausted,
        "{} tokens need {} blocks of {} bytes = {} bytes of KV memory, but --kv-memory "
        "gives {} blocks = {} bytes in all; shorten the request or raise --kv-memory",
        stored, needed, layout.block_bytes(), needed * layout.block_bytes(), blocks_.capacity(),
        blocks_.bytes_reserved());
  }
  return {};
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
  scheduler_.Add({.id = key,
                  .tokens = sequence->tokens.size(),
                  .blocks = blocks_.layout().BlocksNeeded(StoredTokens(sequence->request))});
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
  const sched::StepPlan& plan = scheduler_.Plan(blocks_.available());
  if (plan.items.empty()) return false;
  Admit(plan);
  RunPlan(plan);
  return true;
}

void Engine::Admit(const sched::StepPlan& plan) {
  for (const SequenceId id : plan.admitted) {
    Sequence& sequence = *sequences_.at(id);
    sequence.admitted_ns = clock_.NowNs();
    auto reservation =
        blocks_.Reserve(blocks_.layout().BlocksNeeded(StoredTokens(sequence.request)));
    ASHLAR_CHECK(reservation.has_value(), "the scheduler admitted more than fits");
    sequence.table.emplace(blocks_, *std::move(reservation));
    if (HasPenalties(sequence.request.sampling)) sequence.history.emplace(sequence.request.prompt);
  }
}

void Engine::RunPlan(const sched::StepPlan& plan) {
  chunks_.clear();
  batch_.clear();
  for (const sched::StepItem& item : plan.items) {
    Sequence& sequence = *sequences_.at(item.id);
    sequence.table->Prepare(item.tokens);
    const bool wants_all = sequence.request.report_logits || sequence.request.prompt_logprobs;
    const bool wants_last =
        item.reaches_end && (sequence.request.max_tokens > 0 || sequence.finish.has_value());
    chunks_.push_back({.tokens = std::span(sequence.tokens).subspan(item.position, item.tokens),
                       .position = item.position,
                       .blocks = sequence.table->addresses(),
                       .logits = wants_all    ? model::LogitRows::kAll
                                 : wants_last ? model::LogitRows::kLast
                                              : model::LogitRows::kNone});
    batch_.push_back(&sequence);
  }
  forward_.Run(chunks_, [&](std::size_t chunk, std::size_t token, std::span<const float> logits) {
    OnLogits(*batch_[chunk], chunks_[chunk].position + token, logits);
  });
  for (const sched::StepItem& item : plan.items) sequences_.at(item.id)->table->Commit(item.tokens);
  scheduler_.Commit();
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    if (plan.items[i].reaches_end) EndStepOf(*batch_[i], plan.items[i]);
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
      !sequence.request.report_logits || item.position + item.tokens == sequence.tokens.size();
  if (sequence.finish && is_complete) {
    Finish(item.id, *sequence.finish, sequence.error);
  } else {
    scheduler_.Append(item.id);
  }
}

void Engine::OnLogits(Sequence& sequence, std::uint64_t position, std::span<const float> logits) {
  const GenerationRequest& request = sequence.request;
  if (request.report_logits) sequence.sink->OnLogits(position, logits);
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
  if (sequence.table) {
    usage.kv_bytes = sequence.table->bytes();
    usage.queue_ns = sequence.admitted_ns - sequence.submitted_ns;
  }
  if (sequence.first_token_ns != 0) {
    usage.ttft_ns = sequence.first_token_ns - sequence.submitted_ns;
    usage.prefill_ns = sequence.first_token_ns - sequence.admitted_ns;
    if (sequence.last_token_ns != 0)
      usage.decode_ns = sequence.last_token_ns - sequence.first_token_ns;
  }
  sequence.table.reset();  // blocks return before anybody hears of the end
  sequence.sink->OnFinish(reason, usage, error);
}

}  // namespace ashlar::engine
