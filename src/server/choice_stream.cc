#include "server/choice_stream.h"

#include <algorithm>
#include <utility>

#include "server/token_text.h"

namespace ashlar::server {

ChoiceStream::ChoiceStream(const text::Tokenizer& tokenizer, const ChoiceOptions& options)
    : end_tokens_(options.end_tokens),
      includes_stop_(options.include_stop_str_in_output),
      detokenizer_(tokenizer, {.with_special = !options.skip_special_tokens,
                               .continues_text = options.continues_text}),
      matcher_(options.stop, options.include_stop_str_in_output) {}

TextPiece ChoiceStream::Push(TokenId token, const engine::TokenLogprobs* logprobs) {
  if (is_stopped()) {
    return {};
  }
  ++completion_tokens_;
  sum_logprobs_ += logprobs != nullptr ? logprobs->logprob : 0.0F;
  if (std::find(end_tokens_.begin(), end_tokens_.end(), token) != end_tokens_.end()) {
    stop_reason_ = token;
    if (!includes_stop_) {
      return {};
    }
  }
  const std::string decoded = detokenizer_.Push(token);
  if (logprobs != nullptr) {
    waiting_.push_back({.entry = {.logprobs = *logprobs, .text_offset = decoded_code_points_},
                        .begin = decoded_bytes_,
                        .end = decoded_bytes_ + decoded.size()});
  }
  decoded_bytes_ += decoded.size();
  decoded_code_points_ += CountCodePoints(decoded);
  std::string text = matcher_.Push(decoded);
  if (matcher_.matched().has_value()) {
    stop_reason_ = matcher_.stop(*matcher_.matched());
  }
  return Release(std::move(text));
}

TextPiece ChoiceStream::Finish() {
  if (matcher_.matched().has_value()) {
    return {};
  }
  const std::string decoded = detokenizer_.Finish();
  decoded_bytes_ += decoded.size();
  std::string text = matcher_.Push(decoded);
  if (matcher_.matched().has_value()) {
    stop_reason_ = matcher_.stop(*matcher_.matched());
  } else {
    text += matcher_.Finish();
  }
  return Release(std::move(text));
}

TextPiece ChoiceStream::Release(std::string text) {
  released_bytes_ += text.size();
  TextPiece piece{.text = std::move(text), .tokens = {}};
  while (!waiting_.empty() &&
         (waiting_.front().begin < released_bytes_ || waiting_.front().end <= released_bytes_)) {
    piece.tokens.push_back(std::move(waiting_.front().entry));
    waiting_.pop_front();
  }
  return piece;
}

}  // namespace ashlar::server
