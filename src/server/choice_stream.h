// One choice of an answer as text: tokens go in, text that is certain comes out, with the logprobs
// of its tokens. Joins detokenising, stop strings and the bookkeeping of logprobs; knows nothing of
// JSON.
//
// Text is certain when it is whole code points and cannot be the beginning of a stop string. The
// token that ends a sequence by itself (end of text, a stop token) has no text and no logprob
// entry, unless include_stop_str_in_output asks for it. A token's logprob comes out with the first
// of its text; of the tokens of a stop string that was cut off, none.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "engine/service.h"
#include "server/stop_matcher.h"
#include "text/tokenizer.h"

namespace ashlar::server {

struct TokenEntry {
  engine::TokenLogprobs logprobs;
  std::size_t text_offset = 0;  // code points of the choice's text before this token's
  bool has_logprob = true;      // not the first token of an echoed prompt: nothing predicts it
};

struct TextPiece {
  std::string text;
  std::vector<TokenEntry> tokens;  // only when logprobs were asked for

  bool empty() const { return text.empty() && tokens.empty(); }
};

// What ended the text: nothing of ours, a stop string, or a token.
using StopReason = std::variant<std::monostate, std::string, TokenId>;

struct ChoiceOptions {
  std::vector<std::string> stop;
  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;
  bool continues_text = false;      // the text goes on where the prompt ends
  std::vector<TokenId> end_tokens;  // end the sequence
};

class ChoiceStream {
 public:
  // `tokenizer` must outlive it.
  ChoiceStream(const text::Tokenizer& tokenizer, const ChoiceOptions& options);

  // Takes the next token; `logprobs` null when there are none. After is_stopped(), tokens that were
  // already under way are ignored.
  TextPiece Push(TokenId token, const engine::TokenLogprobs* logprobs);
  // The rest, when the sequence has ended.
  TextPiece Finish();

  // A stop string or end token was reached: nothing more will come of this sequence.
  bool is_stopped() const { return stop_reason_.index() != 0; }
  const StopReason& stop_reason() const { return stop_reason_; }

  // Tokens up to the one that stopped it, that one too.
  std::uint64_t completion_tokens() const { return completion_tokens_; }
  // Sum of the logprobs of those, for best_of.
  double sum_logprobs() const { return sum_logprobs_; }

 private:
  struct Waiting {
    TokenEntry entry;
    std::size_t begin = 0;  // where its text begins and ends, in bytes of the detokenised text
    std::size_t end = 0;
  };

  TextPiece Release(std::string text);

  const std::vector<TokenId> end_tokens_;
  const bool includes_stop_;
  text::Detokenizer detokenizer_;
  StopMatcher matcher_;
  StopReason stop_reason_;
  std::deque<Waiting> waiting_;
  std::size_t decoded_bytes_ = 0;
  std::size_t decoded_code_points_ = 0;
  std::size_t released_bytes_ = 0;
  std::uint64_t completion_tokens_ = 0;
  double sum_logprobs_ = 0;
};

}  // namespace ashlar::server
