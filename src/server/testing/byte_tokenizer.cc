#include "server/testing/byte_tokenizer.h"

#include "base/check.h"

namespace ashlar::server::testing {

ByteTokenizer::ByteTokenizer() {
  for (int byte = 0; byte < 256; ++byte) {
    texts_.emplace_back(1, static_cast<char>(byte));
  }
  for (const std::string_view text : {"<s>", "</s>", "<|im_start|>", "<|im_end|>", " the", "Hello",
                                      "\xf0\x9f", "\x98\x80", "END."}) {
    texts_.emplace_back(text);
  }
  ASHLAR_CHECK(texts_.size() == kVocabSize);
}

// The longest token at each place.
std::vector<TokenId> ByteTokenizer::Encode(std::string_view text,
                                           const text::EncodeOptions& options) const {
  std::vector<TokenId> tokens;
  if (options.add_special) {
    tokens.push_back(kBos);
  }
  while (!text.empty()) {
    TokenId best = static_cast<unsigned char>(text.front());
    for (TokenId token = kBos; token < static_cast<TokenId>(kVocabSize); ++token) {
      if ((options.parse_special || !IsSpecial(token)) && text.starts_with(texts_[token]) &&
          texts_[token].size() > texts_[best].size()) {
        best = token;
      }
    }
    tokens.push_back(best);
    text.remove_prefix(texts_[best].size());
  }
  return tokens;
}

std::string_view ByteTokenizer::TokenBytes(TokenId token, bool with_special) const {
  ASHLAR_CHECK(token >= 0 && static_cast<std::size_t>(token) < kVocabSize);
  return IsSpecial(token) && !with_special ? std::string_view() : texts_[token];
}

std::string ByteTokenizer::Decode(std::span<const TokenId> tokens, bool with_special) const {
  std::string text;
  for (const TokenId token : tokens) {
    text += TokenBytes(token, with_special);
  }
  return text;
}

std::optional<TokenId> ByteTokenizer::FindToken(std::string_view text) const {
  for (std::size_t token = kVocabSize; token-- > 0;) {
    if (texts_[token] == text) {
      return static_cast<TokenId>(token);
    }
  }
  return std::nullopt;
}

}  // namespace ashlar::server::testing
