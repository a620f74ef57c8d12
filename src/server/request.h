// What clients ask for, checked and typed: what request_parser.h makes of JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "engine/beam_search.h"
#include "model/sampling_params.h"
#include "server/json.h"

namespace ashlar::server {

// Bounds of request fields. Those of sampling are model::SamplingParams' own.
struct RequestLimits {
  std::size_t vocab_size = 0;
  std::int64_t max_n = 128;            // choices per prompt, as OpenAI
  std::size_t max_sequences = 1024;    // prompts times the larger of n and best_of
  std::int64_t max_top_logprobs = 20;  // as OpenAI's chat API
  std::size_t max_stop_strings = 32;   // OpenAI: 4
  std::size_t max_stop_bytes = 1024;   // each
  std::size_t max_stop_token_ids = 1024;
  std::size_t max_messages = 16 * 1024;
  std::size_t max_template_kwargs = 64;
  std::size_t max_logit_bias = 1024;  // tokens with a bias
  std::size_t max_cache_salt_bytes = 4096;
  std::size_t max_user_bytes = 256;
  std::int64_t max_priority = 1'000'000;  // and as much below 0
  double max_timeout_s = 86'400;
  std::int64_t max_beam_width = engine::kMaxBeamWidth;
};

// What completions and chat have in common.
struct GenerationOptions {
  std::string model;               // empty: whatever is served
  model::SamplingParams sampling;  // its seed is not set here
  std::optional<std::uint64_t> seed;
  std::optional<std::uint64_t> max_tokens;
  std::uint64_t min_tokens = 0;  // no end before so many; at most max_tokens
  std::uint32_t n = 1;
  std::uint32_t best_of = 1;  // sequences per prompt, at least n; the n likeliest are returned
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  bool include_stop_str_in_output = false;
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  bool return_tokens_as_token_ids = false;  // logprobs name tokens "token_id:123"
  std::optional<std::uint32_t> top_logprobs;
  bool use_beam_search = false;
  // A text that outgrows the context is cut and goes on, instead of being refused. Unset: as the
  // server does.
  std::optional<bool> streams_context;
  std::optional<std::uint64_t> context_sinks;   // first tokens that stay
  std::optional<std::uint64_t> context_window;  // last ones
  std::uint32_t beam_width = 0;  // texts kept at every token; with use_beam_search, at least n
  double length_penalty = 1;     // of beam search: the exponent of the length scores are divided by
  std::string cache_salt;        // prefixes are shared under the same salt only
  std::string user;              // on whose behalf; a tenant of its own where keys name none
  std::optional<std::int32_t> priority;  // lower is more urgent
  std::optional<double> timeout_s;       // from the request's arrival; then it ends with an error
  bool stream = false;
  bool include_usage = false;  // a last chunk with the usage
};

using PromptInput = std::variant<std::string, std::vector<TokenId>>;

struct CompletionRequest {
  GenerationOptions options;
  std::vector<PromptInput> prompts;
  bool echo = false;
  bool add_special_tokens = true;
};

// What a chat template makes a prompt of.
struct ChatPrompt {
  // As templates know them: content is a string or null, tool call arguments are objects.
  Json messages = Json::array();
  Json tools;      // array or null
  Json documents;  // array or null
  Json template_kwargs = Json::object();
  bool add_generation_prompt = true;
  bool add_special_tokens = false;  // templates put their own
};

struct ChatRequest {
  GenerationOptions options;
  ChatPrompt chat;
};

struct TokenizeRequest {
  std::string model;
  std::variant<std::string, ChatPrompt> input;
  bool add_special_tokens = true;  // of a string; a ChatPrompt has its own
  bool return_token_strs = false;
};

struct DetokenizeRequest {
  std::string model;
  std::vector<TokenId> tokens;
};

}  // namespace ashlar::server
