#include "eval/windows.h"

#include <algorithm>

#include "text/utf8.h"

namespace ashlar::eval {
namespace {

Status CheckUtf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const text::Utf8Sequence sequence = text::FirstSequence(text.substr(at));
    if (sequence.kind != text::Utf8Kind::kWhole) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "the text is not UTF-8: byte {} (0x{:02x}) is part of no character; convert "
                       "it, e.g. with iconv",
                       at, static_cast<unsigned char>(text[at]));
    }
    at += sequence.bytes;
  }
  return {};
}

}  // namespace

Result<Windows> CutWindows(const text::Tokenizer& tokenizer, std::string_view text,
                           const WindowOptions& options) {
  if (options.window_tokens < 2 || options.max_windows == 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} windows of {} tokens; it must be 1 or more, of 2 tokens or more",
                     options.max_windows, options.window_tokens);
  }
  if (text.size() > kMaxTextBytes) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the text has {} bytes; at most {} are read: give a part of it", text.size(),
                     kMaxTextBytes);
  }
  ASHLAR_TRY(CheckUtf8(text));
  const std::vector<TokenId> tokens = tokenizer.Encode(text, {.add_special = false});
  std::vector<TokenId> front;
  if (tokenizer.adds_bos() && tokenizer.bos_token()) front.push_back(*tokenizer.bos_token());
  const std::size_t stride = options.window_tokens - front.size();
  const std::size_t count = std::min<std::size_t>(tokens.size() / stride, options.max_windows);
  if (count == 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the text has {} tokens; one window takes {}: give a longer text or a smaller "
                     "window",
                     tokens.size(), stride);
  }
  Windows windows(count, front);
  for (std::size_t i = 0; i < count; ++i) {
    const auto part = std::span(tokens).subspan(i * stride, stride);
    windows[i].insert(windows[i].end(), part.begin(), part.end());
  }
  return windows;
}

}  // namespace ashlar::eval
