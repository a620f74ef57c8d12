// The vocabulary part of a model file (tokenizer.ggml.tokens, token_type and the special ids),
// checked. What both tokenizers need before they differ: every array has the right length, no two
// tokens share a text, every id is in range.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "gguf/model_file.h"
#include "text/token_table.h"

namespace ashlar::text {

// Numbers as the format defines them. Files without token_type have kNormal tokens only.
enum class TokenType : std::uint8_t {
  kUndefined = 0,  // treated as kNormal
  kNormal = 1,
  kUnknown = 2,      // what text without any other token becomes; special
  kControl = 3,      // structure ("<s>", "<|im_end|>"), never produced by plain text; special
  kUserDefined = 4,  // found in the text before anything else, whatever the options say
  kUnused = 5,       // treated as kNormal
  kByte = 6,         // "<0x41>": one byte, for text that has no other token
};

// The largest published vocabularies hold 2^18 tokens of up to 1024 bytes.
inline constexpr std::size_t kMaxTokens = std::size_t{1} << 22;
inline constexpr std::size_t kMaxTokenBytes = 4096;
// Of special and user-defined tokens, which are looked for at every position of a text.
inline constexpr std::size_t kMaxSpecialTokenBytes = 256;

// Which tokens mean what, and what is put around a text.
struct SpecialIds {
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::optional<TokenId> unknown;  // by its id, else the first token of that type
  bool add_bos = false;
  bool add_eos = false;
  std::vector<TokenId> end_tokens;  // ascending, each once
};

struct Vocabulary {
  // Defaults that a file may override; they differ by tokenizer.
  struct Defaults {
    bool add_bos = false;
    std::optional<TokenId> bos;
    std::optional<TokenId> eos;
  };

  // Errors: kNotFound or kInvalidArgument from the reader (a key is missing or of another type),
  // kCorrupt (naming the token and what is wrong), kUnsupported (over the limits above).
  static Result<Vocabulary> Read(const gguf::ModelFile& file, const Defaults& defaults);

  std::size_t size() const { return texts.size(); }
  bool IsSpecial(TokenId token) const {
    const TokenType type = types[static_cast<std::size_t>(token)];
    return type == TokenType::kControl || type == TokenType::kUnknown;
  }

  // As the file spells them ("Ġthe", "▁the", "<0x41>"): views into the file.
  std::vector<std::string_view> texts;
  std::vector<TokenType> types;  // as many as texts
  TokenTable ids;                // by text; empty texts are in no table
  SpecialIds special;
};

}  // namespace ashlar::text
