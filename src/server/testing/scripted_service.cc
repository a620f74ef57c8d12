#include "server/testing/scripted_service.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/testing/byte_tokenizer.h"

namespace ashlar::server::testing {

Script FixedScript(std::vector<TokenId> tokens) {
  return
      [tokens = std::move(tokens)](std::span<const TokenId>, std::uint64_t, std::uint64_t index) {
        return tokens[std::min<std::size_t>(index, tokens.size() - 1)];
      };
}

float ScriptedLogprob(TokenId token) {
  const bool is_letter = token >= 'a' && token <= 'z';
  return -0.25F * static_cast<float>(is_letter ? token - 'a' : 26 + token % 8);
}

engine::ServiceInfo ScriptedInfo(std::uint64_t max_context) {
  return {.vocab_size = ByteTokenizer::kVocabSize,
          .max_context = max_context,
          .kv_codec = "f16",
          .block_tokens = 16,
          .kv_bytes_per_token = 1,
          .kv_bytes_reserved = 1};
}

namespace {

engine::TokenLogprobs LogprobsOf(TokenId token, std::uint32_t top) {
  engine::TokenLogprobs logprobs{.token = token, .logprob = ScriptedLogprob(token), .top = {}};
  for (std::uint32_t i = 0; i < top; ++i) {
    const auto letter = static_cast<TokenId>('a' + i);
    logprobs.top.emplace_back(letter, ScriptedLogprob(letter));
  }
  return logprobs;
}

}  // namespace

ScriptedService::ScriptedService(Script script, engine::ServiceInfo info)
    : script_(std::move(script)), info_(std::move(info)) {}

engine::ServiceStats ScriptedService::stats() const {
  return {.running = live(), .waiting = 0, .kv_bytes_used = 0};
}

Result<std::vector<RequestId>> ScriptedService::SubmitAll(
    std::vector<engine::Submission> submissions) {
  const std::lock_guard lock(mutex_);
  if (submit_error_.has_value()) {
    return *submit_error_;
  }
  for (const engine::Submission& one : submissions) {
    const engine::GenerationRequest& request = one.request;
    const bool fits = request.stream.has_value() ||
                      request.prompt.size() + request.max_tokens <= info_.max_context;
    if (request.prompt.empty() || !fits) {
      return MakeError(ErrorCode::kInvalidArgument, "prompt {} + max_tokens {} over {}",
                       request.prompt.size(), request.max_tokens, info_.max_context);
    }
  }
  std::vector<RequestId> ids;
  ids.reserve(submissions.size());
  for (engine::Submission& one : submissions) {
    ids.emplace_back(next_id_++);
    requests_.push_back(one.request);
    live_.push_back(
        std::make_shared<Live>(ids.back(), std::move(one.request), std::move(one.sink)));
  }
  return ids;
}

void ScriptedService::Cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  ++cancel_calls_;
  for (const auto& live : live_) {
    if (live->id == id) {
      live->is_cancelled = true;
    }
  }
}

// Sinks are called without the lock, as an engine's thread would.
bool ScriptedService::Step() {
  std::vector<std::shared_ptr<Live>> live;
  std::string running_error;
  {
    const std::lock_guard lock(mutex_);
    live = live_;
    running_error = running_error_;
  }
  std::erase_if(live, [&](const auto& one) { return !StepOne(*one, running_error); });
  const std::lock_guard lock(mutex_);
  std::erase_if(live_, [&](const auto& one) {
    return std::find(live.begin(), live.end(), one) != live.end();  // finished
  });
  return !live_.empty();
}

bool ScriptedService::StepOne(Live& live, const std::string& running_error) {
  const engine::GenerationRequest& request = live.request;
  const std::uint64_t index = live.generated++;
  engine::Usage usage{.prompt_tokens = request.prompt.size(),
                      .cached_tokens = request.prompt.size() / 2,
                      .completion_tokens = index};
  const auto finish = [&](engine::FinishReason reason, std::string_view error = {}) {
    live.sink->OnFinish(reason, usage, error);
    return true;
  };
  if (!running_error.empty()) {
    return finish(engine::FinishReason::kError, running_error);
  }
  if (live.is_cancelled) {
    return finish(engine::FinishReason::kCancelled);
  }
  if (index == 0 && request.prompt_logprobs) {
    std::vector<engine::TokenLogprobs> logprobs;
    for (std::size_t i = 1; i < request.prompt.size(); ++i) {
      logprobs.push_back(LogprobsOf(request.prompt[i], request.top_logprobs.value_or(0)));
    }
    live.sink->OnPromptLogprobs(std::move(logprobs));
  }
  if (request.max_tokens == 0) {
    return finish(engine::FinishReason::kLength);
  }
  const TokenId token = script_(request.prompt, request.sampling.seed, index);
  if (request.top_logprobs.has_value()) {
    const engine::TokenLogprobs logprobs = LogprobsOf(token, *request.top_logprobs);
    live.sink->OnToken(token, &logprobs);
  } else {
    live.sink->OnToken(token, nullptr);
  }
  usage.completion_tokens = index + 1;
  const auto& stops = request.stop_tokens;
  if (std::find(stops.begin(), stops.end(), token) != stops.end()) {
    return finish(engine::FinishReason::kStop);
  }
  if (index + 1 == request.max_tokens) {
    return finish(engine::FinishReason::kLength);
  }
  return false;
}

void ScriptedService::FailSubmits(Error error) {
  const std::lock_guard lock(mutex_);
  submit_error_ = std::move(error);
}

void ScriptedService::FailRunning(std::string message) {
  const std::lock_guard lock(mutex_);
  running_error_ = std::move(message);
}

std::size_t ScriptedService::live() const {
  const std::lock_guard lock(mutex_);
  return live_.size();
}

std::size_t ScriptedService::cancel_calls() const {
  const std::lock_guard lock(mutex_);
  return cancel_calls_;
}

std::vector<engine::GenerationRequest> ScriptedService::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

EngineThread::EngineThread(ScriptedService& service, std::int64_t pause_us)
    : thread_([&service, pause_us](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          service.Step();
          std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
        }
      }) {}

EngineThread::~EngineThread() = default;

}  // namespace ashlar::server::testing
