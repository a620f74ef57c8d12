// Speculation without a draft model: a text that repeats what it said goes on as it did then
// (prompt lookup decoding).
#pragma once

#include <cstddef>
#include <span>

#include "base/ids.h"

namespace ashlar::engine {

// A guess needs so many equal tokens before it; more than the longest are not looked at.
inline constexpr std::size_t kShortestMatch = 2;
inline constexpr std::size_t kLongestMatch = 8;

// At most `count` tokens that followed when the end of `text` occurred before: of the longest such
// match, the latest. A view into `text`; empty when there is none. O(text).
std::span<const TokenId> LookUpPrompt(std::span<const TokenId> text, std::size_t count);

}  // namespace ashlar::engine
