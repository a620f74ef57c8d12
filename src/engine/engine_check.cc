// What requests may ask for.
#include <algorithm>

#include "engine/engine.h"

namespace ashlar::engine {
namespace {

// Most alternatives a request may ask to see per token.
constexpr std::uint32_t kMaxTopLogprobs = 128;
constexpr std::size_t kMaxTenantBytes = 256;

Error Bad(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

}  // namespace

// The last generated token's K and V are needed only when its logits are reported too.
std::uint64_t Engine::StoredTokens(const GenerationRequest& request) const {
  const std::uint64_t generated = request.max_tokens;
  const bool stores_last = request.report_logits != LogitReport::kNone || generated == 0;
  const std::uint64_t tokens = request.prompt.size() + (stores_last ? generated : generated - 1);
  return request.stream ? std::min(tokens, info_.max_context - 1) : tokens;
}

Status Engine::CheckFields(const GenerationRequest& request) const {
  if (request.prompt.empty()) return Bad("the prompt has no tokens; give at least one");
  for (const TokenId token : request.prompt) {
    if (token < 0 || static_cast<std::uint64_t>(token) >= info_.vocab_size) {
      return Bad(fmt::format("prompt token {} is outside the vocabulary (0 to {})", token,
                             info_.vocab_size - 1));
    }
  }
  ASHLAR_TRY(model::Validate(request.sampling, info_.vocab_size));
  if (request.top_logprobs && *request.top_logprobs > kMaxTopLogprobs) {
    return Bad(fmt::format("{} top logprobs asked for; at most {}", *request.top_logprobs,
                           kMaxTopLogprobs));
  }
  if (request.prompt_logprobs && !request.top_logprobs) {
    return Bad("prompt logprobs need top_logprobs to be set");
  }
  if (request.min_tokens > request.max_tokens) {
    return Bad(fmt::format("min_tokens is {}; it must be at most max_tokens, {}",
                           request.min_tokens, request.max_tokens));
  }
  if (request.cache_salt.size() > kv::kMaxScopeFieldBytes) {
    return Bad(fmt::format("a cache salt of {} bytes; at most {}", request.cache_salt.size(),
                           kv::kMaxScopeFieldBytes));
  }
  if (request.tenant.size() > kMaxTenantBytes) {
    return Bad(fmt::format("a tenant's name of {} bytes; at most {}", request.tenant.size(),
                           kMaxTenantBytes));
  }
  if (request.tenant_weight < 1 || request.tenant_weight > sched::kMaxTenantWeight) {
    return Bad(fmt::format("a tenant's weight of {}; it must be 1 to {}", request.tenant_weight,
                           sched::kMaxTenantWeight));
  }
  return {};
}

Status Engine::CheckStream(const GenerationRequest& request) const {
  if (request.prompt_logprobs || request.report_logits != LogitReport::kNone) {
    return Bad(
        "a text that may be cut to stay within the context has no prompt logprobs or logits");
  }
  const std::uint64_t context = info_.max_context;
  const std::uint64_t window = WindowOf(*request.stream);
  if (window < 1 || request.stream->sinks >= context || window >= context - request.stream->sinks) {
    return Bad(
        fmt::format("a context of {} tokens cannot be cut to {} first and {} last ones; "
                    "together they must be fewer",
                    context, request.stream->sinks, window));
  }
  return {};
}

Status Engine::Check(const GenerationRequest& request) const {
  ASHLAR_TRY(CheckFields(request));
  const std::uint64_t prompt = request.prompt.size();
  if (request.stream) {
    ASHLAR_TRY(CheckStream(request));
  } else if (prompt > context_ || request.max_tokens > context_ - prompt) {
    return Bad(
        fmt::format("{} prompt tokens and {} tokens to generate exceed the context of {} tokens; "
                    "shorten the prompt or ask for fewer tokens",
                    prompt, request.max_tokens, context_));
  }
  const kv::AdmitOptions need = memory_.WholeNeed(StoredTokens(request));
  if (cache_->CouldEverFit(need)) return {};
  std::vector<std::uint64_t> blocks;
  cache_->BlocksNeeded(need, blocks);
  return MakeError(
      ErrorCode::kResourceExhausted,
      "{} tokens need {} bytes of KV memory ({} a token, in blocks of {} tokens{}), in whole "
      "pages of {} bytes, but --kv-memory gives {} bytes in all; shorten the request or raise "
      "--kv-memory",
      need.max_tokens, cache_->layout().BytesOf(blocks), cache_->layout().bytes_per_token(),
      cache_->layout().block_tokens(),
      cache_->layout().has_encoded() ? ", and an open block for each codec" : "",
      cache_->core().pool.store().page_bytes(), cache_->memory_bytes());
}

}  // namespace ashlar::engine
