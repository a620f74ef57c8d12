// tokenizer.json and its neighbours in GGUF's words: what src/text asks of a model's metadata.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"
#include "hf/builder.h"
#include "hf/config.h"
#include "hf/json.h"

namespace ashlar::hf {

inline constexpr std::uint64_t kMaxTokenizerBytes = std::uint64_t{256} << 20;

// Writes tokens, types, merges or scores of `json` (a tokenizer.json) for an embedding table of
// `rows`; rows without a token get an empty one, added tokens without a row are left out. Errors:
// kUnsupported (another kind of tokenizer, named), kCorrupt naming the token.
Status ReadVocabulary(const Json& json, std::uint64_t rows, Builder& builder);

// Reads tokenizer.json, and where they are there: tokenizer_config.json (special tokens, chat
// template), chat_template.jinja, generation_config.json (tokens that end a text).
Status ReadTokenizer(const std::filesystem::path& folder, const Config& config, std::uint64_t rows,
                     Builder& builder);

}  // namespace ashlar::hf
