#include "server/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/log.h"
#include "server/token_text.h"

namespace ashlar::server {
namespace {

AnswerOptions AnswerOptionsOf(const GenerationPlan& plan) {
  return {.identity = plan.identity,
          .prompts = plan.prompts.size(),
          .n = plan.options.n,
          .best_of = plan.options.best_of,
          .with_logprobs = plan.options.top_logprobs.has_value(),
          .with_token_ids = plan.options.return_tokens_as_token_ids,
          .include_usage = plan.options.include_usage};
}

std::vector<TokenId> EndTokensOf(const GenerationOptions& options,
                                 const text::Tokenizer& tokenizer) {
  std::vector<TokenId> tokens = options.stop_token_ids;
  if (!options.ignore_eos) {
    const auto end_tokens = tokenizer.end_tokens();
    tokens.insert(tokens.end(), end_tokens.begin(), end_tokens.end());
  }
  return tokens;
}

// A sequence that the server cancelled at a stop string has stopped.
Ending EndingOf(engine::FinishReason reason, bool is_stopped) {
  if (is_stopped) {
    return Ending::kStop;
  }
  switch (reason) {
    case engine::FinishReason::kStop:
      return Ending::kStop;
    case engine::FinishReason::kLength:
      return Ending::kLength;
    case engine::FinishReason::kCancelled:
    case engine::FinishReason::kDeadline:
      return Ending::kAbort;
    case engine::FinishReason::kError:
      return Ending::kError;
  }
  return Ending::kError;
}

}  // namespace

// The engine holds one per sequence.
class Generation::Sink final : public engine::EventSink {
 public:
  Sink(std::shared_ptr<Generation> generation, std::size_t sequence)
      : generation_(std::move(generation)), sequence_(sequence) {}

  void OnAdmitted(const engine::AdmissionRecord& admission) override {
    generation_->Enqueue({sequence_, AdmittedEvent{admission}});
  }
  void OnPromptLogprobs(std::vector<engine::TokenLogprobs> logprobs) override {
    generation_->Enqueue({sequence_, PromptLogprobsEvent{std::move(logprobs)}});
  }
  void OnToken(TokenId token, const engine::TokenLogprobs* logprobs) override {
    if (generation_->is_over_) {
      return;
    }
    auto copy = logprobs != nullptr ? std::make_unique<engine::TokenLogprobs>(*logprobs) : nullptr;
    generation_->Enqueue({sequence_, TokenEvent{token, std::move(copy)}});
  }
  void OnFinish(engine::FinishReason reason, const engine::Usage& usage,
                std::string_view error) override {
    generation_->Enqueue({sequence_, FinishEvent{reason, usage, std::string(error)}});
  }

