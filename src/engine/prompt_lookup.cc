#include "engine/prompt_lookup.h"

#include <algorithm>

namespace ashlar::engine {

std::span<const TokenId> LookUpPrompt(std::span<const TokenId> text, std::size_t count) {
  if (text.size() <= kShortestMatch) return {};
  const std::size_t last = text.size() - 1;
  std::size_t best_length = kShortestMatch - 1;
  std::size_t best_end = 0;
  for (std::size_t end = last; end-- > 0;) {
    if (text[end] != text[last]) continue;
    const std::size_t longest = std::min(kLongestMatch, end + 1);
    std::size_t length = 1;
    while (length < longest && text[end - length] == text[last - length]) ++length;
    if (length <= best_length) continue;
    best_length = length;
    best_end = end + 1;
    if (length == kLongestMatch) break;
  }
  return best_end == 0 ? std::span<const TokenId>{}
                       : text.subspan(best_end, std::min(count, text.size() - best_end));
}

}  // namespace ashlar::engine
