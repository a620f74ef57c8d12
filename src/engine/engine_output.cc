// From logits to tokens, and to those who wait for them.
#include <algorithm>
#include <cmath>

#include "engine/engine.h"

namespace ashlar::engine {
namespace {

TokenLogprobs LogprobsOf(const kernels::KernelSet& kernels, std::span<const float> logits,
                         TokenId token, std::uint32_t top) {
  const double log_sum = model::LogSumExp(kernels, logits);
  const double logit = static_cast<double>(logits[static_cast<std::size_t>(token)]);
  return {.token = token,
          .logprob = static_cast<float>(logit - log_sum),
          .top = model::TopLogprobs(logits, top, log_sum)};
}

bool IsStop(const GenerationRequest& request, TokenId token) {
  return std::ranges::find(request.stop_tokens, token) != request.stop_tokens.end();
}

// The next token of the text; what was guessed after it stays when it was guessed too.
void TakeToken(Sequence& sequence, TokenId token) {
  sched::KvText& text = sequence.text;
  ++sequence.generated;
  if (text.guesses > 0 && text.tokens[sequence.confirmed()] == token) {
    --text.guesses;
    ++sequence.usage.accepted_tokens;
    return;
  }
  sequence.rejected = text.guesses;
  text.tokens.resize(sequence.confirmed());
  text.guesses = 0;
  text.tokens.push_back(token);
}

}  // namespace

void Engine::OnLogits(Sequence& sequence, std::uint64_t position, std::span<const float> logits) {
  if (position >= sequence.text.compute_from) Report(sequence, position, logits);
  const bool is_last_known = position + 1 == sequence.confirmed() && sequence.rejected == 0;
  if (is_last_known && !sequence.finish && sequence.request.max_tokens > 0) {
    SampleNext(sequence, logits);
  }
}

// Of every position once, also when it is computed again.
void Engine::Report(Sequence& sequence, std::uint64_t position, std::span<const float> logits) {
  const GenerationRequest& request = sequence.request;
  sequence.text.compute_from = position + 1;
  if (sequence.reports_logits()) sequence.sink->OnLogits(position, logits);
  if (!request.prompt_logprobs) return;
  if (position + 1 < request.prompt.size()) {
    sequence.prompt_logprobs.push_back(
        LogprobsOf(kernels_, logits, request.prompt[position + 1], *request.top_logprobs));
  } else if (!sequence.reports_logits()) {
    sequence.text.compute_from = sched::KvText::kNothing;
  }
}

void Engine::ReportFirstToken(Sequence& sequence) {
  sequence.first_token_ns = clock_.NowNs();
  if (observer_ != nullptr)
    observer_->OnFirstToken(sequence.first_token_ns - sequence.submitted_ns);
  if (sequence.request.prompt_logprobs) {
    sequence.sink->OnPromptLogprobs(std::move(sequence.prompt_logprobs));
  }
}

TokenId Engine::Sample(const Sequence& sequence, std::span<const float> logits) {
  static const model::TokenHistory kNoHistory{{}};
  const GenerationRequest& request = sequence.request;
  if (sequence.generated < request.min_tokens && !request.stop_tokens.empty()) {
    std::ranges::copy(logits, masked_.begin());
    for (const TokenId stop : request.stop_tokens) {
      if (stop < 0 || static_cast<std::size_t>(stop) >= masked_.size()) continue;
      masked_[static_cast<std::size_t>(stop)] = -std::numeric_limits<float>::infinity();
    }
    logits = masked_;
  }
  return sampler_.Sample(logits, request.sampling,
                         sequence.history ? *sequence.history : kNoHistory,
                         request.prompt.size() + sequence.generated);
}

void Engine::SampleNext(Sequence& sequence, std::span<const float> logits) {
  const GenerationRequest& request = sequence.request;
  const TokenId token = Sample(sequence, logits);
  if (!std::isfinite(logits[static_cast<std::size_t>(token)])) {
    sequence.finish = FinishReason::kError;
    sequence.error =
        "the model gave no finite logits: its weights are damaged or out of f32's range";
    return;
  }
  if (sequence.generated == 0) ReportFirstToken(sequence);
  TakeToken(sequence, token);
  const std::int64_t now_ns = clock_.NowNs();
  if (observer_ != nullptr && sequence.last_token_ns != 0) {
    observer_->OnNextToken(now_ns - sequence.last_token_ns);
  }
  sequence.last_token_ns = now_ns;
  ++stats_.generated_tokens;
  if (sequence.history) sequence.history->Add(token);
  if (request.top_logprobs) {
    const TokenLogprobs logprobs = LogprobsOf(kernels_, logits, token, *request.top_logprobs);
    sequence.sink->OnToken(token, &logprobs);
  } else {
    sequence.sink->OnToken(token, nullptr);
  }
  if (sequence.generated > request.min_tokens && IsStop(request, token)) {
    sequence.finish = FinishReason::kStop;
  } else if (sequence.generated == request.max_tokens) {
    sequence.finish = FinishReason::kLength;
  }
}

}  // namespace ashlar::engine
