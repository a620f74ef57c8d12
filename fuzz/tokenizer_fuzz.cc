// The first byte chooses: a text for small vocabularies that are known to be right, a vocabulary
// put together from the input, or the input as a whole model file. Whatever loads must encode any
// text to tokens of the vocabulary, decode them, and stream them as Detokenizer promises.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "gguf/model_file.h"
#include "gguf/testing/gguf_writer.h"
#include "text/testing/tiny_models.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace ashlar::text {
namespace {

constexpr std::size_t kMaxTokensPerInput = 4096;

std::string UnmarkSpaces(std::string text) {
  constexpr std::string_view kMark = "\xE2\x96\x81";
  for (auto at = text.find(kMark); at != text.npos; at = text.find(kMark, at)) {
    text.replace(at, kMark.size(), " ");
  }
  return text;
}

// What holds for every tokenizer and every text. Returns the tokens.
std::vector<TokenId> Exercise(const Tokenizer& tokenizer, std::string_view text,
                              const EncodeOptions& options) {
  const std::vector<TokenId> ids = tokenizer.Encode(text, options);
  Detokenizer detokenizer(tokenizer, {.with_special = true});
  std::string streamed;
  for (const TokenId id : ids) {
    ASHLAR_CHECK(id >= 0 && static_cast<std::size_t>(id) < tokenizer.vocab_size());
    const std::string piece = detokenizer.Push(id);
    ASHLAR_CHECK(WholePrefix(piece) == piece.size());
    streamed += piece;
  }
  streamed += detokenizer.Finish();
  ASHLAR_CHECK(streamed == ReplaceInvalid(tokenizer.Decode(ids, true)));
  return ids;
}

// Small vocabularies that cover every byte: what goes in comes out.
void FuzzText(std::uint8_t choice, std::string_view text) {
  static const std::array<std::unique_ptr<const Tokenizer>, 4> kTokenizers = {
      MustCreateTokenizer(TinyBpe()),
      MustCreateTokenizer(TinyBpe().Set("tokenizer.ggml.pre", "llama-bpe")),
      MustCreateTokenizer(TinyBpe().Set("tokenizer.ggml.pre", "default")),
      MustCreateTokenizer(TinySpm())};
  const std::size_t which = choice % kTokenizers.size();
  const bool parse_special = (choice & 4) != 0;
  const Tokenizer& tokenizer = *kTokenizers[which];
  const auto ids =
      Exercise(tokenizer, text, {.add_special = false, .parse_special = parse_special});
  const std::string decoded = tokenizer.Decode(ids, true);
  if (which < 3) {
    ASHLAR_CHECK(decoded == text);
  } else if (!parse_special && text.find("<tool>") == text.npos) {  // no space is put after a token
    ASHLAR_CHECK(UnmarkSpaces(decoded) == UnmarkSpaces(std::string(text)));
  }
  if (!parse_special) {
    for (const TokenId id : ids) ASHLAR_CHECK(!tokenizer.IsSpecial(id));
  }
}

// Tokens, types, scores and merges from the lines of `input`: "<type><text>" for a token (its
// length is the score's sign and size), "+<merge>" for a merge.
void FuzzVocabulary(bool is_spm, std::string_view input) {
  std::vector<std::string> tokens;
  std::vector<std::int64_t> types;
  std::vector<double> scores;
  std::vector<std::string> merges;
  std::string_view rest = input;
  while (!rest.empty() && tokens.size() + merges.size() < kMaxTokensPerInput) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.empty()) continue;
    if (line[0] == '+') {
      merges.emplace_back(line.substr(1));
      continue;
    }
    types.push_back(line[0] - '0');
    tokens.emplace_back(line.substr(1));
    scores.push_back((line.size() % 2 == 0 ? -1.0 : 1.0) * static_cast<double>(line.size() % 7));
  }
  gguf::GgufWriter writer;
  writer.Set("tokenizer.ggml.model", is_spm ? "llama" : "gpt2")
      .SetStrings("tokenizer.ggml.tokens", tokens)
      .SetIntegers("tokenizer.ggml.token_type", types)
      .SetFloats("tokenizer.ggml.scores", scores)
      .SetStrings("tokenizer.ggml.merges", merges)
      .Set("tokenizer.ggml.pre", "gpt-2")
      .SetBool("tokenizer.ggml.add_bos_token", false);
  const auto tokenizer = CreateTokenizer(writer);
  if (!tokenizer.ok()) return;
  Exercise(**tokenizer, input, {.add_special = false, .parse_special = false});
  Exercise(**tokenizer, input, {.add_special = true, .parse_special = true});
}

void FuzzFile(std::string_view input) {
  const auto bytes = std::as_bytes(std::span(input));
  const auto file = gguf::ModelFile::Parse(bytes, "fuzz");
  if (!file.ok()) return;
  const auto tokenizer = Tokenizer::Create(*file);
  if (!tokenizer.ok()) return;
  Exercise(**tokenizer, input, {.add_special = true, .parse_special = true});
  Exercise(**tokenizer, input, {.add_special = false, .parse_special = false});
}

}  // namespace
}  // namespace ashlar::text

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::uint8_t choice = data[0];
  const std::string_view input(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (choice % 4) {
    case 0:
      ashlar::text::FuzzFile(input);
      break;
    case 1:
      ashlar::text::FuzzVocabulary((choice & 4) != 0, input);
      break;
    default:
      ashlar::text::FuzzText(static_cast<std::uint8_t>(choice >> 2), input);
  }
  return 0;
}
