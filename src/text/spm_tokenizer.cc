#include "text/spm_tokenizer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "text/utf8.h"

namespace ashlar::text {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

// More code points without a cut than this are cut anyway, so that scratch memory stays below 200
// MiB.
constexpr std::size_t kMaxSymbols = std::size_t{4} << 20;

std::string UnmarkSpaces(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t mark = text.find(kSpaceMark, position);
    result += text.substr(position, mark - position);
    if (mark == text.npos) break;
    result += ' ';
    position = mark + kSpaceMark.size();
  }
  return result;
}

// Bytes of the symbol at the front of `text`: a code point, or a byte that belongs to none.
std::size_t SymbolBytes(std::string_view text) {
  const Utf8Sequence first = FirstSequence(text);
  return first.kind == Utf8Kind::kWhole ? first.bytes : 1;
}

// Orders scores as integers, the highest first. Precondition: not NaN.
std::uint32_t RankOf(float score) {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0F);  // + 0: -0 and 0 are equal
  const std::uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000;
  return ~ascending;
}

Result<std::vector<std::uint32_t>> ReadRanks(const gguf::ModelFile& file, std::size_t tokens) {
  ASHLAR_ASSIGN(const std::vector<double> scores, file.Numbers("tokenizer.ggml.scores"));
  if (scores.size() != tokens) {
    return MakeError(ErrorCode::kCorrupt, "tokenizer.ggml.scores has {} entries for {} tokens",
                     scores.size(), tokens);
  }
  std::vector<std::uint32_t> ranks;
  ranks.reserve(tokens);
  for (std::size_t i = 0; i < tokens; ++i) {
    const auto score = static_cast<float>(scores[i]);
    if (!std::isfinite(score)) {
      return MakeError(ErrorCode::kCorrupt, "token {} has score {}; scores are finite", i,
                       scores[i]);
    }
    ranks.push_back(RankOf(score));
  }
  return ranks;
}

}  // namespace

std::size_t NeighbourSet::BitOf(std::string_view left, std::string_view right) {
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  std::memcpy(&a, left.data(), std::min(left.size(), sizeof(a)));
  std::memcpy(&b, right.data(), std::min(right.size(), sizeof(b)));
  return MixBits((std::uint64_t{a} << 32) | b) % kBits;
}

struct SpmTokenizer::Scratch {
  std::vector<Symbol> symbols;
  PairMerger merger;
  bool is_in_unknown_run = false;  // the last token is an unknown one put there by us
};

Result<SpmTokenizer::SpmParts> SpmTokenizer::BuildPieces(const gguf::ModelFile& file,
                                                         const Vocabulary& vocabulary,
                                                         Parts& parts) {
  SpmParts spm;
  ASHLAR_ASSIGN(spm.ranks, ReadRanks(file, vocabulary.size()));
  spm.byte_tokens.fill(-1);
  std::vector<TokenId> encodable;
  for (std::size_t i = 0; i < vocabulary.size(); ++i) {
    const auto token = static_cast<TokenId>(i);
    const std::string_view text = vocabulary.texts[i];
    if (vocabulary.types[i] == TokenType::kByte) {
      ASHLAR_ASSIGN(const std::uint8_t byte, ParseByteToken(token, text));
      spm.byte_tokens[byte] = token;
      const char c = static_cast<char>(byte);
      parts.pieces.Add({&c, 1});
    } else if (IsPlain(vocabulary.types[i])) {
      parts.pieces.Add(UnmarkSpaces(text));
      // Texts have no plain spaces once they are marked, so a token with one is never found.
      if (!text.empty() && text.find(' ') == text.npos) encodable.push_back(token);
    } else {
      parts.pieces.Add(text);
    }
  }
  parts.plain_ids = TokenTable(encodable.size());
  for (const TokenId token : encodable) {
    std::string_view piece = parts.pieces[token];
    ASHLAR_TRY(InsertToken(parts.plain_ids, piece, token));
    spm.longest_piece = std::max(spm.longest_piece, piece.size());
    for (std::size_t left = SymbolBytes(piece); left < piece.size(); left = SymbolBytes(piece)) {
      const std::string_view rest = piece.substr(left);
      spm.neighbours.Add(piece.substr(0, left), rest.substr(0, SymbolBytes(rest)));
      piece = rest;
    }
  }
  return spm;
}