 private:
  const std::shared_ptr<Generation> generation_;
  const std::size_t sequence_;
};

Generation::Generation(Environment environment, GenerationPlan plan, Reply reply)
    : environment_(std::move(environment)), plan_(std::move(plan)), reply_(std::move(reply)) {
  const GenerationOptions& options = plan_.options;
  writer_ = options.stream
                ? MakeStreamedAnswer(*environment_.tokenizer, AnswerOptionsOf(plan_), *reply_)
                : MakeWholeAnswer(*environment_.tokenizer, AnswerOptionsOf(plan_), *reply_,
                                  environment_.answer_memory);
  const ChoiceOptions choice{.stop = options.stop,
                             .include_stop_str_in_output = options.include_stop_str_in_output,
                             .skip_special_tokens = options.skip_special_tokens,
                             .continues_text = plan_.identity.kind == ApiKind::kCompletion,
                             .end_tokens = EndTokensOf(options, *environment_.tokenizer)};
  const std::size_t count = plan_.prompts.size() * options.best_of;
  for (std::size_t i = 0; i < count; ++i) {
    sequences_.push_back({.stream = ChoiceStream(*environment_.tokenizer, choice),
                          .offset_base = CountCodePoints(PromptOf(i).echo_text),
                          .is_echo_due = plan_.echo,
                          .is_finished = false});
  }
  unfinished_ = count;
  unaccounted_ = count;
  reply_->record().answer_id = plan_.identity.id;
  reply_->record().generation = {
      .n = options.n, .max_tokens = options.max_tokens, .sequences = count};
  for (const EncodedPrompt& prompt : plan_.prompts) {
    usage_.prompt_tokens += prompt.tokens.size();
  }
}

engine::GenerationRequest Generation::RequestFor(std::size_t sequence) const {
  const GenerationOptions& options = plan_.options;
  const EncodedPrompt& prompt = PromptOf(sequence);
  engine::GenerationRequest request;
  request.prompt = prompt.tokens;
  request.sampling = options.sampling;
  request.sampling.seed = plan_.seed + sequence % options.best_of;
  request.max_tokens = prompt.max_tokens;
  request.cache_salt = options.cache_salt;
  request.stop_tokens = EndTokensOf(options, *environment_.tokenizer);
  request.min_tokens = options.min_tokens;
  request.priority = plan_.priority;
  request.tenant = plan_.tenant;
  request.tenant_weight = plan_.tenant_weight;
  request.deadline_ns = plan_.deadline_ns;
  request.stream = plan_.stream;
  request.top_logprobs = options.top_logprobs;
  if (options.best_of > options.n && !request.top_logprobs.has_value()) {
    request.top_logprobs = 0;  // the choice among sequences is by likelihood
  }
  request.prompt_logprobs = plan_.echo && options.top_logprobs.has_value();
  return request;
}

void Generation::Start() {
  // Weak: the answer must count as dropped when the engine lets go of the sinks.
  reply_->OnClientGone([weak = weak_from_this()] {
    if (const auto generation = weak.lock()) {
      generation->Cancel();
    }
  });
  const Status submitted = plan_.options.use_beam_search ? StartBeams() : Submit();
  if (!submitted.ok()) {
    reply_->record().generation->ending = Ending::kError;
    FailAnswer(RefusalOf(submitted.error()));
    return;
  }
  if (is_over_) {  // Cancel may have come before the ids were known
    CancelSequences();
  }
  if (!is_over_) {
    writer_->Begin();
  }
  environment_.workers->Post([self = shared_from_this()] { self->Round(); });
}

Status Generation::Submit() {
  std::vector<engine::Submission> submissions;
  submissions.reserve(sequences_.size());
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    submissions.push_back(
        {.request = RequestFor(i), .sink = std::make_shared<Sink>(shared_from_this(), i)});
  }
  ASHLAR_ASSIGN(const std::vector<RequestId> submitted,
                environment_.service->SubmitAll(std::move(submissions)));
  {
    const std::lock_guard lock(mutex_);
    submitted_ = submitted;
  }
  TellSubmitted(submitted);
  return {};
}

void Generation::TellSubmitted(std::span<const RequestId> ids) {
  if (reply_->observer() != nullptr) reply_->observer()->OnSubmitted(reply_->record(), ids);
}

// The texts of a prompt bear the id of the request that computes it. After an error those that were
// started are cancelled; nobody hears of them.
Status Generation::StartBeams() {
  const GenerationOptions& options = plan_.options;
  const auto post = [workers = environment_.workers](std::function<void()> task) {
    workers->Post(std::move(task));
  };
  std::vector<RequestId> ids;
  ids.reserve(sequences_.size());
  for (std::size_t p = 0; p < plan_.prompts.size(); ++p) {
    const std::size_t first = p * options.best_of;
    auto search = engine::BeamSearch::Start(
        *environment_.service, post, RequestFor(first),
        {.width = options.beam_width,
         .n = options.best_of,
         .length_penalty = options.length_penalty},
        [self = shared_from_this(), p](engine::BeamResult result) {
          self->TakeBeams(p, std::move(result));
        },
        [self = shared_from_this(), first](const engine::AdmissionRecord& admission) {
          self->Enqueue({first, AdmittedEvent{admission}});
        });
    if (!search.ok()) {
      CancelSequences();
      return search.error();
    }
    ids.insert(ids.end(), options.best_of, (*search)->prompt_request());
    const std::lock_guard lock(mutex_);
    beams_.emplace_back(*search);
  }
  TellSubmitted(ids);
  return {};
}

// As if its sequences had generated them.
void Generation::TakeBeams(std::size_t prompt, engine::BeamResult result) {
  const std::size_t count = plan_.options.best_of;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t sequence = prompt * count + i;
    engine::Usage usage = i == 0 ? result.usage : engine::Usage{};
    usage.completion_tokens = 0;
    engine::FinishReason reason = result.reason;
    if (i < result.beams.size()) {
      engine::Beam& beam = result.beams[i];
      reason = beam.reason;
      usage.completion_tokens = beam.tokens.size();
      for (std::size_t t = 0; t < beam.tokens.size(); ++t) {
        auto logprobs = plan_.options.top_logprobs.has_value()
                            ? std::make_unique<engine::TokenLogprobs>(std::move(beam.logprobs[t]))
                            : nullptr;
        Enqueue({sequence, TokenEvent{beam.tokens[t], std::move(logprobs)}});
      }
    }
    Enqueue({sequence, FinishEvent{reason, usage, result.error}});
  }
}

