// Byte-level BPE (tokenizer.ggml.model "gpt2"): the text is cut into words, the bytes of each word
// are merged by the ranks of the file's merge list. Every byte has a token of its own in most
// vocabularies; a byte that has none, and that no merge covers, is left out, as the reference
// tokenizers do.
//
// Files spell bytes as printable characters ("Ġ" is a space); inside, tokens are their bytes.
#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "text/pre_tokenizer.h"
#include "text/token_table.h"
#include "text/vocabulary_tokenizer.h"

namespace ashlar::text {

class BpeTokenizer final : public VocabularyTokenizer {
 public:
  // Errors: as Tokenizer::Create.
  static Result<std::unique_ptr<const Tokenizer>> Create(const gguf::ModelFile& file);

 protected:
  void EncodeStretch(std::string_view stretch, std::vector<TokenId>& out) const override;

 private:
  struct Scratch;

  BpeTokenizer(Parts parts, PreTokenizer pre_tokenizer, MergeTable merges);
  void EncodeWord(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;

  PreTokenizer pre_tokenizer_;
  MergeTable merges_;
  std::array<TokenId, 256> byte_tokens_;  // -1: none
};

}  // namespace ashlar::text
