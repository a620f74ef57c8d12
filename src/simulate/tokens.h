// The tokens of a trace's requests. A trace says only which requests begin alike; tokens with the
// same property are made up, so that the cache can do what it always does.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "trace/request.h"

namespace ashlar::simulate {

// Tokens of prompt and output of the request with this number. With `prefixes` a token is the name
// of the prefix that ends with it; of hash block `id` of `block_tokens` the tokens follow from id,
// in blocks of any other size too; all else is nobody else's.
void MakeTokens(const trace::Request& request, std::uint64_t number, std::uint64_t block_tokens,
                std::vector<TokenId>& tokens);

// A hash id as kIdTokens tokens: different ids, different tokens, always. For a cache whose blocks
// are hash blocks.
inline constexpr std::uint32_t kIdTokens = 16;
void AppendId(std::uint64_t id, std::vector<TokenId>& tokens);

// Names of the whole blocks of a text: equal names, equal prefixes (up to 64-bit hashes).
void NameBlocks(const std::vector<TokenId>& tokens, std::uint32_t block_tokens,
                std::vector<std::uint64_t>& names);

}  // namespace ashlar::simulate