// The engine's error, and when the queue should have moved.
ApiError Generation::RefusalOf(const Error& error) const {
  ApiError refusal = ApiErrorFrom(error);
  if (error.code == ErrorCode::kResourceExhausted) {
    const engine::ServiceStats stats = environment_.service->stats();
    refusal.retry_after_s = reply_->record().ticket.RetryAfterS(stats.waiting, stats.running);
  }
  return refusal;
}

void Generation::Cancel() {
  is_over_ = true;
  CancelSequences();
}

void Generation::CancelSequences() {
  std::vector<RequestId> ids;
  std::vector<std::weak_ptr<engine::BeamSearch>> beams;
  {
    const std::lock_guard lock(mutex_);
    ids = submitted_;
    beams = beams_;
  }
  for (const RequestId id : ids) {
    environment_.service->Cancel(id);
  }
  for (const auto& weak : beams) {
    if (const auto search = weak.lock()) {
      search->Cancel();
    }
  }
}

void Generation::Enqueue(Event event) {
  {
    const std::lock_guard lock(mutex_);
    if (is_over_ && !std::holds_alternative<FinishEvent>(event.what)) {
      return;
    }
    events_.push_back(std::move(event));
    if (is_round_due_) {
      return;
    }
    is_round_due_ = true;
  }
  environment_.workers->Post([self = shared_from_this()] { self->Round(); });
}

// One batch, then the others' turn.
void Generation::Round() {
  std::vector<Event> events;
  {
    const std::lock_guard lock(mutex_);
    events.swap(events_);
  }
  for (Event& event : events) {
    if (const auto* admitted = std::get_if<AdmittedEvent>(&event.what)) {
      if (reply_->observer() != nullptr) {
        reply_->observer()->OnAdmitted(reply_->record(), event.sequence, admitted->admission);
      }
      continue;
    }
    if (const auto* finish = std::get_if<FinishEvent>(&event.what)) {
      Record(event.sequence, *finish);  // before the client can hear of it
    }
    Handle(event);
  }
  if (!is_over_ && !writer_->Flush()) {
    Cancel();
  }
  if (unaccounted_ == 0) {
    // Here and not where the last reference goes: that may be the engine's thread.
    writer_.reset();
    reply_.reset();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (events_.empty()) {
      is_round_due_ = false;
      return;
    }
  }
  environment_.workers->Post([self = shared_from_this()] { self->Round(); });
}

void Generation::Handle(Event& event) {
  if (is_over_) {
    return;
  }
  try {
    Write(event);
  } catch (const std::exception& error) {
    ASHLAR_LOG_ERROR("server: writing an answer: {}", error.what());
    Cancel();
  }
}

void Generation::Write(Event& event) {
  const std::size_t index = event.sequence;
  if (auto* prompt = std::get_if<PromptLogprobsEvent>(&event.what)) {
    EmitEcho(index, std::move(prompt->logprobs));
    return;
  }
  EmitEcho(index, {});
  if (const auto* token = std::get_if<TokenEvent>(&event.what)) {
    HandleToken(index, *token);
    (void)FailedByOverflow();
  } else {
    HandleFinish(index, std::get<FinishEvent>(event.what));
  }
}

void Generation::HandleToken(std::size_t index, const TokenEvent& event) {
  ChoiceStream& stream = sequences_[index].stream;
  if (stream.is_stopped()) {
    return;  // was under way when the stop string was found
  }
  Emit(index, stream.Push(event.token, event.logprobs.get()));
  if (std::holds_alternative<std::string>(stream.stop_reason())) {
    std::optional<RequestId> id;
    {
      const std::lock_guard lock(mutex_);
      if (index < submitted_.size()) {
        id = submitted_[index];
      }
    }
    if (id.has_value()) {
      environment_.service->Cancel(*id);
    }
  }
}

