#include "server/prompt_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ashlar::server {

PromptEncoder::PromptEncoder(const text::Tokenizer& tokenizer, ChatRenderer renderer,
                             std::uint64_t max_tokens)
    : tokenizer_(tokenizer), renderer_(std::move(renderer)), max_tokens_(max_tokens) {
  for (std::size_t token = 0; token < tokenizer.vocab_size(); ++token) {
    longest_token_bytes_ = std::max(longest_token_bytes_,
                                    tokenizer.TokenBytes(static_cast<TokenId>(token), true).size());
  }
}

std::optional<ApiError> PromptEncoder::CheckTextSize(std::string_view text,
                                                     std::string_view param) const {
  const std::size_t at_least = text.size() / longest_token_bytes_;
  if (at_least <= max_tokens_) {
    return std::nullopt;
  }
  return ApiError{
      .message = fmt::format(
          "the maximum context length here is {} tokens (the model's, or what --kv-memory "
          "holds), but the {} bytes of '{}' have at least {}; shorten it",
          max_tokens_, text.size(), param, at_least),
      .param = std::string(param),
      .code = "context_length_exceeded"};
}

std::vector<TokenId> PromptEncoder::EncodeText(std::string_view text,
                                               bool add_special_tokens) const {
  return tokenizer_.Encode(text, {.add_special = add_special_tokens, .parse_special = true});
}

ApiResult<std::string> PromptEncoder::RenderChat(const ChatPrompt& chat) const {
  if (!renderer_) {
    return ApiError{.message =
                        "the model has no chat template; use /v1/completions with a prompt in the "
                        "model's own format, or serve a model file with tokenizer.chat_template",
                    .param = "messages"};
  }
  const auto text_of = [this](std::optional<TokenId> token) {
    return token.has_value() ? std::string(tokenizer_.TokenBytes(*token, true)) : std::string();
  };
  Json context = Json::object();
  context["messages"] = chat.messages;
  context["add_generation_prompt"] = chat.add_generation_prompt;
  context["bos_token"] = text_of(tokenizer_.bos_token());
  context["eos_token"] = text_of(tokenizer_.eos_token());
  context["tools"] = chat.tools.empty() ? Json() : chat.tools;
  if (!chat.documents.is_null()) {
    context["documents"] = chat.documents;
  }
  context.update(chat.template_kwargs);
  Result<std::string> rendered = renderer_(context);
  if (!rendered.ok()) {
    // Whatever kind of error: the same template takes other messages.
    return ApiError{.message = "the model's chat template does not take this request: " +
                               rendered.error().message,
                    .param = "messages"};
  }
  return *std::move(rendered);
}

}  // namespace ashlar::server
