#include "server/request_parser.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

namespace ashlar::server {
namespace {

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int64_t>::max();

// "prompt": a string, an array of strings, of token ids, or of arrays of token ids.
void ReadPrompts(FieldReader& fields, const RequestLimits& limits, std::vector<PromptInput>& out) {
  const Json* prompt = fields.Find("prompt");
  if (prompt == nullptr) {
    return fields.Fail("prompt", "is missing; give a string, or an array of strings or token ids");
  }
  if (prompt->is_string()) {
    out.emplace_back(prompt->get<std::string>());
    return;
  }
  if (!prompt->is_array() || prompt->empty()) {
    return fields.Fail("prompt",
                       fmt::format("must be a string or a non-empty array, not {}",
                                   prompt->is_array() ? "an empty array" : Quote(*prompt)));
  }
  if (prompt->front().is_number()) {
    std::vector<TokenId> tokens;
    fields.TokenIds("prompt", limits.vocab_size, tokens);
    out.emplace_back(std::move(tokens));
    return;
  }
  if (prompt->size() > limits.max_sequences) {
    return fields.Fail("prompt", fmt::format("has {} prompts; at most {} are allowed",
                                             prompt->size(), limits.max_sequences));
  }
  for (std::size_t i = 0; i < prompt->size(); ++i) {
    const Json& entry = (*prompt)[i];
    if (entry.is_string()) {
      out.emplace_back(entry.get<std::string>());
      continue;
    }
    if (!entry.is_array() || entry.empty()) {
      return fields.Fail(fmt::format("prompt[{}]", i),
                         fmt::format("must be a string or a non-empty array of token ids, not {}",
                                     entry.is_array() ? "an empty array" : Quote(entry)));
    }
    std::vector<TokenId> tokens;
    for (const Json& id : entry) {
      const std::optional<std::int64_t> token = WholeNumber(id);
      if (!token.has_value() || *token < 0 ||
          static_cast<std::uint64_t>(*token) >= limits.vocab_size) {
        return fields.Fail(fmt::format("prompt[{}]", i),
                           fmt::format("has {}; a token id is a whole number from 0 to {}",
                                       Quote(id), limits.vocab_size - 1));
      }
      tokens.push_back(static_cast<TokenId>(*token));
    }
    out.emplace_back(std::move(tokens));
  }
}

void CheckSequences(FieldReader& fields, const RequestLimits& limits, std::size_t prompts,
                    std::uint32_t per_prompt) {
  if (prompts * per_prompt > limits.max_sequences) {
    fields.Fail(
        "n", fmt::format("asks for {} prompts times {} choices; at most {} sequences are allowed "
                         "in one request",
                         prompts, per_prompt, limits.max_sequences));
  }
}

// Fields of the other endpoint, which would change nothing here: said so, rather than left out.
void RejectOfChat(FieldReader& fields) {
  for (const auto& [name, instead] : {std::pair{"max_completion_tokens", "'max_tokens'"},
                                      std::pair{"top_logprobs", "'logprobs', a number,"}}) {
    if (fields.Find(name) != nullptr) {
      fields.Fail(name, fmt::format("is of /v1/chat/completions; use {} here", instead));
    }
  }
}

void RejectOfCompletions(FieldReader& fields) {
  bool echo = false;
  fields.Boolean("echo", echo);
  std::int64_t best_of = 1;
  fields.Integer("best_of", 1, kMaxInt, best_of);
  for (const auto& [name, is_meant] :
       {std::pair{"echo", echo}, std::pair{"best_of", best_of > 1}}) {
    if (is_meant) fields.Fail(name, "is of /v1/completions; a chat has none");
  }
}

void CheckMinTokens(FieldReader& fields, const GenerationOptions& options) {
  if (options.max_tokens.has_value() && options.min_tokens > *options.max_tokens) {
    fields.Fail("min_tokens", fmt::format("is {}, more than max_tokens, which is {}",
                                          options.min_tokens, *options.max_tokens));
  }
}

// What a beam search of completions cannot do; see ReadGenerationOptions for the rest.
void CheckBeamSearch(FieldReader& fields, const GenerationOptions& options) {
  if (!options.use_beam_search) {
    return;
  }
  if (options.best_of > options.n) {
    fields.Fail("best_of",
                "above n is not possible with 'use_beam_search'; 'beam_width' says how many texts "
                "are kept");
  }
  if (options.max_tokens == 0) {
    fields.Fail("max_tokens", "is 0; beam search needs at least one token to choose");
  }
}

template <typename Request>
ApiResult<Request> Finished(FieldReader& fields, Request request) {
  if (!fields.ok()) {
    return fields.TakeError();
  }
  return request;
}

}  // namespace

ApiResult<CompletionRequest> ParseCompletionRequest(const Json& body, const RequestLimits& limits) {
  FieldReader fields(body);
  CompletionRequest request;
  GenerationOptions& options = request.options;
  ReadGenerationOptions(fields, limits, options);
  RejectOfChat(fields);
  ReadPrompts(fields, limits, request.prompts);
  fields.Boolean("echo", request.echo);
  fields.Boolean("add_special_tokens", request.add_special_tokens);
  std::int64_t max_tokens = 16;  // OpenAI's default
  fields.Integer("max_tokens", 0, kMaxInt, max_tokens);
  options.max_tokens = static_cast<std::uint64_t>(max_tokens);
  std::optional<std::int64_t> logprobs;
  fields.Integer("logprobs", 0, limits.max_top_logprobs, logprobs);
  if (logprobs.has_value()) {
    options.top_logprobs = static_cast<std::uint32_t>(*logprobs);
  }
  fields.Integer("best_of", 1, limits.max_n, options.best_of);
  if (options.best_of < options.n) {
    fields.Fail("best_of",
                fmt::format("is {}, less than n, which is {}", options.best_of, options.n));
  }
  if (options.stream && options.best_of > options.n) {
    fields.Fail("best_of",
                "above n is not possible with 'stream': the best is known only at the end");
  }
  if (request.echo && logprobs.has_value() && options.streams_context.value_or(false)) {
    fields.Fail("echo",
                "with 'logprobs' needs the whole text; it is not possible with 'context_overflow' "
                "\"stream\"");
  }
  if (options.use_beam_search && request.echo && logprobs.has_value()) {
    fields.Fail("echo", "with 'logprobs' is not possible with 'use_beam_search'");
  }
  CheckBeamSearch(fields, options);
  CheckMinTokens(fields, options);
  CheckSequences(fields, limits, request.prompts.size(), options.best_of);
  return Finished(fields, std::move(request));
}

ApiResult<ChatRequest> ParseChatRequest(const Json& body, const RequestLimits& limits) {
  FieldReader fields(body);
  ChatRequest request;
  GenerationOptions& options = request.options;
  ReadGenerationOptions(fields, limits, options);
  RejectOfCompletions(fields);
  ReadChatPrompt(fields, limits, request.chat);
  // The newer name wins.
  std::optional<std::int64_t> max_tokens;
  fields.Integer("max_tokens", 1, kMaxInt, max_tokens);
  fields.Integer("max_completion_tokens", 1, kMaxInt, max_tokens);
  if (max_tokens.has_value()) {
    options.max_tokens = static_cast<std::uint64_t>(*max_tokens);
  }
  bool logprobs = false;
  fields.Boolean("logprobs", logprobs);
  std::optional<std::int64_t> top_logprobs;
  fields.Integer("top_logprobs", 0, limits.max_top_logprobs, top_logprobs);
  if (logprobs) {
    options.top_logprobs = static_cast<std::uint32_t>(top_logprobs.value_or(0));
  } else if (top_logprobs.value_or(0) > 0) {
    fields.Fail("top_logprobs", "needs 'logprobs' to be true");
  }
  CheckMinTokens(fields, options);
  CheckSequences(fields, limits, 1, options.n);
  return Finished(fields, std::move(request));
}

ApiResult<TokenizeRequest> ParseTokenizeRequest(const Json& body, const RequestLimits& limits) {
  FieldReader fields(body);
  TokenizeRequest request;
  fields.String("model", request.model);
  fields.Boolean("return_token_strs", request.return_token_strs);
  const bool has_prompt = fields.Find("prompt") != nullptr;
  const bool has_messages = fields.Find("messages") != nullptr;
  if (has_prompt == has_messages) {
    fields.Fail("prompt", "or 'messages' must be given, and not both");
  }
  if (has_messages) {
    ChatPrompt chat;
    ReadChatPrompt(fields, limits, chat);
    request.input = std::move(chat);
  } else {
    std::string prompt;
    fields.String("prompt", prompt);
    request.input = std::move(prompt);
    fields.Boolean("add_special_tokens", request.add_special_tokens);
  }
  return Finished(fields, std::move(request));
}

ApiResult<DetokenizeRequest> ParseDetokenizeRequest(const Json& body, const RequestLimits& limits) {
  FieldReader fields(body);
  DetokenizeRequest request;
  fields.String("model", request.model);
  if (fields.Find("tokens") == nullptr) {
    fields.Fail("tokens", "is missing; give an array of token ids");
  }
  fields.TokenIds("tokens", limits.vocab_size, request.tokens);
  return Finished(fields, std::move(request));
}

}  // namespace ashlar::server
