// Cuts a text into words before byte-level BPE: merges never cross a word's edge. Which cut a model
// was trained with is named by its file (tokenizer.ggml.pre).
//
// A cut is one or more regular expressions, run by PCRE2: each stage cuts every piece the stage
// before it left into its matches and the gaps between them. Words joined are always the whole
// text.
//
// Immutable after construction; Split may be called from any thread at once.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ashlar::text {

class PreTokenizer {
 public:
  // `name`: "gpt-2", "llama-bpe", "qwen2", "smollm", ... Errors: kUnsupported, listing the names we
  // know.
  static Result<PreTokenizer> Create(std::string_view name);

  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // Appends the words of `text`, which they point into. Any bytes: those that are not UTF-8 are cut
  // like unassigned symbols. Linear in practice: no expression here can backtrack over more than a
  // run of white space.
  void Split(std::string_view text, std::vector<std::string_view>& words) const;

  // A word that is a token as a whole stays one, even where no sequence of merges would build it.
  bool keeps_whole_words() const { return keeps_whole_words_; }
  // Whether models with this cut begin texts with a token when their file does not say.
  bool adds_bos() const { return adds_bos_; }

 private:
  class Expression;

  PreTokenizer();

  std::vector<std::unique_ptr<const Expression>> stages_;
  bool keeps_whole_words_ = false;
  bool adds_bos_ = false;
};

}  // namespace ashlar::text
