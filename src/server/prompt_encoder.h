// Prompts of requests to token ids.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "server/api_error.h"
#include "server/json.h"
#include "server/request.h"
#include "text/tokenizer.h"

namespace ashlar::server {

// Renders a chat with the model's template: text::ChatTemplate::Render, or a test's own.
using ChatRenderer = std::function<Result<std::string>(const Json& context)>;

// All methods may be called from any thread.
class PromptEncoder {
 public:
  // `tokenizer` must outlive it. `renderer`: null when the model has no chat template.
  // `max_tokens`: what a sequence may have.
  PromptEncoder(const text::Tokenizer& tokenizer, ChatRenderer renderer, std::uint64_t max_tokens);

  // Special tokens in the text are recognised, as people prompt raw chat formats this way.
  std::vector<TokenId> EncodeText(std::string_view text, bool add_special_tokens) const;

  // Errors: 400 when there is no template, or it does not take these messages.
  ApiResult<std::string> RenderChat(const ChatPrompt& chat) const;

  // 400 for a text that must have more tokens than a sequence may: cheaper than encoding it to find
  // out.
  std::optional<ApiError> CheckTextSize(std::string_view text, std::string_view param) const;

 private:
  const text::Tokenizer& tokenizer_;
  const ChatRenderer renderer_;
  const std::uint64_t max_tokens_;
  std::size_t longest_token_bytes_ = 1;
};

}  // namespace ashlar::server
