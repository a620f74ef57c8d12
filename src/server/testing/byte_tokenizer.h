// A tokenizer small enough to know by heart: a token per byte, a few words, a few special tokens.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace ashlar::server::testing {

class ByteTokenizer final : public text::Tokenizer {
 public:
  // 0 to 255: the bytes.
  static constexpr TokenId kBos = 256;        // "<s>"
  static constexpr TokenId kEos = 257;        // "</s>"
  static constexpr TokenId kImStart = 258;    // "<|im_start|>"
  static constexpr TokenId kImEnd = 259;      // "<|im_end|>", an end token
  static constexpr TokenId kThe = 260;        // " the"
  static constexpr TokenId kHello = 261;      // "Hello"
  static constexpr TokenId kHalfEmoji = 262;  // the first two bytes of U+1F600
  static constexpr TokenId kOtherHalf = 263;  // the last two
  static constexpr TokenId kStopSign = 264;   // "END."
  static constexpr std::size_t kVocabSize = 265;

  ByteTokenizer();

  std::vector<TokenId> Encode(std::string_view text,
                              const text::EncodeOptions& options) const override;
  std::string_view TokenBytes(TokenId token, bool with_special) const override;
  std::string Decode(std::span<const TokenId> tokens, bool with_special) const override;
  std::size_t vocab_size() const override { return kVocabSize; }
  std::optional<TokenId> bos_token() const override { return kBos; }
  std::optional<TokenId> eos_token() const override { return kEos; }
  std::span<const TokenId> end_tokens() const override { return kEndTokens; }
  bool adds_bos() const override { return true; }
  bool adds_space_prefix() const override { return false; }
  bool IsSpecial(TokenId token) const override { return token >= kBos && token <= kImEnd; }
  std::optional<TokenId> FindToken(std::string_view text) const override;

 private:
  static constexpr std::array<TokenId, 2> kEndTokens = {kEos, kImEnd};

  std::vector<std::string> texts_;
};

}  // namespace ashlar::server::testing
