// Tokens as JSON shows them, one by one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "text/tokenizer.h"

namespace ashlar::server {

// How the legacy completions API names tokens.
enum class TokenNaming {
  kText,     // the token's text; U+FFFD for what is not UTF-8
  kBytes,    // as kText, but "bytes:\xe2\x96" when the token is no whole text, so that names differ
  kTokenId,  // "token_id:123"
};

std::string NameOfToken(const text::Tokenizer& tokenizer, TokenId token, TokenNaming naming);

// Code points in UTF-8 text.
std::size_t CountCodePoints(std::string_view text);

// The whole text of tokens; what is not UTF-8 becomes U+FFFD.
std::string DecodeToUtf8(const text::Tokenizer& tokenizer, std::span<const TokenId> tokens,
                         bool with_special);

}  // namespace ashlar::server
