#include "text/vocabulary_tokenizer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/check.h"
#include "gguf/describe.h"

namespace ashlar::text {
namespace {

// White space as C's isspace in the "C" locale, whatever the process's locale is.
bool IsAsciiSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Phi-3 was trained with the white space after its special tokens removed. Files do not carry this
// property of tokens; the reference engine goes by the model's name too.
bool NamesPhi3(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower.find("phi-3") != std::string::npos || lower.find("phi3") != std::string::npos;
}

}  // namespace

Result<std::uint8_t> ParseByteToken(TokenId token, std::string_view text) {
  std::uint8_t value = 0;
  if (text.size() == 6 && text.starts_with("<0x") && text.back() == '>') {
    const char* const end = text.data() + 5;
    const auto parsed = std::from_chars(text.data() + 3, end, value, 16);
    if (parsed.ec == std::errc() && parsed.ptr == end) return value;
  }
  return MakeError(ErrorCode::kCorrupt,
                   "token {} is a byte token, but its text is {}; byte tokens look like '<0x41>'",
                   token, gguf::Quote(text));
}

Status InsertToken(TokenTable& table, std::string_view text, TokenId token) {
  if (table.Insert(text, token) == TokenTable::Inserted::kTooManyCollisions) {
    return MakeError(ErrorCode::kCorrupt, "token {} collides with more than {} others", token,
                     kMaxTableProbes);
  }
  return {};
}

Status VocabularyTokenizer::Complete(const gguf::ModelFile& file, const Vocabulary& vocabulary,
                                     Parts& parts) {
  parts.types = vocabulary.types;
  parts.special = vocabulary.special;
  ASHLAR_ASSIGN(const std::string_view name, file.StringOr("general.name", ""));
  // A key of ours, for files that do carry it.
  ASHLAR_ASSIGN(parts.strips_after_special,
                file.BoolOr("tokenizer.ggml.strips_after_special", NamesPhi3(name)));

  std::vector<SpecialTokens::Entry> all;
  std::vector<SpecialTokens::Entry> user_defined;
  for (std::size_t i = 0; i < vocabulary.size(); ++i) {
    const auto token = static_cast<TokenId>(i);
    const bool is_user_defined = vocabulary.types[i] == TokenType::kUserDefined;
    const std::string_view text = parts.pieces[token];
    if (text.empty() || !(is_user_defined || vocabulary.IsSpecial(token))) continue;
    if (text.size() > kMaxSpecialTokenBytes) {
      return MakeError(ErrorCode::kUnsupported, "special token {} is {} bytes long; at most {}", i,
                       text.size(), kMaxSpecialTokenBytes);
    }
    all.push_back({text, token});
    if (is_user_defined) user_defined.push_back({text, token});
  }
  parts.special_ids = TokenTable(all.size());
  for (const auto& entry : all) {
    ASHLAR_TRY(InsertToken(parts.special_ids, entry.text, entry.token));
  }
  parts.all_special = SpecialTokens(all);
  parts.user_defined = SpecialTokens(user_defined);
  return {};
}

VocabularyTokenizer::VocabularyTokenizer(Parts parts)
    : pieces_(std::move(parts.pieces)),
      plain_ids_(std::move(parts.plain_ids)),
      adds_space_prefix_(parts.adds_space_prefix),
      types_(std::move(parts.types)),
      special_(std::move(parts.special)),
      strips_after_special_(parts.strips_after_special),
      special_ids_(std::move(parts.special_ids)),
      all_special_(std::move(parts.all_special)),
      user_defined_(std::move(parts.user_defined)) {}

std::vector<TokenId> VocabularyTokenizer::Encode(std::string_view text,
                                                 const EncodeOptions& options) const {
  std::vector<TokenId> out;
  out.reserve(text.size() / 4 + 4);
  if (options.add_special && special_.add_bos) out.push_back(*special_.bos);

  const SpecialTokens& special = options.parse_special ? all_special_ : user_defined_;
  std::size_t position = 0;
  while (position < text.size()) {
    const auto found = special.FindFrom(text, position);
    const std::size_t stretch_end = found ? found->begin : text.size();
    if (stretch_end > position) {
      EncodeStretch(text.substr(position, stretch_end - position), out);
    }
    if (!found) break;
    out.push_back(found->token);
    position = SkipStripped(text, found->begin + found->bytes, found->token);
  }

  if (options.add_special && special_.add_eos) out.push_back(*special_.eos);
  return out;
}

// Where the text goes on after the special token `after`, which ends at `position`.
std::size_t VocabularyTokenizer::SkipStripped(std::string_view text, std::size_t position,
                                              TokenId after) const {
  constexpr std::array<std::string_view, 3> kKeepsSpace = {"<unk>", "<s>", "<|endoftext|>"};
  if (!strips_after_special_ ||
      std::find(kKeepsSpace.begin(), kKeepsSpace.end(), pieces_[after]) != kKeepsSpace.end()) {
    return position;
  }
  while (position < text.size() && IsAsciiSpace(text[position])) ++position;
  return position;
}

std::string_view VocabularyTokenizer::TokenBytes(TokenId token, bool with_special) const {
  const bool is_special = IsSpecial(token);  // also checks the id
  if (!with_special && is_special) return {};
  return pieces_[token];
}

std::string VocabularyTokenizer::Decode(std::span<const TokenId> tokens, bool with_special) const {
  std::string text;
  for (const TokenId token : tokens) text += TokenBytes(token, with_special);
  if (adds_space_prefix_ && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

bool VocabularyTokenizer::IsSpecial(TokenId token) const {
  ASHLAR_CHECK(token >= 0 && static_cast<std::size_t>(token) < types_.size(),
               "token {} of a vocabulary of {}", token, types_.size());
  const TokenType type = types_[static_cast<std::size_t>(token)];
  return type == TokenType::kControl || type == TokenType::kUnknown;
}

std::optional<TokenId> VocabularyTokenizer::FindToken(std::string_view text) const {
  if (const auto token = special_ids_.Find(text)) return token;
  return plain_ids_.Find(text);
}

}  // namespace ashlar::text
