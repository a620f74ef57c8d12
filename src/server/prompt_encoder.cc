#include "server/prompt_encoder.h"

#include <utility>

namespace ashlar::server {

PromptEncoder::PromptEncoder(const text::Tokenizer& tokenizer, ChatRenderer renderer)
    : tokenizer_(tokenizer), renderer_(std::move(renderer)) {}

std::vector<TokenId> PromptEncoder::EncodeText(std::string_view text,
                                               bool add_special_tokens) const {
  return tokenizer_.Encode(text, {.add_special = add_special_tokens, .parse_special = true});
}

ApiResult<std::vector<TokenId>> PromptEncoder::EncodeChat(const ChatPrompt& chat) const {
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
  const Result<std::string> rendered = renderer_(context);
  if (!rendered.ok()) {
    // Whatever kind of error: the same template takes other messages.
    return ApiError{.message = "the model's chat template does not take this request: " +
                               rendered.error().message,
                    .param = "messages"};
  }
  return EncodeText(*rendered, chat.add_special_tokens);
}

}  // namespace ashlar::server
