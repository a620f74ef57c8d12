#include "text/vocabulary.h"

#include <algorithm>
#include <array>
#include <string>

#include "gguf/describe.h"

namespace ashlar::text {
namespace {

// Tokens that end a turn or a text in the published chat models. Only the first group is
// unmistakable; the second is markup or plain text in some vocabularies and counts only when the
// file calls it control.
constexpr std::array<std::string_view, 10> kEndTokens = {
    "<|eot_id|>", "<|im_end|>", "<|end|>",         "<|endoftext|>", "<end_of_turn>",
    "<|eom_id|>", "<|return|>", "<|end_of_text|>", "<|call|>",      "<end_of_utterance>"};
constexpr std::array<std::string_view, 5> kEndTokensIfControl = {"</s>", "<eos>", "<EOT>",
                                                                 "<｜end▁of▁sentence｜>", "[EOS]"};

Status ReadTexts(const gguf::ModelFile& file, Vocabulary& vocabulary) {
  ASHLAR_ASSIGN(const auto texts, file.Strings("tokenizer.ggml.tokens"));
  if (texts.empty()) {
    return MakeError(ErrorCode::kCorrupt, "tokenizer.ggml.tokens is empty; a model has tokens");
  }
  if (texts.size() > kMaxTokens) {
    return MakeError(ErrorCode::kUnsupported, "tokenizer.ggml.tokens holds {} tokens; at most {}",
                     texts.size(), kMaxTokens);
  }
  vocabulary.texts.assign(texts.begin(), texts.end());
  vocabulary.ids = TokenTable(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() > kMaxTokenBytes) {
      return MakeError(ErrorCode::kUnsupported, "token {} is {} bytes long; at most {}", i,
                       texts[i].size(), kMaxTokenBytes);
    }
    if (texts[i].empty()) continue;
    switch (vocabulary.ids.Insert(texts[i], static_cast<TokenId>(i))) {
      case TokenTable::Inserted::kYes:
        break;
      case TokenTable::Inserted::kAlreadyThere:
        return MakeError(ErrorCode::kCorrupt, "tokens {} and {} are both {}; texts must be unique",
                         *vocabulary.ids.Find(texts[i]), i, gguf::Quote(texts[i]));
      case TokenTable::Inserted::kTooManyCollisions:
        return MakeError(ErrorCode::kCorrupt, "token {} collides with more than {} others", i,
                         kMaxTableProbes);
    }
  }
  return {};
}

Status ReadTypes(const gguf::ModelFile& file, Vocabulary& vocabulary) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  vocabulary.types.assign(vocabulary.size(), TokenType::kNormal);
  if (file.Find(kKey) == nullptr) return {};
  ASHLAR_ASSIGN(const auto types, file.Integers(kKey));
  if (types.size() != vocabulary.size()) {
    return MakeError(ErrorCode::kCorrupt, "{} has {} entries for {} tokens", kKey, types.size(),
                     vocabulary.size());
  }
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] < 0 || types[i] > static_cast<int>(TokenType::kByte)) {
      return MakeError(ErrorCode::kCorrupt, "token {} has type {}; types are 0 to 6", i, types[i]);
    }
    vocabulary.types[i] = static_cast<TokenType>(types[i]);
  }
  return {};
}

// The id under `key`, or `fallback` when the file has no such key and the vocabulary has that
// token.
Result<std::optional<TokenId>> ReadId(const gguf::ModelFile& file, std::string_view key,
                                      std::size_t tokens, std::optional<TokenId> fallback) {
  if (file.Find(key) == nullptr) {
    if (fallback && static_cast<std::size_t>(*fallback) >= tokens) fallback.reset();
    return fallback;
  }
  ASHLAR_ASSIGN(const std::uint64_t id, file.Unsigned(key));
  if (id >= tokens) {
    return MakeError(ErrorCode::kCorrupt, "{} is {}; the vocabulary has {} tokens", key, id,
                     tokens);
  }
  return std::optional<TokenId>(static_cast<TokenId>(id));
}