Result<std::unique_ptr<const Tokenizer>> SpmTokenizer::Create(const gguf::ModelFile& file) {
  ASHLAR_ASSIGN(const Vocabulary vocabulary,
                Vocabulary::Read(file, {.add_bos = true, .bos = 1, .eos = 2}));
  Parts parts;
  ASHLAR_ASSIGN(SpmParts spm, BuildPieces(file, vocabulary, parts));
  const auto missing = std::find(spm.byte_tokens.begin(), spm.byte_tokens.end(), -1);
  if (missing != spm.byte_tokens.end() && !vocabulary.special.unknown) {
    return MakeError(
        ErrorCode::kCorrupt,
        "the vocabulary has neither a token '<0x{:02X}>' nor an unknown token, so some texts "
        "could not be encoded",
        missing - spm.byte_tokens.begin());
  }
  ASHLAR_ASSIGN(parts.adds_space_prefix, file.BoolOr("tokenizer.ggml.add_space_prefix", true));
  ASHLAR_TRY(Complete(file, vocabulary, parts));
  return std::unique_ptr<const Tokenizer>(new SpmTokenizer(std::move(parts), std::move(spm)));
}

SpmTokenizer::SpmTokenizer(Parts parts, SpmParts spm_parts)
    : VocabularyTokenizer(std::move(parts)), spm_(std::move(spm_parts)) {}

void SpmTokenizer::EncodeStretch(std::string_view stretch, std::vector<TokenId>& out) const {
  std::string text = adds_space_prefix() ? " " : "";
  text += UnmarkSpaces(stretch);

  Scratch scratch;
  const std::string_view view = text;
  std::string_view previous;
  for (std::size_t begin = 0; begin < view.size();) {
    const std::string_view symbol = view.substr(begin, SymbolBytes(view.substr(begin)));
    const bool is_cut = !previous.empty() && (scratch.symbols.size() >= kMaxSymbols ||
                                              !spm_.neighbours.MayContain(previous, symbol));
    if (is_cut) MergeSymbols(view, scratch, out);
    scratch.symbols.push_back({begin, static_cast<std::uint32_t>(symbol.size()), -1, Merge{}});
    previous = symbol;
    begin += symbol.size();
  }
  MergeSymbols(view, scratch, out);
}

void SpmTokenizer::MergeSymbols(std::string_view text, Scratch& scratch,
                                std::vector<TokenId>& out) const {
  scratch.merger.Run(scratch.symbols, [&](const Symbol& left, const Symbol& right) {
    const std::size_t bytes = std::size_t{left.bytes} + right.bytes;
    if (bytes > spm_.longest_piece) return Merge{};
    const auto token = plain_ids().Find(text.substr(left.begin, bytes));
    return token ? Merge{spm_.ranks[static_cast<std::size_t>(*token)], *token} : Merge{};
  });
  for (const Symbol& symbol : scratch.symbols) {
    const std::string_view bytes = text.substr(symbol.begin, symbol.bytes);
    // A code point that merged with nothing may still be a token.
    const TokenId token = symbol.token >= 0 ? symbol.token : plain_ids().Find(bytes).value_or(-1);
    if (token >= 0) {
      out.push_back(token);
      scratch.is_in_unknown_run = false;
    } else {
      AppendBytes(bytes, scratch, out);
    }
  }
  scratch.symbols.clear();
}

void SpmTokenizer::AppendBytes(std::string_view bytes, Scratch& scratch,
                               std::vector<TokenId>& out) const {
  const bool has_tokens = std::all_of(bytes.begin(), bytes.end(), [&](char c) {
    return spm_.byte_tokens[static_cast<unsigned char>(c)] >= 0;
  });
  if (has_tokens) {
    for (const char c : bytes) out.push_back(spm_.byte_tokens[static_cast<unsigned char>(c)]);
  } else if (!scratch.is_in_unknown_run) {  // a run is one unknown token
    out.push_back(*unknown_token());
  }
  scratch.is_in_unknown_run = !has_tokens;
}

}  // namespace ashlar::text
