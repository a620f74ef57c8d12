#include "text/bpe_tokenizer.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "gguf/describe.h"
#include "text/pair_merger.h"
#include "text/utf8.h"

namespace ashlar::text {
namespace {

// A longer word is cut, so that scratch memory stays below 200 MiB. No published text has such
// words.
constexpr std::size_t kMaxWordBytes = std::size_t{4} << 20;

// GPT-2's spelling of bytes: printable Latin-1 characters stand for themselves, the 68 other bytes,
// in order, for U+0100 and up.
constexpr char32_t kFirstShifted = 0x100;
constexpr char32_t kLastShifted = kFirstShifted + 67;

constexpr bool SpellsItself(char32_t c) {
  return (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF);
}

constexpr std::array<std::uint8_t, 68> kShiftedBytes = [] {
  std::array<std::uint8_t, 68> bytes{};
  std::size_t count = 0;
  for (char32_t c = 0; c < 256; ++c) {
    if (!SpellsItself(c)) bytes[count++] = static_cast<std::uint8_t>(c);
  }
  return bytes;
}();

// The bytes that `spelled` stands for; nothing when it is not spelled GPT-2's way.
std::optional<std::string> Unspell(std::string_view spelled) {
  std::string bytes;
  while (!spelled.empty()) {
    const auto first = static_cast<unsigned char>(spelled[0]);
    char32_t c = first;
    std::size_t size = 1;
    if (first >= 0x80) {  // all characters in use lie below U+0800: two bytes
      if (FirstSequence(spelled).kind != Utf8Kind::kWhole || first >= 0xE0) return std::nullopt;
      c = (char32_t{first} & 0x1F) << 6 | (static_cast<unsigned char>(spelled[1]) & 0x3F);
      size = 2;
    }
    if (SpellsItself(c)) {
      bytes += static_cast<char>(c);
    } else if (c >= kFirstShifted && c <= kLastShifted) {
      bytes += static_cast<char>(kShiftedBytes[c - kFirstShifted]);
    } else {
      return std::nullopt;
    }
    spelled.remove_prefix(size);
  }
  return bytes;
}

// "left right" of the merge list, by the first space that is not the very first character.
Result<std::pair<TokenId, TokenId>> ParseMerge(const Vocabulary& vocabulary, std::size_t rank,
                                               std::string_view merge) {
  const std::size_t space = merge.empty() ? merge.npos : merge.find(' ', 1);
  if (space == merge.npos) {
    return MakeError(ErrorCode::kCorrupt,
                     "merge {} is {}; merges are two tokens and a space between", rank,
                     gguf::Quote(merge));
  }
  const auto left = vocabulary.ids.Find(merge.substr(0, space));
  const auto right = vocabulary.ids.Find(merge.substr(space + 1));
  if (!left || !right) {
    return MakeError(ErrorCode::kCorrupt, "merge {} is {}, but {} is not a token", rank,
                     gguf::Quote(merge),
                     gguf::Quote(left ? merge.substr(space + 1) : merge.substr(0, space)));
  }
  return std::pair(*left, *right);
}

Result<MergeTable> ReadMerges(const gguf::ModelFile& file, const Vocabulary& vocabulary) {
  ASHLAR_ASSIGN(const auto merges, file.Strings("tokenizer.ggml.merges"));
  if (merges.size() > kMaxTokens) {
    return MakeError(ErrorCode::kUnsupported, "tokenizer.ggml.merges holds {} merges; at most {}",
                     merges.size(), kMaxTokens);
  }
  MergeTable table(merges.size());
  std::string joined;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    ASHLAR_ASSIGN(const auto pair, ParseMerge(vocabulary, rank, merges[rank]));
    const auto [left, right] = pair;
    joined = vocabulary.texts[static_cast<std::size_t>(left)];
    joined += vocabulary.texts[static_cast<std::size_t>(right)];
    const auto result = vocabulary.ids.Find(joined);
    if (!result || vocabulary.IsSpecial(*result)) {
      return MakeError(ErrorCode::kCorrupt, "merge {} is {}, but {} is {}", rank,
                       gguf::Quote(merges[rank]), gguf::Quote(joined),
                       result ? "a special token" : "not a token");
    }
    // A pair listed twice keeps its first rank.
    if (table.Insert(left, right, {static_cast<std::uint32_t>(rank), *result}) ==
        TokenTable::Inserted::kTooManyCollisions) {
      return MakeError(ErrorCode::kCorrupt, "merge {} collides with more than {} others", rank,
                       kMaxTableProbes);
    }
  }
  return table;
}

}  // namespace