void Generation::HandleFinish(std::size_t index, const FinishEvent& event) {
  Sequence& sequence = sequences_[index];
  if (sequence.is_finished) {
    return;
  }
  const bool is_stopped = sequence.stream.is_stopped();
  const bool is_error = event.reason == engine::FinishReason::kError;
  const bool is_late = event.reason == engine::FinishReason::kDeadline && !is_stopped;
  if (is_error || is_late || (event.reason == engine::FinishReason::kCancelled && !is_stopped)) {
    FailAnswer({.status = is_error  ? 500
                          : is_late ? 504
                                    : 503,
                .message = event.error.empty() ? "the request was ended before it was complete"
                                               : event.error,
                .code = is_error  ? ""
                        : is_late ? "deadline_exceeded"
                                  : "service_unavailable"});
    return;
  }
  Emit(index, sequence.stream.Finish());
  sequence.is_finished = true;
  const std::uint64_t tokens = sequence.stream.completion_tokens();
  const bool is_stop = sequence.stream.is_stopped() || event.reason == engine::FinishReason::kStop;
  writer_->FinishSequence(
      index, {.finish_reason = is_stop ? "stop" : "length",
              .stop_reason = sequence.stream.stop_reason(),
              .mean_logprob =
                  tokens == 0 ? 0 : sequence.stream.sum_logprobs() / static_cast<double>(tokens)});
  usage_.completion_tokens += tokens;
  usage_.dropped_tokens += event.usage.dropped_tokens;
  if (index % plan_.options.best_of == 0) {
    usage_.cached_tokens += event.usage.cached_tokens;
  }
  if (--unfinished_ == 0 && !FailedByOverflow()) {
    is_over_ = true;
    writer_->Complete(usage_);
  }
}

void Generation::Record(std::size_t index, const FinishEvent& event) {
  --unaccounted_;
  const Sequence& sequence = sequences_[index];
  const SequenceEnding end{.index = index,
                           .ending = EndingOf(event.reason, sequence.stream.is_stopped()),
                           .usage = event.usage,
                           // When the answer is over, what came later was not looked at.
                           .completion_tokens = is_over_ && !sequence.is_finished
                                                    ? event.usage.completion_tokens
                                                    : sequence.stream.completion_tokens(),
                           .e2e_ns = reply_->age_ns()};
  if (reply_->observer() != nullptr) {
    reply_->observer()->OnSequenceEnd(reply_->record(), end);
  }
  Admission::Ticket& ticket = reply_->record().ticket;
  ticket.Charge(event.usage.prompt_tokens + event.usage.completion_tokens);
  ticket.AddServed(event.usage.prefill_ns + event.usage.decode_ns);
  GenerationRecord& record = *reply_->record().generation;
  record.prompt_tokens += event.usage.prompt_tokens;
  record.cached_tokens += event.usage.cached_tokens;
  record.completion_tokens += end.completion_tokens;
  record.longest_completion = std::max(record.longest_completion, end.completion_tokens);
  record.queue_ns = std::max(record.queue_ns, event.usage.queue_ns);
  if (event.usage.ttft_ns > 0 && (record.ttft_ns == 0 || event.usage.ttft_ns < record.ttft_ns)) {
    record.ttft_ns = event.usage.ttft_ns;
  }
  record.ending = std::max(record.ending.value_or(end.ending), end.ending);
}

void Generation::Emit(std::size_t index, TextPiece piece) {
  if (!plan_.options.top_logprobs.has_value()) {
    piece.tokens.clear();  // they were for best_of only
  }
  if (piece.empty()) {
    return;
  }
  for (TokenEntry& entry : piece.tokens) {
    entry.text_offset += sequences_[index].offset_base;
  }
  writer_->AddPiece(index, std::move(piece));
}

// The prompt as the first piece of a choice; once.
void Generation::EmitEcho(std::size_t index, std::vector<engine::TokenLogprobs> logprobs) {
  if (!std::exchange(sequences_[index].is_echo_due, false)) {
    return;
  }
  const EncodedPrompt& prompt = PromptOf(index);
  TextPiece piece{.text = prompt.echo_text, .tokens = {}};
  if (plan_.options.top_logprobs.has_value()) {
    text::Detokenizer detokenizer(*environment_.tokenizer);
    std::size_t offset = 0;
    for (std::size_t i = 0; i < prompt.tokens.size(); ++i) {
      TokenEntry entry{
          .logprobs = {}, .text_offset = offset, .has_logprob = i > 0 && i - 1 < logprobs.size()};
      if (entry.has_logprob) {
        entry.logprobs = std::move(logprobs[i - 1]);
      }
      entry.logprobs.token = prompt.tokens[i];
      offset += CountCodePoints(detokenizer.Push(prompt.tokens[i]));
      piece.tokens.push_back(std::move(entry));
    }
  }
  if (!piece.empty()) {
    writer_->AddPiece(index, std::move(piece));
  }
}

bool Generation::FailedByOverflow() {
  const std::optional<ApiError> overflow = writer_->Overflow();
  if (overflow.has_value()) {
    FailAnswer(*overflow);
  }
  return overflow.has_value();
}

void Generation::FailAnswer(const ApiError& error) {
  is_over_ = true;
  CancelSequences();
  writer_->Fail(error);
}

}  // namespace ashlar::server
