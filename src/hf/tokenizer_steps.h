// What tokenizer.json does to a text before and after its vocabulary: normalizer, pre-tokenizer and
// post-processor, as far as src/text has the same.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "hf/json.h"

namespace ashlar::hf {

// How texts are cut: GGUF's name of a cut of byte-level words, or SentencePiece's spaces.
struct TokenizerSteps {
  bool is_byte_level = false;
  std::string_view cut;            // of byte-level words: tokenizer.ggml.pre
  bool adds_space_prefix = false;  // of SentencePiece
  // Texts of the tokens put around a text.
  std::optional<std::string_view> first;
  std::optional<std::string_view> last;
  bool has_template = false;  // whether the file says so at all
};

// `keeps_whole_words`: ignore_merges of the model. Views point into the document. Errors:
// kUnsupported naming the step that src/text does not have.
Result<TokenizerSteps> ReadTokenizerSteps(const Json& json, bool keeps_whole_words);

}  // namespace ashlar::hf
