// SentencePiece BPE (tokenizer.ggml.model "llama"): no words, no merge list. Neighbours merge when
// their joined text is a token, the token with the highest score first. Text that no token covers
// becomes byte tokens ("<0x41>"), or the unknown token in vocabularies without them.
//
// Files spell a space as U+2581; inside, tokens are their bytes, spaces as spaces. As in
// SentencePiece, U+2581 in a text is a space too.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/pair_merger.h"
#include "text/vocabulary_tokenizer.h"

namespace ashlar::text {

// Which code points stand side by side in some token. Where two do not, no token can span their
// border, so the text is cut there and both sides are encoded on their own: the same result, and
// the merge loop works on words instead of megabytes. A hashed set: it may claim pairs that are not
// there (the cut is missed), never the reverse.
class NeighbourSet {
 public:
  void Add(std::string_view left, std::string_view right) {
    const std::size_t bit = BitOf(left, right);
    words_[bit / 64] |= std::uint64_t{1} << (bit % 64);
  }
  // left, right: one code point or one stray byte each.
  bool MayContain(std::string_view left, std::string_view right) const {
    const std::size_t bit = BitOf(left, right);
    return (words_[bit / 64] >> (bit % 64) & 1) != 0;
  }

 private:
  static constexpr std::size_t kBits = std::size_t{1} << 20;  // 128 KiB: stays in the cache
  static std::size_t BitOf(std::string_view left, std::string_view right);

  std::vector<std::uint64_t> words_ = std::vector<std::uint64_t>(kBits / 64);
};

class SpmTokenizer final : public VocabularyTokenizer {
 public:
  // Errors: as Tokenizer::Create.
  static Result<std::unique_ptr<const Tokenizer>> Create(const gguf::ModelFile& file);

 protected:
  void EncodeStretch(std::string_view stretch, std::vector<TokenId>& out) const override;

 private:
  struct Scratch;
  struct SpmParts {
    std::vector<std::uint32_t> ranks;        // by token: lower merges first
    std::array<TokenId, 256> byte_tokens{};  // -1: none
    NeighbourSet neighbours;
    std::size_t longest_piece = 0;
  };

  SpmTokenizer(Parts parts, SpmParts spm_parts);
  static Result<SpmParts> BuildPieces(const gguf::ModelFile& file, const Vocabulary& vocabulary,
                                      Parts& parts);
  // Both append the tokens of scratch.symbols, resp. of one symbol that no token covers.
  void MergeSymbols(std::string_view text, Scratch& scratch, std::vector<TokenId>& out) const;
  void AppendBytes(std::string_view bytes, Scratch& scratch, std::vector<TokenId>& out) const;

  SpmParts spm_;
};

}  // namespace ashlar::text
