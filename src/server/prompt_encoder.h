// Prompts of requests to token ids.
#pragma once

#include <functional>
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
  PromptEncoder(const text::Tokenizer& tokenizer, ChatRenderer renderer);

  // Special tokens in the text are recognised, as people prompt raw chat formats this way.
  std::vector<TokenId> EncodeText(std::string_view text, bool add_special_tokens) const;

  // Errors: 400 when there is no template, or it does not take these messages.
  ApiResult<std::vector<TokenId>> EncodeChat(const ChatPrompt& chat) const;

 private:
  const text::Tokenizer& tokenizer_;
  const ChatRenderer renderer_;
};

}  // namespace ashlar::server
