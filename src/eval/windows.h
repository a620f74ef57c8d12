// A held text cut into the windows that a model is judged on.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace ashlar::eval {

// Longer texts are refused, not cut: nobody judges a codec on more, and all of it is encoded.
inline constexpr std::uint64_t kMaxTextBytes = std::uint64_t{64} << 20;

struct WindowOptions {
  std::uint32_t window_tokens = 2048;
  std::uint32_t max_windows = 8;  // the first ones of the text
};

using Windows = std::vector<std::vector<TokenId>>;

// The text's tokens in consecutive windows that do not overlap, whole ones only. A model that wants
// a beginning-of-text token gets it at the front of every window, as one of its tokens.
//
// Errors: kInvalidArgument: text that is not UTF-8 (naming the byte), too long, or too short for
// one window (naming the tokens it has); options out of range.
Result<Windows> CutWindows(const text::Tokenizer& tokenizer, std::string_view text,
                           const WindowOptions& options);

}  // namespace ashlar::eval
