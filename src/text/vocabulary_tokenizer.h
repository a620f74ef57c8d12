// What the two tokenizers share: the bytes each token stands for, special tokens in the text, what
// is put around it. They differ in how the text between special tokens is encoded, and derive for
// that.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/special_tokens.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace ashlar::text {

// The bytes of every token, one after another. Views stay valid when it is moved.
class TokenPieces {
 public:
  void Add(std::string_view bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    ends_.push_back(bytes_.size());
  }
  std::size_t size() const { return ends_.size(); }
  std::string_view operator[](TokenId token) const {
    const auto i = static_cast<std::size_t>(token);
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return {bytes_.data() + begin, ends_[i] - begin};
  }

 private:
  std::vector<char> bytes_;  // not a string: moving a short one would move its bytes
  std::vector<std::size_t> ends_;
};

// Whether plain text may become a token of this type.
constexpr bool IsPlain(TokenType type) {
  return type == TokenType::kNormal || type == TokenType::kUndefined || type == TokenType::kUnused;
}

// "<0x41>" stands for the byte 0x41. Errors: kCorrupt for any other text.
Result<std::uint8_t> ParseByteToken(TokenId token, std::string_view text);

// Inserts into `table`. Errors: kCorrupt for too many collisions; a text that is there stays.
Status InsertToken(TokenTable& table, std::string_view text, TokenId token);

class VocabularyTokenizer : public Tokenizer {
 public:
  std::vector<TokenId> Encode(std::string_view text, const EncodeOptions& options) const final;
  std::string_view TokenBytes(TokenId token, bool with_special) const final;
  std::string Decode(std::span<const TokenId> tokens, bool with_special) const final;

  std::size_t vocab_size() const final { return types_.size(); }
  std::optional<TokenId> bos_token() const final { return special_.bos; }
  std::optional<TokenId> eos_token() const final { return special_.eos; }
  std::span<const TokenId> end_tokens() const final { return special_.end_tokens; }
  bool adds_bos() const final { return special_.add_bos; }
  bool adds_space_prefix() const final { return adds_space_prefix_; }
  bool IsSpecial(TokenId token) const final;
  std::optional<TokenId> FindToken(std::string_view text) const final;

 protected:
  struct Parts {
    TokenPieces pieces;    // what every token stands for
    TokenTable plain_ids;  // the tokens plain text may become, by their bytes in `pieces`
    bool adds_space_prefix = false;

    // Filled by Complete:
    std::vector<TokenType> types;
    SpecialIds special;
    bool strips_after_special = false;
    TokenTable special_ids;
    SpecialTokens all_special;
    SpecialTokens user_defined;
  };
  // Fills in what follows from the vocabulary. Errors: kCorrupt, kUnsupported (a special token too
  // long).
  static Status Complete(const gguf::ModelFile& file, const Vocabulary& vocabulary, Parts& parts);

  explicit VocabularyTokenizer(Parts parts);

  // Appends the tokens of a stretch of text without special tokens, not empty. It stands at
  // the beginning or right after a special token.
  virtual void EncodeStretch(std::string_view stretch, std::vector<TokenId>& out) const = 0;

  const TokenPieces& pieces() const { return pieces_; }
  const TokenTable& plain_ids() const { return plain_ids_; }
  std::optional<TokenId> unknown_token() const { return special_.unknown; }

 private:
  std::size_t SkipStripped(std::string_view text, std::size_t position, TokenId after) const;

  TokenPieces pieces_;
  TokenTable plain_ids_;
  bool adds_space_prefix_;
  std::vector<TokenType> types_;
  SpecialIds special_;
  bool strips_after_special_;
  TokenTable special_ids_;     // special and user-defined tokens by their text
  SpecialTokens all_special_;  // the same, to be found in texts
  SpecialTokens user_defined_;
};

}  // namespace ashlar::text
