#include "server/token_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace ashlar::server {

std::string NameOfToken(const text::Tokenizer& tokenizer, TokenId token, TokenNaming naming) {
  if (naming == TokenNaming::kTokenId) {
    return fmt::format("token_id:{}", token);
  }
  // A detokenizer of its own: the token alone, in the middle of a text.
  text::Detokenizer detokenizer(tokenizer, {.with_special = true, .continues_text = true});
  std::string text = detokenizer.Push(token);
  text += detokenizer.Finish();
  const std::string_view bytes = tokenizer.TokenBytes(token, true);
  if (naming == TokenNaming::kBytes && text != bytes) {
    text = "bytes:";
    for (const char byte : bytes) {
      fmt::format_to(std::back_inserter(text), "\\x{:02x}", static_cast<unsigned char>(byte));
    }
  }
  return text;
}

std::size_t CountCodePoints(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::string DecodeToUtf8(const text::Tokenizer& tokenizer, std::span<const TokenId> tokens,
                         bool with_special) {
  text::Detokenizer detokenizer(tokenizer, {.with_special = with_special, .continues_text = false});
  std::string text;
  for (const TokenId token : tokens) {
    text += detokenizer.Push(token);
  }
  return text + detokenizer.Finish();
}

}  // namespace ashlar::server