struct BpeTokenizer::Scratch {
  std::vector<Symbol> symbols;
  PairMerger merger;
};

Result<std::unique_ptr<const Tokenizer>> BpeTokenizer::Create(const gguf::ModelFile& file) {
  constexpr std::string_view kPre = "tokenizer.ggml.pre";
  if (file.Find(kPre) == nullptr) {
    ASHLAR_LOG_WARNING(
        "the model file has no {}: words are cut by a general rule, which may not be the "
        "one it was trained with; convert the model again",
        kPre);
  }
  ASHLAR_ASSIGN(const std::string_view pre, file.StringOr(kPre, "default"));
  ASHLAR_ASSIGN(PreTokenizer pre_tokenizer, PreTokenizer::Create(pre));
  ASHLAR_ASSIGN(
      const Vocabulary vocabulary,
      Vocabulary::Read(file, {.add_bos = pre_tokenizer.adds_bos(), .bos = {}, .eos = {}}));
  ASHLAR_ASSIGN(MergeTable merges, ReadMerges(file, vocabulary));

  Parts parts;
  std::vector<TokenId> encodable;
  for (std::size_t i = 0; i < vocabulary.size(); ++i) {
    const auto token = static_cast<TokenId>(i);
    const std::string_view text = vocabulary.texts[i];
    if (vocabulary.types[i] == TokenType::kByte) {
      ASHLAR_ASSIGN(const std::uint8_t byte, ParseByteToken(token, text));
      const char c = static_cast<char>(byte);
      parts.pieces.Add({&c, 1});
      continue;
    }
    const auto bytes = IsPlain(vocabulary.types[i]) ? Unspell(text) : std::nullopt;
    parts.pieces.Add(bytes ? std::string_view(*bytes) : text);
    if (bytes && !bytes->empty()) encodable.push_back(token);
  }
  parts.plain_ids = TokenTable(encodable.size());
  for (const TokenId token : encodable) {
    ASHLAR_TRY(InsertToken(parts.plain_ids, parts.pieces[token], token));
  }
  ASHLAR_TRY(Complete(file, vocabulary, parts));
  return std::unique_ptr<const Tokenizer>(
      new BpeTokenizer(std::move(parts), std::move(pre_tokenizer), std::move(merges)));
}

BpeTokenizer::BpeTokenizer(Parts parts, PreTokenizer pre_tokenizer, MergeTable merges)
    : VocabularyTokenizer(std::move(parts)),
      pre_tokenizer_(std::move(pre_tokenizer)),
      merges_(std::move(merges)),
      byte_tokens_{} {
  for (std::size_t byte = 0; byte < byte_tokens_.size(); ++byte) {
    const char c = static_cast<char>(byte);
    byte_tokens_[byte] = plain_ids().Find({&c, 1}).value_or(-1);
  }
}

void BpeTokenizer::EncodeStretch(std::string_view stretch, std::vector<TokenId>& out) const {
  std::vector<std::string_view> words;
  pre_tokenizer_.Split(stretch, words);
  Scratch scratch;
  for (std::string_view word : words) {
    for (; word.size() > kMaxWordBytes; word.remove_prefix(kMaxWordBytes)) {
      EncodeWord(word.substr(0, kMaxWordBytes), scratch, out);
    }
    EncodeWord(word, scratch, out);
  }
}

void BpeTokenizer::EncodeWord(std::string_view word, Scratch& scratch,
                              std::vector<TokenId>& out) const {
  if (pre_tokenizer_.keeps_whole_words()) {
    if (const auto token = plain_ids().Find(word)) {
      out.push_back(*token);
      return;
    }
  }
  scratch.symbols.clear();
  for (std::size_t i = 0; i < word.size(); ++i) {
    const TokenId token = byte_tokens_[static_cast<unsigned char>(word[i])];
    scratch.symbols.push_back({i, 1, token, Merge{}});
  }
  scratch.merger.Run(scratch.symbols, [this](const Symbol& left, const Symbol& right) {
    return merges_.Find(left.token, right.token);
  });
  for (const Symbol& symbol : scratch.symbols) {
    if (symbol.token >= 0) out.push_back(symbol.token);
  }
}

}  // namespace ashlar::text