std::optional<TokenId> FirstUnknown(const Vocabulary& vocabulary) {
  const auto found =
      std::find(vocabulary.types.begin(), vocabulary.types.end(), TokenType::kUnknown);
  if (found == vocabulary.types.end()) return std::nullopt;
  return static_cast<TokenId>(found - vocabulary.types.begin());
}

// Finds the tokens that end a generation. A conversion may mark "<|im_end|>" as plain text; plain
// text from a user must not be able to end a turn, so such tokens become control tokens.
void FindEndTokens(Vocabulary& vocabulary) {
  std::vector<TokenId>& ends = vocabulary.special.end_tokens;
  for (const std::string_view name : kEndTokens) {
    if (const auto id = vocabulary.ids.Find(name)) {
      vocabulary.types[static_cast<std::size_t>(*id)] = TokenType::kControl;
      ends.push_back(*id);
    }
  }
  for (const std::string_view name : kEndTokensIfControl) {
    const auto id = vocabulary.ids.Find(name);
    if (id && vocabulary.types[static_cast<std::size_t>(*id)] == TokenType::kControl) {
      ends.push_back(*id);
    }
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
}

// A list of ours, for models with more of them than GGUF has keys for.
Status ReadMoreEnds(const gguf::ModelFile& file, Vocabulary& vocabulary) {
  constexpr std::string_view kKey = "tokenizer.ggml.end_token_ids";
  if (file.Find(kKey) == nullptr) return {};
  ASHLAR_ASSIGN(const auto ids, file.Integers(kKey));
  for (const std::int64_t id : ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= vocabulary.size()) {
      return MakeError(ErrorCode::kCorrupt, "{} has {}; the vocabulary has {} tokens", kKey, id,
                       vocabulary.size());
    }
    vocabulary.special.end_tokens.push_back(static_cast<TokenId>(id));
  }
  return {};
}

Status ReadSpecialIds(const gguf::ModelFile& file, const Vocabulary::Defaults& defaults,
                      Vocabulary& vocabulary) {
  SpecialIds& special = vocabulary.special;
  const std::size_t size = vocabulary.size();
  ASHLAR_ASSIGN(special.bos, ReadId(file, "tokenizer.ggml.bos_token_id", size, defaults.bos));
  ASHLAR_ASSIGN(special.eos, ReadId(file, "tokenizer.ggml.eos_token_id", size, defaults.eos));
  ASHLAR_ASSIGN(special.unknown,
                ReadId(file, "tokenizer.ggml.unknown_token_id", size, FirstUnknown(vocabulary)));
  ASHLAR_ASSIGN(const auto eot, ReadId(file, "tokenizer.ggml.eot_token_id", size, std::nullopt));
  ASHLAR_ASSIGN(const auto eom, ReadId(file, "tokenizer.ggml.eom_token_id", size, std::nullopt));
  for (const auto& id : {special.eos, eot, eom}) {
    if (id) special.end_tokens.push_back(*id);
  }
  ASHLAR_TRY(ReadMoreEnds(file, vocabulary));
  FindEndTokens(vocabulary);

  ASHLAR_ASSIGN(special.add_bos, file.BoolOr("tokenizer.ggml.add_bos_token", defaults.add_bos));
  ASHLAR_ASSIGN(special.add_eos, file.BoolOr("tokenizer.ggml.add_eos_token", false));
  if (special.add_bos && !special.bos) {
    return MakeError(ErrorCode::kCorrupt,
                     "a beginning-of-text token is to be added, but tokenizer.ggml.bos_token_id is "
                     "missing");
  }
  if (special.add_eos && !special.eos) {
    return MakeError(
        ErrorCode::kCorrupt,
        "an end-of-text token is to be added, but tokenizer.ggml.eos_token_id is missing");
  }
  return {};
}

}  // namespace

Result<Vocabulary> Vocabulary::Read(const gguf::ModelFile& file, const Defaults& defaults) {
  Vocabulary vocabulary;
  ASHLAR_TRY(ReadTexts(file, vocabulary));
  ASHLAR_TRY(ReadTypes(file, vocabulary));
  ASHLAR_TRY(ReadSpecialIds(file, defaults, vocabulary));
  return vocabulary;
}

}  // namespace ashlar::text
