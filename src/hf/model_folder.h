// A folder of safetensors as Hugging Face lays it out, as a model in GGUF's words: the rest of the
// program does not know which of the two it runs.
//
//   config.json            the architecture
//   *.safetensors          weights, in one file or by model.safetensors.index.json
//   tokenizer.json         vocabulary; tokenizer_config.json, chat_template.jinja and
//                          generation_config.json beside it
//
// Opening reads these and the headers of the weights, and of int4 weights what says which formats
// they fit; the weights stay in their files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "gguf/model_file.h"

namespace ashlar::hf {

enum class FolderParts : std::uint8_t {
  kAll,
  kWithoutText,  // no vocabulary, no template
};

// The folder that `path` means: itself, or that of a .safetensors file, its index or a config.json.
// Nothing when it is none of these.
std::optional<std::string> ModelFolderOf(const std::string& path);

// Errors: kNotFound, kIo; kCorrupt and kUnsupported naming the file and the field, tensor or token.
Result<gguf::ModelFile> OpenFolder(const std::string& folder, FolderParts parts);

// A model of either kind: a folder as above, else a GGUF file.
Result<gguf::ModelFile> OpenModel(const std::string& path, FolderParts parts);

}  // namespace ashlar::hf
